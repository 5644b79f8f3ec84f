"""How a model gets the numbers of a released one: every tensor wanted is there, and no other.

One of the few files that let in unknown types: safetensors has none.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.overrides import TorchFunctionMode

from clearhead.errors import CheckpointError, gathered

__all__ = ["Undrawn", "read_weights"]

_open = cast("Any", safe_open)
_FLOATING = ("F64", "F32", "F16", "BF16")


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


def read_weights(
    files: Sequence[Path],
    wanted: Mapping[str, torch.Size],
    *,
    ties: Mapping[str, str],
    dtype: torch.dtype,
    device: torch.device | str,
) -> dict[str, Tensor]:
    """Read exactly the wanted tensors of some safetensors files.

    Args:
        files: the files; where dtype and device are theirs, tensors stay mapped to them and are
            read when they are first used, so they must not be rewritten in place.
        wanted: shape by name.
        ties: names that may be absent because they must equal the tensor named beside them.
        dtype: dtype of the result.
        device: device of the result.

    Returns:
        The wanted tensors by name.

    Raises:
        CheckpointError: a file cannot be read, or tensors are missing, unexpected, there twice, of
            another shape, no floating-point numbers, or not equal to what they are tied to; all
            faults at once.
    """
    try:
        with ExitStack() as stack:
            opened = [stack.enter_context(_open(file, framework="pt")) for file in files]
            place = {name: one for one in opened for name in cast("list[str]", one.keys())}
            faults = _faults(place, wanted, ties)
            faults += [f"{name} is in several files" for name in _repeated(opened)]
            if not faults:
                return {name: place[name].get_tensor(name).to(device, dtype) for name in wanted}
    except (OSError, SafetensorError) as error:
        names = ", ".join(map(str, files))
        raise CheckpointError(f"{names} cannot be read as safetensors: {error}") from error
    raise CheckpointError(gathered(f"the weights in {files[0].parent} do not fit", faults))


def _repeated(opened: Sequence[Any]) -> list[str]:
    counts = Counter(name for one in opened for name in cast("list[str]", one.keys()))
    return sorted(name for name, count in counts.items() if count > 1)


def _faults(
    place: Mapping[str, Any], wanted: Mapping[str, torch.Size], ties: Mapping[str, str]
) -> list[str]:
    """Say what is wrong, given which open file holds each tensor."""
    faults = [f"missing {name} {tuple(wanted[name])}" for name in wanted if name not in place]
    faults += [f"unexpected {name}" for name in sorted(place.keys() - wanted.keys() - ties.keys())]
    for name in (name for name in wanted if name in place):
        tensor = place[name].get_slice(name)
        shape, kind = tuple(tensor.get_shape()), tensor.get_dtype()
        if shape != tuple(wanted[name]):
            faults.append(f"{name} has shape {shape}, expected {tuple(wanted[name])}")
        if kind not in _FLOATING:
            faults.append(f"{name} holds {kind}, expected floating-point numbers")
    for name, twin in ties.items():
        if {name, twin} <= place.keys() and not _equal(place, name, twin):
            faults.append(f"{name} differs from {twin}, though the config ties them")
    return faults


def _equal(place: Mapping[str, Any], name: str, twin: str) -> bool:
    return torch.equal(place[name].get_tensor(name), place[twin].get_tensor(twin))
