"""Released models: our Transformer with the weights of a model folder, and back into one."""

import re
from collections.abc import Callable, Collection

import torch

from clearhead.transformer.families.family import Family
from clearhead.transformer.families.known import family_of, from_hugging_face
from clearhead.transformer.model import Transformer
from clearhead.transformer.model_folder import ModelFolder
from clearhead.transformer.weights import Undrawn, names_in, read_weights

__all__ = ["load_released"]


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
    family, config = family_of(folder.config), from_hugging_face(folder.config)
    with torch.device("meta"), Undrawn():
        model = Transformer(config)
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    stored = family.stored(shapes, gated=config.gated)
    theirs = _spelling(family, names_in(folder.files))
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
    return model.eval()


def _spelling(family: Family, names: Collection[str]) -> Callable[[str], str]:
    """How a checkpoint spells the family's names: one saved without a head has no prefix."""
    prefix = family.prefix
    if any(name.startswith(prefix) for name in names):
        return str
    return lambda name: name.removeprefix(prefix)
