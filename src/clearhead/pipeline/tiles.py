"""Any exact block of S and A from Q, K, the rule and one number a row, L.

``S[i, j] = mask(softcap(scale · qᵢ·kⱼ) + bias)`` and ``A[i, j] = exp(S[i, j] − L[i])``: nothing
else is needed, so a block costs its own size and no row waits for another. The same blocks, taken a
few hundred rows at a time, also give C and L themselves where no kernel serves the rule.

Low-precision Q and K are widened to float32 block by block; float64 stays float64.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.masks.places import numbers
from clearhead.pipeline.places import Positions, take
from clearhead.pipeline.recomputing import recomputing
from clearhead.pipeline.rule import BoundRule
from clearhead.pipeline.skipping import learned_beside_broken, skipping_product
from clearhead.pipeline.visibility import all_seen, column_span, row_blocks

__all__ = [
    "attend_rows",
    "attend_tiles",
    "logsumexp_tiles",
    "mix",
    "nothing_seen",
    "row_logsumexp",
    "score_tile",
    "wide",
    "weight_tile",
]


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which S, L and A are computed: float64 for float64, else float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def score_tile(
    query: Float[Tensor, "batch heads n d_k"],
    key: Float[Tensor, "batch kv_heads m d_k"],
    rule: BoundRule,
    *,
    rows: Positions,
    columns: Positions,
    raw: bool = False,
) -> Float[Tensor, "batch heads r c"]:
    """One block of S, or of scale · Q Kᵀ alone.

    ``S[i, j] = mask(softcap · tanh(scale · qᵢ·kⱼ / softcap) + bias[i, j])``

    Args:
        query: Q.
        key: K, not repeated for grouped heads.
        rule: the bound rule.
        rows: which queries, as indices of this call.
        columns: which keys, as indices of this call.
        raw: stop after the scale.

    Returns:
        The block, float32 (float64 for float64), −inf where masked.

    Cost: r · c · d_k multiplications a head; memory of the block.
    """
    dtype = wide(query.dtype)
    with torch.autocast(query.device.type, enabled=False):
        rows_of_q, rows_of_k = take(query, rows, axis=2), take(key, columns, axis=2)
        broken = learned_beside_broken(rows_of_q, rows_of_k)
        scores = _products(rows_of_q.to(dtype), rows_of_k.to(dtype), skipping=broken) * rule.scale
        if raw:
            return scores
        if broken:
            # what is masked below sends exactly 0 back, through the soft-cap too
            scores = scores.masked_fill(_hidden(rule, rows, columns, query.device), 0.0)
        if rule.softcap is not None:
            scores = torch.tanh(scores / rule.softcap) * rule.softcap
        bias = rule.bias_tile(rows, columns, dtype=dtype, device=query.device)
        if bias is not None:
            # a masking −inf wins over whatever it is added to, +inf and NaN included
            scores = torch.where(torch.isneginf(bias), bias.to(dtype), scores + bias.to(dtype))
        if not all_seen(rule, rows, columns):
            visible = rule.visible(rows, columns, device=query.device)
            if visible is not None:
                scores = scores.masked_fill(~visible, -torch.inf)
    return scores


def _hidden(rule: BoundRule, rows: Positions, columns: Positions, device: torch.device) -> Tensor:
    visible, bias = rule.visible(rows, columns, device=device), rule.bias_tile(rows, columns)
    hidden = torch.zeros((), dtype=torch.bool, device=device) if visible is None else ~visible
    return hidden if bias is None else hidden | torch.isneginf(bias)


def weight_tile(
    scores: Float[Tensor, "*lead r c"], logsumexp: Float[Tensor, "*lead r"]
) -> Float[Tensor, "*lead r c"]:
    """One block of A from the same block of S and the rows' L.

    ``A[i, j] = exp(S[i, j] − L[i])``, and 0 wherever S is −inf.

    Args:
        scores: the block of S.
        logsumexp: L of its rows; −inf for an empty row.

    Returns:
        The block of A.
    """
    level = logsumexp.to(scores.dtype)
    # an empty row: exp(−inf − 0) is the 0 it must be
    level = level.masked_fill(torch.isneginf(level), 0.0)
    weights = torch.exp(scores - level.unsqueeze(-1))
    if not torch.compiler.is_compiling() and bool(torch.isfinite(level.detach().sum())):
        return weights
    # a row that sees NaN or Inf is NaN where it looks, and still 0 where it does not
    return weights.masked_fill(torch.isneginf(scores), 0.0)


def mix(
    weights: Float[Tensor, "batch heads r c"],
    value: Float[Tensor, "batch kv_heads c d_v"],
    seen: Bool[Tensor, "batch heads r c"],
) -> Float[Tensor, "batch heads r d_v"]:
    """A · V where a key that a row does not see cannot reach it, whatever its value holds.

    ``C[i] = Σⱼ seen A[i, j] · vⱼ``: 0 · NaN is NaN, so values that are not finite are added key by
    key, to the rows that see them and to no other.

    Args:
        weights: A.
        value: V, not repeated for grouped heads.
        seen: which keys a row sees.

    Returns:
        C of these rows.
    """
    with torch.autocast(value.device.type, enabled=False):
        return _mix(weights, value, seen)


def _mix(weights: Tensor, value: Tensor, seen: Tensor) -> Tensor:
    if torch.compiler.is_compiling():
        return _mix_without_looking(weights, value, seen)
    broken = ~torch.isfinite(value).all(-1)
    if not bool(broken.any()):
        return _products(weights, value.mT)
    context = _products(weights, value.masked_fill(broken.unsqueeze(-1), 0.0).mT)
    group = weights.shape[1] // value.shape[1]
    for j in numbers(broken.any(0).any(0).nonzero().flatten()):
        one = value[:, :, j].repeat_interleave(group, dim=1).unsqueeze(2)
        only = broken[:, :, j].repeat_interleave(group, dim=1)[:, :, None, None]
        # chosen before it is multiplied: 0 · NaN would come back as a gradient
        context = context + weights[..., j, None] * torch.where(seen[..., j, None] & only, one, 0.0)
    return context


def _mix_without_looking(weights: Tensor, value: Tensor, seen: Tensor) -> Tensor:
    """The same for a compiled graph, which cannot branch: who sees a broken value is all NaN."""
    broken = ~torch.isfinite(value).all(-1)
    context = _products(weights, value.masked_fill(broken.unsqueeze(-1), 0.0).mT)
    group = weights.shape[1] // value.shape[1]
    poisoned = (seen & broken.repeat_interleave(group, dim=1).unsqueeze(2)).any(-1, keepdim=True)
    return context.masked_fill(poisoned, torch.nan)


def attend_rows(
    query: Float[Tensor, "batch heads n d_k"],
    key: Float[Tensor, "batch kv_heads m d_k"],
    value: Float[Tensor, "batch kv_heads m d_v"],
    *,
    rule: BoundRule,
    rows: Positions,
    columns: Positions,
) -> tuple[Float[Tensor, "batch heads r d_v"], Float[Tensor, "batch heads r"]]:
    """C and L of some rows, in the wide dtype, from one block of S (without sinks).

    Args:
        query: Q.
        key: K.
        value: V.
        rule: the bound rule.
        rows: which queries.
        columns: the keys these rows may see; every other key must be masked for them.

    Returns:
        C and L of the rows; 0 and −inf for a row that sees nothing.
    """
    with torch.autocast(query.device.type, enabled=False):
        scores = score_tile(query, key, rule, rows=rows, columns=columns)
        values = take(value, columns, axis=2).to(scores.dtype)
        if len(columns) == 0:
            return nothing_seen(take(query, rows, axis=2).to(scores.dtype), key, values)
        # A but for its sum: dividing by the sum is a digit better than exp(S − L)
        parts, total, logsumexp = _summed(scores)
        return mix(parts, values, ~torch.isneginf(scores)) / total.unsqueeze(-1), logsumexp


def _summed(scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """exp(S − max S), its sums (1 where a row sees nothing) and L; their gradients are finite."""
    top = scores.detach().amax(-1)
    parts = weight_tile(scores, top)
    total = parts.sum(-1)
    empty = total == 0
    total = total.masked_fill(empty, 1.0)
    return parts, total, torch.where(empty, -torch.inf, top + total.log())


def attend_tiles(
    query: Float[Tensor, "batch heads n d_k"],
    key: Float[Tensor, "batch kv_heads m d_k"],
    value: Float[Tensor, "batch kv_heads m d_v"],
    *,
    rule: BoundRule,
) -> tuple[Float[Tensor, "batch heads n d_v"], Float[Tensor, "batch heads n"]]:
    """C and L from tiles alone, for rules that no kernel knows (without sinks).

    Cost: n · m · (d_k + d_v) multiplications a head; memory linear in n, also under autograd, where
    each block of rows is computed again on the way back.
    """

    def block(q: Tensor, k: Tensor, v: Tensor, rows: range) -> tuple[Tensor, Tensor]:
        return attend_rows(q, k, v, rule=rule, rows=rows, columns=column_span(rule, rows))

    run = recomputing(block, query, key, value, rule=rule)
    contexts: list[Tensor] = []
    levels: list[Tensor] = []
    for rows in row_blocks(rule.queries, width=query.shape[0] * query.shape[1] * rule.keys):
        context, level = run(query, key, value, rows)
        contexts.append(context.to(query.dtype))
        levels.append(level)
    return torch.cat(contexts, dim=2), torch.cat(levels, dim=2)


def logsumexp_tiles(
    query: Float[Tensor, "batch heads n d_k"],
    key: Float[Tensor, "batch kv_heads m d_k"],
    *,
    rule: BoundRule,
    kept: bool = False,
) -> Float[Tensor, "batch heads n"]:
    """L alone (without sinks), for devices whose kernels keep it to themselves.

    Args:
        query: Q.
        key: K.
        rule: the bound rule.
        kept: keep the blocks for the way back, for a caller that is itself computed again there.

    Returns:
        L, −inf where a row sees nothing.

    Cost: n · m · d_k multiplications a head; memory linear in n, also under autograd.
    """

    def block(q: Tensor, k: Tensor, rows: range) -> Tensor:
        return row_logsumexp(q, k, rule, rows=rows, columns=column_span(rule, rows))

    run = block if kept else recomputing(block, query, key, rule=rule)
    width = query.shape[0] * query.shape[1] * rule.keys
    return torch.cat([run(query, key, rows) for rows in row_blocks(rule.queries, width=width)], 2)


def row_logsumexp(
    query: Tensor, key: Tensor, rule: BoundRule, *, rows: Positions, columns: range
) -> Float[Tensor, "batch heads r"]:
    """L of some rows from the columns they see (without sinks); −inf where they see nothing."""
    if len(columns) == 0:
        return nothing_seen(take(query, rows, axis=2), key, key)[1]
    return _summed(score_tile(query, key, rule, rows=rows, columns=columns))[2]


def nothing_seen(
    query: Float[Tensor, "batch heads r _"], key: Tensor, value: Float[Tensor, "batch _ c d_v"]
) -> tuple[Float[Tensor, "batch heads r d_v"], Float[Tensor, "batch heads r"]]:
    """C and L of rows that see nothing: 0 in Q's dtype, −inf in the wide one, both in the graph."""
    nothing = query[..., :0].sum() + key[..., :0].sum() + value[..., :0].sum()
    context = query.new_zeros((*query.shape[:3], value.shape[3])) + nothing.to(query.dtype)
    return context, context[..., :0].sum(-1).to(wide(query.dtype)) - torch.inf


def _products(
    left: Float[Tensor, "batch heads r d"],
    right: Float[Tensor, "batch kv_heads c d"],
    *,
    skipping: bool = False,
) -> Float[Tensor, "batch heads r c"]:
    """Left · rightᵀ with grouped heads: a group's rows are stacked, so right is not repeated."""
    batch, heads, rows, width = left.shape
    kv_heads = right.shape[1]
    if heads != kv_heads:
        left = left.reshape(batch, kv_heads, (heads // kv_heads) * rows, width)
    made = skipping_product(left, right) if skipping else left @ right.mT
    return made.reshape(batch, heads, rows, right.shape[2])
