"""The RMS norm of a few rows, which takes PyTorch eight operations and longer than a product."""

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.native.library import function, unseen

__all__ = ["rms_norm"]

#: Of more numbers PyTorch's operations take as long as reading them, on all cores.
MOST = 2**15


def rms_norm(
    x: Float[Tensor, "*batch width"],
    weight: Float[Tensor, "width"] | None,
    *,
    epsilon: float,
    offset: float,
    rounds: bool,
) -> Float[Tensor, "*batch width"] | None:
    """``y = (w + offset) · x / √(mean(x²) + ε)``, or None where PyTorch's operations must make it.

    Args:
        x: rows.
        weight: w; None is none.
        epsilon: ε.
        offset: added to w.
        rounds: whether x over the root is rounded to the dtype of x before the product with w.
    """
    native = function("rms_norm", x.dtype)
    width = x.shape[-1]
    if (
        native is None
        or not 0 < x.numel() <= MOST
        or (weight is not None and (weight.dtype != x.dtype or not weight.is_contiguous()))
        or not unseen(x, weight)
    ):
        return None
    x = x.contiguous()
    made = torch.empty_like(x)
    pointer = None if weight is None else weight.data_ptr()
    rows = x.numel() // width
    native(x.data_ptr(), pointer, made.data_ptr(), rows, width, epsilon, offset, rounds)
    return made
