"""A model's parameters as the tensors of a checkpoint, cut into files of a size."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from clearhead.errors import InputError, gathered
from clearhead.transformer.families.family import Family
from clearhead.transformer.families.layout import Layout
from clearhead.transformer.model import Transformer
from clearhead.transformer.model_folder import INDEX, WEIGHTS
from clearhead.transformer.released import outline
from clearhead.transformer.safetensors_file import BITS, write_file
from clearhead.transformer.weight_files import KINDS

__all__ = ["Piece", "commonest_dtype", "cut", "pieces_of", "size_in_bytes", "write"]

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B", re.IGNORECASE)


@dataclass(frozen=True, eq=False, slots=True)
class Piece:
    """One tensor of a checkpoint, not yet put together.

    Attributes:
        name: its name there.
        tensors: our parameters that it holds.
        layout: how it holds them.
        shape: its shape.
        kind: its numbers, as safetensors calls them.
    """

    name: str
    tensors: tuple[Tensor, ...]
    layout: Layout
    shape: torch.Size
    kind: str

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return math.prod(self.shape) * BITS[self.kind] // 8

    def content(self, *, heads: int) -> memoryview:
        """Its bytes themselves.

        Args:
            heads: query heads of the model.
        """
        joined = self.layout.join([one.detach() for one in self.tensors], heads=heads)
        plain = joined.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        return memoryview(cast("bytes", plain))  # NumPy's arrays are buffers too


def pieces_of(model: Transformer, family: Family) -> list[Piece]:
    """A model's parameters under the names of a family, shared ones once.

    Args:
        model: the model.
        family: whose names.

    Returns:
        The tensors of a checkpoint, in the order of the model.

    Raises:
        InputError: the model has other parameters than its configuration gives it, or some that
            cannot be stored; all faults at once.
    """
    ours: dict[str, Tensor] = dict(model.named_parameters())
    faults = [*_changed(model, ours), *_unstorable(ours)]
    if faults:
        raise InputError(gathered("this model cannot be saved", faults))
    headless = not model.config.predicts
    pieces = [
        Piece(
            # a model without a head is saved without the name of what the head stands on
            one.theirs.removeprefix(family.prefix) if headless else one.theirs,
            tuple(ours[name] for name in one.ours),
            one.layout,
            one.layout.shape([ours[name].shape for name in one.ours]),
            KINDS[ours[one.ours[0]].dtype],
        )
        for one in family.stored(ours, gated=model.config.gated)
    ]
    faults = [
        f"{piece.name} would hold tensors of several dtypes"
        for piece in pieces
        if len({tensor.dtype for tensor in piece.tensors}) > 1
    ]
    if faults:
        raise InputError(gathered("this model cannot be saved", faults))
    return pieces


def _changed(model: Transformer, ours: dict[str, Tensor]) -> Iterator[str]:
    """How the parameters differ from those that the configuration gives."""
    expected = outline(model.config, Path("this model's configuration")).named_parameters()
    wanted = {name: parameter.shape for name, parameter in expected}
    yield from (f"missing {name} {tuple(wanted[name])}" for name in wanted.keys() - ours.keys())
    known = dict(model.named_parameters(remove_duplicate=False)).keys()
    extra = (ours.keys() - wanted.keys()) | (model.state_dict().keys() - known)
    yield from (f"unexpected {name}" for name in sorted(extra))
    for name in wanted.keys() & ours.keys():
        if ours[name].shape != wanted[name]:
            shape = tuple(ours[name].shape)
            yield f"{name} has shape {shape}, and the configuration says {tuple(wanted[name])}"


def _unstorable(ours: dict[str, Tensor]) -> Iterator[str]:
    for name, tensor in ours.items():
        if tensor.dtype not in KINDS:
            yield f"{name} holds {tensor.dtype}, expected one of {', '.join(map(str, KINDS))}"
        if tensor.device.type == "meta":
            yield f"{name} has a shape and no numbers: it lies on the meta device"


def commonest_dtype(pieces: Sequence[Piece]) -> str:
    """What most of the numbers are, as a configuration says it: ``float32``.

    Args:
        pieces: the tensors of a checkpoint.
    """
    counts: Counter[str] = Counter()
    for piece in pieces:
        counts[str(piece.tensors[0].dtype).removeprefix("torch.")] += math.prod(piece.shape)
    return counts.most_common(1)[0][0]


def size_in_bytes(size: int | str) -> int:
    """A size given in bytes, or in words such as ``"5GB"`` or ``"200 MiB"``.

    Args:
        size: the size.

    Raises:
        InputError: it is none.
    """
    if isinstance(size, int) and not isinstance(size, bool) and size > 0:
        return size
    told = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    if told is not None:
        step = 1024 if told[3] else 1000
        count = int(float(told[1]) * step ** " KMGT".index(told[2].upper() or " "))
        if count > 0:
            return count
    raise InputError(
        f"max_shard_size: expected bytes as a positive whole number, or a text such as '5GB', "
        f"got {size!r}"
    )


def cut(pieces: Sequence[Piece], limit: int) -> list[list[Piece]]:
    """Deal tensors out to files, in order.

    Args:
        pieces: the tensors.
        limit: the most bytes of a file; a tensor that is larger has one to itself.
    """
    files: list[list[Piece]] = [[]]
    room = limit
    for piece in pieces:
        if files[-1] and piece.nbytes > room:
            files.append([])
            room = limit
        files[-1].append(piece)
        room -= piece.nbytes
    return files


def write(files: Sequence[Sequence[Piece]], folder: Path, *, heads: int) -> list[str]:
    """Write a checkpoint's weights: one file, or several and an index of them.

    Args:
        files: the tensors of each file.
        folder: where to.
        heads: query heads of the model.

    Returns:
        Names of the files, that which the others are found by first: put into place in this order,
        they can be found whenever that stops.

    Cost:
        Memory for the largest tensor.
    """
    if len(files) == 1:
        names = [WEIGHTS["safetensors"]]
    else:
        names = [f"model-{n:05d}-of-{len(files):05d}.safetensors" for n in range(1, len(files) + 1)]
    for name, pieces in zip(names, files, strict=True):
        table = {piece.name: (piece.kind, piece.shape) for piece in pieces}
        write_file(folder / name, table, (piece.content(heads=heads) for piece in pieces))
    if len(files) == 1:
        return names
    total = sum(piece.nbytes for pieces in files for piece in pieces)
    places = {piece.name: name for name, held in zip(names, files, strict=True) for piece in held}
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / INDEX["safetensors"]).write_text(json.dumps(index, indent=2), encoding="utf-8")
    return [INDEX["safetensors"], *names]
