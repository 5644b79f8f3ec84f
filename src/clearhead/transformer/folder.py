"""A released model's folder, read strictly: every tensor wanted is there, and no other.

One of the few files that let in unknown types: safetensors has none.
"""

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.overrides import TorchFunctionMode

from clearhead.errors import CheckpointError, gathered

__all__ = ["Undrawn", "read_config", "read_weights"]

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
        """Leave a tensor as it is where a function of ``torch.nn.init`` would fill it."""
        del types
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


def read_config(file: Path) -> dict[str, object]:
    """Read a ``config.json``.

    Args:
        file: the file.

    Returns:
        Its keys.

    Raises:
        CheckpointError: it is not there or holds no JSON object.
    """
    try:
        keys = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} cannot be read as JSON: {error}") from error
    if not isinstance(keys, dict):
        raise CheckpointError(f"{file} must hold an object, got {type(keys).__name__}")
    return cast("dict[str, object]", keys)


def read_weights(
    file: Path,
    wanted: Mapping[str, torch.Size],
    *,
    ties: Mapping[str, str],
    dtype: torch.dtype,
    device: torch.device | str,
) -> dict[str, Tensor]:
    """Read exactly the wanted tensors of a safetensors file.

    Args:
        file: the file; where dtype and device are the file's, tensors stay mapped to it and are
            read when they are first used, so it must not be rewritten in place.
        wanted: shape by name.
        ties: names that may be absent because they must equal the tensor named beside them.
        dtype: dtype of the result.
        device: device of the result.

    Returns:
        The wanted tensors by name.

    Raises:
        CheckpointError: the file cannot be read, or tensors are missing, unexpected, of another
            shape, no floating-point numbers, or not equal to what they are tied to; all faults at
            once.
    """
    try:
        with _open(file, framework="pt") as opened:
            faults = _faults(opened, wanted, ties)
            if faults:
                raise CheckpointError(gathered(f"{file} does not fit its config.json", faults))
            return {name: opened.get_tensor(name).to(device, dtype) for name in wanted}
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{file} cannot be read as safetensors: {error}") from error


def _faults(opened: Any, wanted: Mapping[str, torch.Size], ties: Mapping[str, str]) -> list[str]:
    there = set(cast("list[str]", opened.keys()))
    faults = [f"missing {name} {tuple(wanted[name])}" for name in wanted if name not in there]
    faults += [f"unexpected {name}" for name in sorted(there - wanted.keys() - ties.keys())]
    for name in (name for name in wanted if name in there):
        tensor = opened.get_slice(name)
        shape, kind = tuple(tensor.get_shape()), tensor.get_dtype()
        if shape != tuple(wanted[name]):
            faults.append(f"{name} has shape {shape}, expected {tuple(wanted[name])}")
        if kind not in _FLOATING:
            faults.append(f"{name} holds {kind}, expected floating-point numbers")
    for name, twin in ties.items():
        if {name, twin} <= there and not _equal(opened, name, twin):
            faults.append(f"{name} differs from {twin}, though the config ties them")
    return faults


def _equal(opened: Any, name: str, twin: str) -> bool:
    return torch.equal(opened.get_tensor(name), opened.get_tensor(twin))
