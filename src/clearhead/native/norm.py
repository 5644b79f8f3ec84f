"""The RMS norm of one token, which takes PyTorch eight operations and longer than a product."""

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.native.library import function, unseen

__all__ = ["rms_norm"]


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
        x: one token's vector, or its heads' as (1, heads, 1, width); of several tokens None is
            given, for theirs are to have PyTorch's bits.
        weight: w; None is none.
        epsilon: ε.
        offset: added to w.
        rounds: whether x over the root is rounded to the dtype of x before the product with w.
    """
    if not unseen(x, weight) or x.ndim < 2 or not x.shape[0] == x.shape[-2] == 1:
        return None
    native, width = function("rms_norm", x.dtype), x.shape[-1]
    if native is None:
        return None
    if weight is not None and not (
        weight.dtype == x.dtype and weight.shape == (width,) and weight.is_contiguous()
    ):
        return None
    x = x.contiguous()
    made = torch.empty_like(x)
    pointer = None if weight is None else weight.data_ptr()
    rows = x.numel() // width
    native(x.data_ptr(), pointer, made.data_ptr(), rows, width, epsilon, offset, rounds)
    return made
