"""How a model gets the numbers of a released one: every tensor wanted is there, and no other."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from clearhead.errors import CheckpointError, gathered
from clearhead.transformer.weight_files import KINDS, WeightFile, opened

__all__ = ["Undrawn", "names_in", "read_weights"]


class Undrawn(TorchFunctionMode):
    """Inside, a new module has parameters of the right shape, but no numbers are drawn for them.

    Together with the meta device, a model whose weights come from a file is built at once. (On that
    device alone, the first random number would import PyTorch's compiler, which takes seconds.)
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Collection[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Leave a tensor as it is where ``torch.nn.init`` would draw numbers into it."""
        del types
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


def names_in(files: Sequence[Path]) -> frozenset[str]:
    """Names of all tensors in some files.

    Args:
        files: the files.

    Raises:
        CheckpointError: a file cannot be read.
    """
    with opened(files) as found:
        return frozenset(name for one in found for name in one.outlines)


def read_weights(
    files: Sequence[Path],
    wanted: Mapping[str, torch.Size],
    *,
    twins: Mapping[str, str],
    ignored: str = r"(?!)",
    dtype: torch.dtype,
    device: torch.device | str,
) -> dict[str, Tensor]:
    """Read exactly the wanted tensors of some files.

    Args:
        files: safetensors files, or pickles, which are read with ``weights_only``; where dtype and
            device are theirs, tensors stay mapped to them and are read when they are first used, so
            they must not be rewritten in place.
        wanted: shape by name.
        twins: names that may be there too, or instead, by the name they must equal.
        ignored: pattern of whole names that may be there and are not read.
        dtype: dtype of the result.
        device: device of the result.

    Returns:
        The wanted tensors by name.

    Raises:
        CheckpointError: a file cannot be read, or tensors are missing, unexpected, there twice, of
            another shape, no floating-point numbers, or not equal to their twins; all faults at
            once.
    """
    with opened(files) as found:
        place = {
            name: one
            for one in found
            for name in one.outlines
            if name in wanted or not re.fullmatch(ignored, name)
        }
        twins = {twin: name for twin, name in twins.items() if twin not in wanted}
        at = {name: name for name in wanted}
        at |= {name: twin for twin, name in twins.items() if twin in place and name not in place}
        faults = _faults(place, {at[name]: shape for name, shape in wanted.items()}, twins)
        faults += [f"{name} is in several files" for name in _repeated(found)]
        if not faults:
            return {name: place[at[name]].tensor(at[name]).to(device, dtype) for name in wanted}
    raise CheckpointError(gathered(f"the weights in {files[0].parent} do not fit", faults))


def _repeated(found: Sequence[WeightFile]) -> list[str]:
    counts = Counter(name for one in found for name in one.outlines)
    return sorted(name for name, count in counts.items() if count > 1)


def _faults(
    place: Mapping[str, WeightFile], wanted: Mapping[str, torch.Size], twins: Mapping[str, str]
) -> list[str]:
    """Say what is wrong, given which open file holds each tensor."""
    faults = [f"missing {name} {tuple(wanted[name])}" for name in wanted if name not in place]
    faults += [f"unexpected {name}" for name in sorted(place.keys() - wanted.keys() - twins.keys())]
    for name in (name for name in wanted if name in place):
        outline = place[name].outlines[name]
        if outline.shape != tuple(wanted[name]):
            faults.append(f"{name} has shape {outline.shape}, expected {tuple(wanted[name])}")
        if outline.kind not in KINDS.values():
            faults.append(f"{name} holds {outline.kind}, expected floating-point numbers")
    for twin, name in twins.items():
        if {name, twin} <= place.keys() and not _equal(place, name, twin):
            faults.append(f"{twin} differs from {name}, though the config ties them")
    return faults


def _equal(place: Mapping[str, WeightFile], name: str, twin: str) -> bool:
    return torch.equal(place[name].tensor(name), place[twin].tensor(twin))
