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
    native = function("rotate", x.dtype)
    if (
        native is None
        or x.shape[0] != 1
        or x.shape[2] != 1
        or x.stride(-1) != 1
        or not cosine.dtype == sine.dtype == x.dtype
        or not cosine.numel() == sine.numel() == x.shape[3]
        or not cosine.is_contiguous()
        or not sine.is_contiguous()
        or not unseen(x, cosine, sine)
    ):
        return None
    heads, width = x.shape[1], x.shape[3]
    made = torch.empty_like(x)
    given = (x.data_ptr(), cosine.data_ptr(), sine.data_ptr(), made.data_ptr())
    native(*given, heads, x.stride(1), width, interleaved)
    return made
