"""L as A needs it: a kernel's own in float32 and float64, made again from S in half precision.

In bfloat16 and float16 PyTorch's CPU kernel sums approximate exponentials: its L is right to some
5e-5, and every weight ``exp(S − L)`` would be off by as much, though Q and K are known exactly.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.pipeline.places import Positions, take
from clearhead.pipeline.rule import BoundRule
from clearhead.pipeline.tiles import row_logsumexp, wide
from clearhead.pipeline.visibility import column_span, row_blocks

__all__ = ["exact_levels"]


def exact_levels(
    query: Float[Tensor, "batch heads n d_k"],
    key: Float[Tensor, "batch kv_heads m d_k"],
    logsumexp: Float[Tensor, "batch heads n"],
    *,
    rule: BoundRule,
    rows: Positions,
) -> Float[Tensor, "batch heads r"]:
    """L of some rows, as exact as S is.

    ``L[i] = log Σⱼ exp(S[i, j])``, the sink's logit among them.

    Args:
        query: Q.
        key: K.
        logsumexp: L as the kernel gave it.
        rule: the bound rule.
        rows: which queries.

    Returns:
        L of these rows; −inf where a row sees nothing.

    Cost: none in float32 and float64; in half precision r · m · d_k multiplications a head.
    """
    if query.dtype == wide(query.dtype):
        return take(logsumexp, rows, axis=2)
    width = query.shape[0] * query.shape[1] * rule.keys
    runs = [rows[r.start : r.stop] for r in row_blocks(len(rows), width=width)]
    if not runs:
        return take(logsumexp, rows, axis=2)
    return torch.cat([_levels(query, key, logsumexp, rule=rule, rows=run) for run in runs], dim=2)


def _levels(
    query: Tensor, key: Tensor, logsumexp: Tensor, *, rule: BoundRule, rows: Positions
) -> Tensor:
    columns = column_span(rule, rows) if isinstance(rows, range) else range(rule.keys)
    level = row_logsumexp(query, key, rule, rows=rows, columns=columns)
    if rule.sinks is None:
        return level
    with_sink = torch.logaddexp(level, rule.sinks.to(level.dtype)[:, None])
    # beside a sink, only a row that sees nothing was given −inf
    return with_sink.masked_fill(torch.isneginf(take(logsumexp, rows, axis=2)), -torch.inf)
