"""C and L in linear memory from PyTorch's kernels.

A call is cut into blocks that a kernel can serve, each of one of three kinds: *plain* (its rows see
all its columns), *causal* (the kernel's own triangle) or *biased* (an additive tile: the bias, and −inf
where the mask says no). Rows are taken a few hundred at a time with only the columns they can see, so
nothing n×m is made, and a window costs its width.

What a kernel gets wrong is mended here: a key or value that is not finite poisons rows that never see
it (0 · NaN), so a result that is not finite is computed again with those keys blanked, and the rows
that do see them come from tiles.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.masks import Verdict
from clearhead.pipeline.kernels import context_kernel, gives_logsumexp, kernel
from clearhead.pipeline.rule import BoundRule
from clearhead.pipeline.tiles import BLOCK, attend_rows, column_span, logsumexp_tiles, row_blocks

__all__ = ["fused", "why_not_fused"]


@dataclass(frozen=True, slots=True)
class _Block:
    """Some rows and the run of columns they may see; ``kind`` says what the kernel must be told."""

    rows: range
    columns: range
    kind: str  # "plain" | "causal" | "biased"


def why_not_fused(rule: BoundRule) -> str | None:
    """The reason why no kernel can serve this rule, or None."""
    if rule.softcap is not None:
        return "no kernel applies a soft-cap; impl='tiles' does, in linear memory"
    return None


def fused(
    query: Float[Tensor, "batch heads n d_k"],
    key: Float[Tensor, "batch kv_heads m d_k"],
    value: Float[Tensor, "batch kv_heads m d_v"],
    *,
    rule: BoundRule,
) -> tuple[Float[Tensor, "batch heads n d_v"], Float[Tensor, "batch heads n"]]:
    """C and L from the device's fused kernel (without sinks).

    Args:
        query: Q.
        key: K, not repeated for grouped heads.
        value: V, not repeated for grouped heads.
        rule: the bound rule, without a soft-cap.

    Returns:
        C in the inputs' dtype and L in float32 (float64 for float64). Rows that see nothing hold
        whatever the kernel left there: the caller overwrites them by the mask's own verdict.

    Cost: what the kernel takes for the blocks that are seen; memory linear in n and m.

    Source: Dao 2023, "FlashAttention-2", section 3.1, for C and L in one pass.
    """
    width = value.shape[-1]
    query, key, value = _one_width(query, key, value)
    blocks = _plan(rule)
    context, logsumexp = _run(blocks, query, key, value, rule)
    if not torch.compiler.is_compiling() and not _finite(context, logsumexp):
        context, logsumexp = _mend(blocks, query, key, value, rule)
    return context[..., :width], logsumexp


def _one_width(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Pad d_k or d_v with zeros to the wider of the two: kernels take one width, and zeros add nothing."""
    d_k, d_v = query.shape[-1], value.shape[-1]
    pad = torch.nn.functional.pad
    if d_v < d_k:
        return query, key, pad(value, (0, d_k - d_v))
    if d_v > d_k:
        return pad(query, (0, d_v - d_k)), pad(key, (0, d_v - d_k)), value
    return query, key, value


def _plan(rule: BoundRule) -> list[_Block]:
    rows, columns = range(rule.queries), range(rule.keys)
    if rule.bias is None and rule.mask is None:
        return [_Block(rows, columns, "plain")]
    if rule.bias is None and rule.triangle:
        return [_Block(rows, columns, "causal")]
    if rule.bias is None and rule.mask is not None and not rule.mask.positional:
        # every row sees the same keys: one bias row serves them all
        return [_Block(rows, columns, "biased")]
    blocks: list[_Block] = []
    for run in row_blocks(rule.queries):
        span = column_span(rule, run)
        if len(span) == 0:
            blocks.append(_Block(run, span, "empty"))
            continue
        plain = rule.bias is None and not _compiling() and rule.verdict(run, span) is Verdict.ALL
        blocks.append(_Block(run, span, "plain" if plain else "biased"))
    return blocks


def _compiling() -> bool:
    return torch.compiler.is_compiling()


def _run(
    blocks: list[_Block], query: Tensor, key: Tensor, value: Tensor, rule: BoundRule
) -> tuple[Tensor, Tensor]:
    pairs = [_block(block, query, key, value, rule) for block in blocks]
    if len(pairs) == 1:
        return pairs[0]
    return torch.cat([c for c, _ in pairs], dim=2), torch.cat([level for _, level in pairs], dim=2)


def _block(
    block: _Block, query: Tensor, key: Tensor, value: Tensor, rule: BoundRule
) -> tuple[Tensor, Tensor]:
    rows, columns = block.rows, block.columns
    whole_query, whole_key = query, key
    if len(rows) < query.shape[2]:
        query = query[:, :, rows.start : rows.stop]
    if len(columns) < key.shape[2]:
        key = key[:, :, columns.start : columns.stop]
        value = value[:, :, columns.start : columns.stop]
    if block.kind == "empty":
        nothing = key[..., :0].sum() + value[..., :0].sum()
        return query * 0 + nothing, query[..., :0].sum(-1) - torch.inf
    bias = _additive(block, query, rule) if block.kind == "biased" else None
    causal = block.kind == "causal"
    if gives_logsumexp(query.device):
        return kernel(query, key, value, bias=bias, causal=causal, scale=rule.scale)
    context = context_kernel(query, key, value, bias=bias, causal=causal, scale=rule.scale)
    return context, logsumexp_tiles(whole_query, whole_key, rule=rule, rows=rows, columns=columns)


def _additive(block: _Block, query: Tensor, rule: BoundRule) -> Tensor:
    """The additive tile of one block: the bias, and −inf where the mask says no."""
    rows = block.rows if rule.bias is not None or rule.mask is None or rule.mask.positional else range(1)
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    bias = rule.bias_tile(rows, block.columns)
    visible = rule.visible(rows, block.columns, device=query.device)
    if visible is None:
        assert bias is not None
        return bias.to(dtype)
    if bias is None:
        return torch.zeros((), dtype=dtype, device=query.device).masked_fill(~visible, -torch.inf)
    return bias.to(dtype).masked_fill(~visible, -torch.inf)


def _finite(context: Tensor, logsumexp: Tensor) -> bool:
    """Whether a result holds no NaN and no Inf, in one pass; a sum that overflows only costs a second look."""
    total = context.detach().sum(dtype=logsumexp.dtype) + logsumexp.detach().sum()
    return bool(torch.isfinite(total))


def _mend(
    blocks: list[_Block], query: Tensor, key: Tensor, value: Tensor, rule: BoundRule
) -> tuple[Tensor, Tensor]:
    """Run again with the keys that are not finite blanked, and take the rows that see one from tiles."""
    wild = _wild_keys(query, key, value)
    blank = wild.unsqueeze(-1)
    context, logsumexp = _run(
        blocks, query, key.masked_fill(blank, 0.0), value.masked_fill(blank, 0.0), rule
    )
    parts: list[tuple[Tensor, Tensor]] = []
    for rows in row_blocks(rule.queries, width=query.shape[0] * query.shape[1] * rule.keys):
        part = (context[:, :, rows.start : rows.stop], logsumexp[:, :, rows.start : rows.stop])
        touched = _touched(query, wild, rule, rows)
        if bool(touched.any()):
            exact, level = attend_rows(
                query, key, value, rule=rule, rows=rows, columns=column_span(rule, rows)
            )
            part = (
                torch.where(touched.unsqueeze(-1), exact.to(context.dtype), part[0]),
                torch.where(touched, level, part[1]),
            )
        parts.append(part)
    return torch.cat([c for c, _ in parts], dim=2), torch.cat([level for _, level in parts], dim=2)


def _wild_keys(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Keys (batch, kv_heads, m) that could poison a row: not finite, or so large that q·k could overflow."""
    finite = torch.isfinite(key).all(-1) & torch.isfinite(value).all(-1)
    reach = torch.where(torch.isfinite(query), query, 0.0).abs().amax().double() * query.shape[-1]
    largest = torch.where(torch.isfinite(key), key, 0.0).abs().amax(-1).double()
    return ~finite | (largest * reach > torch.finfo(torch.float32).max / 2)


def _touched(query: Tensor, wild: Tensor, rule: BoundRule, rows: range) -> Tensor:
    """Rows (batch, heads, r) that see a wild key, or whose own query is not finite."""
    touched = ~torch.isfinite(query[:, :, rows.start : rows.stop]).all(-1)
    columns = wild.any(0).any(0).nonzero().flatten()
    group = query.shape[1] // wild.shape[1]
    for chunk in columns.split(BLOCK):
        seen = wild[:, :, chunk].repeat_interleave(group, dim=1).unsqueeze(2)
        visible = rule.visible(rows, chunk, device=query.device)
        bias = rule.bias_tile(rows, chunk)
        if visible is not None:
            seen = seen & visible
        if bias is not None:
            seen = seen & ~torch.isneginf(bias)
        touched = touched | seen.any(-1)
    return touched
