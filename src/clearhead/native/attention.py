"""C and L of one query a head that sees every key: what a step of generation asks of a layer."""

import ctypes

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.native.library import function, unseen

__all__ = ["attend_row"]

_STEPS = ctypes.c_long * 3


def attend_row(
    query: Float[Tensor, "batch heads n d_k"],
    key: Float[Tensor, "batch kv_heads m d_k"],
    value: Float[Tensor, "batch kv_heads m d_v"],
    *,
    scale: float,
) -> tuple[Float[Tensor, "batch heads n d_v"], Float[Tensor, "batch heads n"]] | None:
    """``C = softmax(scale · Q Kᵀ) V`` and L, each sum in float32 and rounded once.

    Args:
        query: Q; served is one row a head.
        key: K, not repeated for grouped heads.
        value: V, likewise; served is d_v = d_k.
        scale: factor on Q Kᵀ.

    Returns:
        C in the dtype of Q, and L, where a weight below e⁻⁸⁷ of the largest counts as 0; or None: a
        number in them is NaN or infinite, or PyTorch's kernel must make them. The bits are the same
        for any number of threads.

    Cost: K and V are read from memory once, however many query heads share them.
    """
    if not unseen(query, key, value) or not _serves(query, key, value):
        return None
    native = function("attend", query.dtype)
    if native is None:
        return None
    query = query.contiguous()
    batch, heads, _, width = query.shape
    kv_heads, keys = key.shape[1:3]
    context = torch.empty_like(query)
    logsumexp = query.new_empty((batch, heads, 1), dtype=torch.float32)
    given = (tensor.data_ptr() for tensor in (query, key, value, context, logsumexp))
    sizes = (batch, kv_heads, heads // kv_heads, keys, width)
    steps = (_STEPS(*tensor.stride()[:3]) for tensor in (key, value))
    finite = native(*given, scale, *sizes, *steps, torch.get_num_threads())
    return (context, logsumexp) if finite == 1 else None


def _serves(query: Tensor, key: Tensor, value: Tensor) -> bool:
    return (
        query.shape[2] == 1
        and key.shape == value.shape
        and (query.shape[0], query.shape[3]) == (key.shape[0], key.shape[3])
        and key.dtype == value.dtype == query.dtype
        and key.stride(3) == value.stride(3) == 1
    )
