"""Which implementation serves a call, and the two things that are done after every one of them."""

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.errors import InputError, UnsupportedError
from clearhead.pipeline.fused import fused, why_not_fused
from clearhead.pipeline.rule import BoundRule
from clearhead.pipeline.tiles import attend_tiles, nothing_seen, wide
from clearhead.pipeline.visibility import empty_rows

__all__ = ["Implementation", "choose", "compute"]

Implementation = Literal["auto", "fused", "tiles", "reference"]


def choose(impl: Implementation, rule: BoundRule) -> str:
    """Name the implementation that will serve a call.

    Args:
        impl: what was asked for; ``"auto"`` takes fused where it can.
        rule: the bound rule.

    Returns:
        ``"fused"``, ``"tiles"`` or ``"reference"``.

    Raises:
        InputError: no implementation has this name.
        UnsupportedError: the one asked for cannot serve the call, and why.
    """
    if impl not in get_args(Implementation):
        raise InputError(f"impl must be 'auto', 'fused', 'tiles' or 'reference', got {impl!r}")
    reason = why_not_fused(rule)
    if impl == "auto":
        return "fused" if reason is None else "tiles"
    if impl == "fused" and reason is not None:
        raise UnsupportedError(f"impl='fused' cannot serve this call: {reason}")
    return impl


def compute(
    query: Float[Tensor, "batch heads n d_k"],
    key: Float[Tensor, "batch kv_heads m d_k"],
    value: Float[Tensor, "batch kv_heads m d_v"],
    *,
    rule: BoundRule,
    impl: str,
) -> tuple[Float[Tensor, "batch heads n d_v"], Float[Tensor, "batch heads n"]]:
    """C and L by a chosen implementation, sinks and empty rows settled.

    Args:
        query: Q.
        key: K, not repeated for grouped heads.
        value: V, not repeated for grouped heads.
        rule: the bound rule.
        impl: as :func:`choose` named it.

    Returns:
        C in the inputs' dtype, L in float32 (float64 for float64).
    """
    dtype = query.dtype
    if impl == "reference" or rule.sinks is not None:
        # half precision is widened: a sink takes its share of C before C is rounded, once
        query, key, value = (tensor.to(wide(dtype)) for tensor in (query, key, value))
    if impl == "reference":
        from clearhead.pipeline.reference import reference  # the oracle, met nowhere else

        with torch.autocast(query.device.type, enabled=False):
            steps = reference(query, key, value, rule=rule)
        return steps.context.to(dtype), steps.logsumexp
    if 0 in (*query.shape[:3], key.shape[2]):
        # kernels end the process on these sizes
        context, logsumexp = nothing_seen(query, key, value)
        return context.to(dtype), logsumexp
    run = fused if impl == "fused" else attend_tiles
    context, logsumexp = run(query, key, value, rule=rule)
    context, logsumexp = _closed(context, logsumexp, rule, empty_rows(rule, query.device))
    return context.to(dtype), logsumexp


def _closed(
    context: Tensor,
    logsumexp: Tensor,
    rule: BoundRule,
    empty: Bool[Tensor, "#batch #heads n"] | None,
) -> tuple[Tensor, Tensor]:
    """Sinks take their part, and rows that see nothing are set by the mask's own verdict."""
    if rule.sinks is not None:
        # logaddexp has other bits for other strides, and a mended L has other strides
        logsumexp = logsumexp.contiguous()
        with_sink = torch.logaddexp(logsumexp, rule.sinks.to(logsumexp.dtype)[:, None])
        # a row whose keys are −Inf has C = 0 and keeps it, beside a sink of −Inf too
        level = logsumexp.masked_fill(torch.isneginf(logsumexp), torch.finfo(logsumexp.dtype).min)
        share = torch.sigmoid(level - rule.sinks.to(logsumexp.dtype)[:, None]).unsqueeze(-1)
        context = context * share
        logsumexp = with_sink
    if empty is not None:
        context = context.masked_fill(empty.unsqueeze(-1), 0.0)
        logsumexp = logsumexp.masked_fill(empty, -torch.inf)
    return context, logsumexp
