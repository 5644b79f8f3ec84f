"""What a kernel gets wrong where keys or values are not finite, put right.

A kernel multiplies every key of a block, seen or not, and 0 · NaN is NaN: one broken value poisons
rows that may not see it. So a result that is not finite is computed again with the broken keys
blanked, and the rows that do see one are computed from tiles. Looking costs one pass over C and L.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.masks import causal_mask
from clearhead.pipeline.rule import BoundRule
from clearhead.pipeline.tiles import attend_rows
from clearhead.pipeline.visibility import BLOCK, column_span, row_blocks

__all__ = ["all_finite", "block_rule", "mended", "touched_rows", "wild_keys"]

Run = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def mended(
    query: Float[Tensor, "batch heads r d"],
    key: Float[Tensor, "batch kv_heads c d"],
    value: Float[Tensor, "batch kv_heads c d"],
    *,
    run: Run,
    rule: Callable[[], BoundRule],
) -> tuple[Float[Tensor, "batch heads r d"], Float[Tensor, "batch heads r"]]:
    """C and L of one block, where what a row may not see does not matter to it.

    Args:
        query: Q of the block.
        key: K of the block.
        value: V of the block.
        run: the kernel, taking Q, K and V.
        rule: makes the rule of the block, which says what each row sees.

    Returns:
        C and L: the kernel's own bits for a row that sees only numbers, and what the reference
        gives for one that sees NaN or Inf.

    Cost: the kernel's, and one pass over C and L; twice that and a copy of K and V where something
    broke.
    """
    context, logsumexp = run(query, key, value)
    finite = all_finite(context, logsumexp) or all_finite(
        # −inf is what a row that sees nothing has
        context,
        logsumexp.masked_fill(torch.isneginf(logsumexp), 0.0),
    )
    # a kernel takes a row whose every score is NaN for one that sees nothing, and leaves L at 0
    if finite and bool(logsumexp.all()):
        return context, logsumexp
    wild = wild_keys(query, key, value)
    if finite and not bool(wild.any()) and bool(torch.isfinite(query).all()):
        return context, logsumexp
    blank = wild.unsqueeze(-1)
    context, logsumexp = run(query, key.masked_fill(blank, 0.0), value.masked_fill(blank, 0.0))
    parts: list[tuple[Tensor, Tensor]] = []
    told = rule()
    for rows in row_blocks(told.queries, width=query.shape[0] * query.shape[1] * told.keys):
        part = (context[:, :, rows.start : rows.stop], logsumexp[:, :, rows.start : rows.stop])
        touched = touched_rows(query, wild, rule=told, rows=rows)
        if bool(touched.any()):
            span = column_span(told, rows)
            exact, level = attend_rows(query, key, value, rule=told, rows=rows, columns=span)
            part = (
                torch.where(touched.unsqueeze(-1), exact.to(context.dtype), part[0]),
                torch.where(touched, level, part[1]),
            )
        parts.append(part)
    return torch.cat([c for c, _ in parts], dim=2), torch.cat([level for _, level in parts], dim=2)


def block_rule(
    query: Tensor, key: Tensor, *, bias: Tensor | None, causal: bool, scale: float
) -> BoundRule:
    """What one block's kernel was told, as a rule: tiles and mending know what each row sees."""
    mask = causal_mask() if causal else None
    return BoundRule(scale, None, bias, mask, None, query.shape[2], key.shape[2], 0, 0)


def all_finite(context: Tensor, logsumexp: Tensor) -> bool:
    """Whether a result holds neither NaN nor Inf; a sum too large only costs a second look."""
    total = context.detach().sum(dtype=logsumexp.dtype) + logsumexp.detach().sum()
    return math.isfinite(total.item())


def wild_keys(query: Tensor, key: Tensor, value: Tensor) -> Bool[Tensor, "batch kv_heads m"]:
    """Keys that could poison a row: not finite, or so large that q·k could overflow."""
    finite = torch.isfinite(key).all(-1) & torch.isfinite(value).all(-1)
    if query.shape[-1] == 0:
        return ~finite
    # one batch row's queries say nothing of another's, nor those of other key-value heads
    asking = torch.where(torch.isfinite(query), query, 0.0).abs().amax((-2, -1)).double()
    asking = asking.reshape(asking.shape[0], key.shape[1], -1).amax(-1, keepdim=True)
    reach = asking * query.shape[-1]
    largest = torch.where(torch.isfinite(key), key, 0.0).abs().amax(-1).double()
    limit = torch.finfo(torch.float64 if key.dtype == torch.float64 else torch.float32).max
    return ~finite | (largest > limit / 2 / reach.clamp(min=1.0))


def touched_rows(
    query: Float[Tensor, "batch heads n d"],
    wild: Bool[Tensor, "batch kv_heads m"],
    *,
    rule: BoundRule,
    rows: range,
) -> Bool[Tensor, "batch heads r"]:
    """Rows that see a wild key, or whose own query is not finite."""
    touched = ~torch.isfinite(query[:, :, rows.start : rows.stop]).all(-1)
    columns = wild.any(0).any(0).nonzero().flatten()
    group = query.shape[1] // wild.shape[1]
    for start in range(0, len(columns), BLOCK):
        chunk = columns[start : start + BLOCK]
        seen = wild[:, :, chunk].repeat_interleave(group, dim=1).unsqueeze(2)
        visible = rule.visible(rows, chunk, device=query.device)
        bias = rule.bias_tile(rows, chunk, device=query.device)
        if visible is not None:
            seen = seen & visible
        if bias is not None:
            seen = seen & ~torch.isneginf(bias)
        touched = touched | seen.any(-1)
    return touched
