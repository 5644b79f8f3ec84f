"""Rotation of one token's heads, which takes PyTorch six operations."""

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.native.library import function, unseen

__all__ = ["turned"]


def turned(
    x: Float[Tensor, "batch heads n width"],
    cosine: Float[Tensor, "#batch 1 n width"],
    sine: Float[Tensor, "#batch 1 n width"],
    *,
    interleaved: bool,
) -> Float[Tensor, "batch heads n width"] | None:
    """``x · cosine + partner(x) · sine``, or None where PyTorch's operations must make it.

    Args:
        x: queries or keys; served is one token of one text.
        cosine: a number's factor.
        sine: its partner's.
        interleaved: whether a number's partner is its neighbour; else it is half the width away.
    """
    if not unseen(x, cosine, sine):
        return None
    batch, heads, n, width = x.shape
    if not batch == n == 1 or width % 2:
        return None
    for angles in (cosine, sine):
        if angles.dtype != x.dtype or angles.numel() != width or not angles.is_contiguous():
            return None
    native = function("rotate", x.dtype)
    if native is None or x.stride(-1) != 1:
        return None
    made = torch.empty_like(x)
    given = (x.data_ptr(), cosine.data_ptr(), sine.data_ptr(), made.data_ptr())
    native(*given, heads, x.stride(1), width, interleaved)
    return made
