"""What an architecture of GGUF files has to say about itself: settings, names, and what is altered.

A file's settings become the configuration that Hugging Face models are described with; which
tensors it then must hold, and of which shapes, follows from our own model of that configuration.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import CheckpointError
from clearhead.transformer.families.spelling import described
from clearhead.transformer.gguf.header import GgufHeader
from clearhead.transformer.gguf.settings import Settings
from clearhead.transformer.released import outline

__all__ = ["Architecture", "Dealt", "Place", "Raised", "Stored", "Turned"]

_LAYER = re.compile(r"(?<=\.)\d+(?=\.)")
Weights = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Stored:
    """A module of the model, whose tensors stand in the file as they are.

    Attributes:
        name: its name in the model; ``{layer}`` is a number.
    """

    name: str

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape in the file of a tensor of this shape."""
        return shape

    def restored(self, weights: Weights, *, width: int) -> Weights:
        """The tensor as the model has it."""
        del width
        return weights


class Dealt(Stored):
    """Rows of W_Q or W_K in the file's order: for a rotation of neighbours, the model turns halves.

    Row (head h, half a, frequency f) of the model lies at (h, f, a) in the file.
    """

    def restored(self, weights: Weights, *, width: int) -> Weights:
        """The rows of each head in the model's order."""
        pairs = weights.reshape(-1, width // 2, 2, *weights.shape[1:])
        return pairs.swapaxes(1, 2).reshape(weights.shape)


class Raised(Stored):
    """Weights of a norm, which the model has as differences from the 1 that the file adds."""

    def restored(self, weights: Weights, *, width: int) -> Weights:
        """The differences."""
        del width
        return weights - np.float32(1)


class Turned(Stored):
    """Weights that the model has as (in, out), and the file as (out, in)."""

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The other way round."""
        return shape[::-1]

    def restored(self, weights: Weights, *, width: int) -> Weights:
        """Turned back; a bias has one axis and stays."""
        del width
        return weights.T


@dataclass(frozen=True, slots=True)
class Place:
    """Where one tensor of the file belongs.

    Attributes:
        name: its name in the model.
        shape: its shape there.
        stored: how the file has it.
        width: width of a head.
    """

    name: str
    shape: tuple[int, ...]
    stored: Stored
    width: int

    @property
    def in_file(self) -> tuple[int, ...]:
        """Its shape in the file."""
        return self.stored.shape(self.shape)

    def restored(self, weights: Weights) -> Weights:
        """The tensor as the model has it, made of the file's."""
        return self.stored.restored(weights, width=self.width)


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """An architecture's tables.

    Attributes:
        name: what files call it.
        config: makes a ``config.json`` of the settings; it need not call ``finish``.
        modules: the module in the model, or how the file has it, by the module in the file.
        settings_as_tensors: tensors that are settings in truth.
    """

    name: str
    config: Callable[[Settings], dict[str, Any]]
    modules: Mapping[str, str | Stored]
    settings_as_tensors: frozenset[str] = frozenset()

    def read(self, header: GgufHeader) -> dict[str, Any]:
        """The configuration of a file's model, as a Hugging Face ``config.json`` holds it.

        Args:
            header: the file's header.

        Raises:
            CheckpointError: settings that are missing, impossible or not understood, all at once.
        """
        settings = Settings(header, self.name)
        config = self.config(settings)
        settings.finish()
        return {"dtype": "float32", **config}

    def places(self, config: Mapping[str, Any], header: GgufHeader) -> dict[str, Place]:
        """Where each tensor of the file belongs, by its name in the file.

        Args:
            config: what `read` gave.
            header: the file's header.

        Raises:
            CheckpointError: the configuration describes no model.
        """
        try:
            told = described(config)
        except CheckpointError as fault:
            raise CheckpointError(f"{header.file} cannot be read: {fault}") from fault
        model = outline(told.config, header.file)
        shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
        here = {_stored(entry).name: (name, _stored(entry)) for name, entry in self.modules.items()}
        places: dict[str, Place] = {}
        for one in told.family.stored(shapes, gated=told.config.gated):
            shape = tuple(one.layout.shape([shapes[name] for name in one.ours]))
            number = _LAYER.search(one.theirs)
            module, _, leaf = _LAYER.sub("{layer}", one.theirs, count=1).rpartition(".")
            name, stored = here[module]
            name = name.replace("{layer}", number[0] if number else "")
            places[f"{name}.{leaf}"] = Place(one.theirs, shape, stored, told.config.d_k)
        return places


def _stored(entry: str | Stored) -> Stored:
    return Stored(entry) if isinstance(entry, str) else entry
