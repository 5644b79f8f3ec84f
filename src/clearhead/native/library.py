"""The native functions, and who may call them: whoever loses nothing if PyTorch does not see it."""

import ctypes
import logging
import subprocess
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from clearhead.native.building import AbsentError, build

__all__ = ["function", "unseen"]

_LOG = logging.getLogger("clearhead")
_POINTER, _LONG, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_long, ctypes.c_int, ctypes.c_float
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "linear": (*[_POINTER] * 4, _LONG, _LONG, _INT),
    "rms_norm": (*[_POINTER] * 3, _LONG, _LONG, _FLOAT, _FLOAT, _INT),
    "rotate": (*[_POINTER] * 4, _LONG, _LONG, _LONG, _INT),
    "attend": (*[_POINTER] * 5, _FLOAT, *[_LONG] * 5, _POINTER, _POINTER, _INT),
}
_PLAIN = (Tensor, nn.Parameter)
_DTYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}
# nothing public says whether vmap and its like or a mode that watches operations are at work
_engine: Any = cast("Any", torch)._C  # noqa: SLF001  nothing public tells
_recorded: Callable[[], bool] = cast("Any", torch).jit.is_tracing
_transformed: Callable[[], bool] = _engine._are_functorch_transforms_active  # noqa: SLF001  nothing public tells
_watchers: Callable[[], int] = _engine._len_torch_dispatch_stack  # noqa: SLF001  nothing public tells
_replacers: Callable[[], int] = _engine._len_torch_function_stack  # noqa: SLF001  nothing public tells
_parts_of_dual: Callable[[Tensor], Any] = cast("Any", forward_ad).unpack_dual


def function(name: str, dtype: torch.dtype) -> Callable[..., int] | None:
    """A native function for one dtype, or None where there is none; ask :func:`unseen` first.

    Args:
        name: ``"linear"``, ``"rms_norm"``, ``"rotate"`` or ``"attend"``; its C file says what it
            takes.
        dtype: of the tensors.
    """
    return _functions().get((name, dtype))


@cache
def _functions() -> dict[tuple[str, torch.dtype], Callable[..., int]]:
    try:
        library = _loaded()
        made = {
            (name, dtype): _declared(library, f"{name}_{of}", arguments)
            for name, arguments in _ARGUMENTS.items()
            for dtype, of in _DTYPES.items()
        }
    except AbsentError as reason:
        _LOG.info("native code is not used, PyTorch's is: %s", reason)
    except (OSError, AttributeError, subprocess.SubprocessError) as fault:
        _LOG.warning("native code is not used, PyTorch's is: %s: %s", type(fault).__name__, fault)
    else:
        return made
    return {}


def _loaded() -> ctypes.CDLL:
    """The library; one that a disk spoilt is made again."""
    try:
        return ctypes.CDLL(str(build()))
    except OSError:
        return ctypes.CDLL(str(build(anew=True)))


def _declared(library: ctypes.CDLL, name: str, arguments: tuple[Any, ...]) -> Callable[..., int]:
    made = getattr(library, name)
    made.argtypes = arguments
    made.restype = _INT if name.startswith(("attend", "linear")) else None
    return made


def unseen(*tensors: Tensor | None) -> bool:
    """Whether what is made of these tensors may be made where PyTorch does not see it.

    Not where a graph is recorded, a gradient or a tangent wanted, a transform such as vmap at work,
    or a mode that watches or replaces operations; and only for plain, dense tensors in a CPU's
    memory.

    Args:
        tensors: what is read; None is nothing.
    """
    if torch.compiler.is_compiling() or _recorded() or torch.is_autocast_enabled("cpu"):
        return False
    if _transformed() or _watchers() or _replacers():
        return False
    tracked = not torch.is_inference_mode_enabled()
    for tensor in tensors:
        if tensor is None:
            continue
        if type(tensor) not in _PLAIN or not tensor.is_cpu or tensor.layout is not torch.strided:
            return False
        # one may be minus what lies in memory, or lie in none
        if tensor.is_neg() or not tensor.data_ptr() or (tracked and _followed(tensor)):
            return False
    return True


def _followed(tensor: Tensor) -> bool:
    """Whether a gradient is wanted, or a tangent hangs on it, which no flag of the tensor shows."""
    wanted = tensor.requires_grad and torch.is_grad_enabled()
    return wanted or _parts_of_dual(tensor).tangent is not None
