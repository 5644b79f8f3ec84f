"""Released models: our Transformer with the weights of a model folder."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clearhead.errors import CheckpointError
from clearhead.tokens import TextTokenizer
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.families.family import Family
from clearhead.transformer.families.spelling import described
from clearhead.transformer.model import Transformer
from clearhead.transformer.model_folder import ModelFolder
from clearhead.transformer.weights import Undrawn, names_in, read_weights

__all__ = ["Released", "load_released", "outline"]


@dataclass(frozen=True, slots=True)
class Released:
    """Where a loaded model comes from: its ``clearhead_released``, which saving it goes by.

    Attributes:
        keys: its ``config.json``.
        folder: its folder, as it was then.
        tokenizer: the tokenizer that came with it, or None.
    """

    keys: Mapping[str, Any]
    folder: Path
    tokenizer: TextTokenizer | None = None


def load_released(
    folder: ModelFolder, *, dtype: torch.dtype, device: torch.device | str
) -> Transformer:
    """Load a released model: ``config.json`` beside weights in safetensors.

    Args:
        folder: the folder, looked over.
        dtype: dtype of the weights in memory. Where it is the file's, on the CPU, the weights stay
            mapped to the file and are read when they are first used.
        device: where the weights go.

    Returns:
        The model, in evaluation mode.

    Raises:
        CheckpointError: a setting is not known, or tensors are missing, unexpected or misshaped.
    """
    told = described(folder.config)
    family, config = told.family, told.config
    names = names_in(folder.files)
    _check_depth(folder, config, len(names))
    model = outline(config, folder.path / "config.json")
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    stored = family.stored(shapes, gated=config.gated)
    theirs = _spelling(family, names)
    ignored = family.ignored.replace(re.escape(family.prefix), re.escape(theirs(family.prefix)))
    tensors = read_weights(
        folder.files,
        {
            theirs(one.theirs): one.layout.shape([shapes[name] for name in one.ours])
            for one in stored
        },
        twins={theirs(twin): theirs(name) for twin, name in family.twins.items()},
        ignored=ignored,
        dtype=dtype,
        device=device,
    )
    ours: dict[str, torch.Tensor] = {}
    for one in stored:
        wanted = [shapes[name] for name in one.ours]
        parts = one.layout.split(tensors.pop(theirs(one.theirs)), wanted, heads=config.heads)
        ours.update(zip(one.ours, parts, strict=True))
    model.load_state_dict(ours, strict=False, assign=True)
    model.tie()
    vars(model).update(clearhead_released=Released(folder.config, folder.path))
    return model.eval()


def outline(config: TransformerConfig, file: Path) -> Transformer:
    """A model of the right shapes without numbers, built at once whatever its size.

    Args:
        config: its configuration.
        file: the file that holds the configuration, for errors.

    Returns:
        The model, on the meta device.

    Raises:
        CheckpointError: a tensor would have more numbers than can be counted in 63 bits.
    """
    try:
        with torch.device("meta"), Undrawn():
            return Transformer(config)
    except (RuntimeError, TypeError, OverflowError) as fault:
        reason = str(fault).splitlines()[0]
        raise CheckpointError(f"{file} describes tensors that cannot be: {reason}") from fault


def _check_depth(folder: ModelFolder, config: TransformerConfig, tensors: int) -> None:
    """Refuse more layers than there are tensors, before a model of that many is built."""
    layers = config.layers + (0 if config.encoder is None else config.encoder.layers)
    if layers > tensors:
        raise CheckpointError(
            f"{folder.path / 'config.json'} says there are {layers:,} layers, and the weights are "
            f"{tensors:,} tensors: that cannot be"
        )


def _spelling(family: Family, names: Collection[str]) -> Callable[[str], str]:
    """How a checkpoint spells the family's names.

    One saved without a head has no prefix, and the first BERTs call a norm's weight and bias gamma
    and beta.
    """
    has_prefix = any(name.startswith(family.prefix) for name in names)

    def theirs(name: str) -> str:
        name = name if has_prefix else name.removeprefix(family.prefix)
        old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        old = old.replace("LayerNorm.bias", "LayerNorm.beta")
        return old if old in names else name

    return theirs
