"""C and L in linear memory from PyTorch's kernels.

A call is cut into blocks that a kernel can serve, each of one of three kinds: *plain* (its rows see
all its columns), *causal* (the kernel's own triangle) or *biased* (an additive tile: the bias, and
−inf where the mask says no). Rows are taken a few hundred at a time with only the columns they can
see, so nothing n×m is made, and a window costs its width.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.masks import Verdict
from clearhead.pipeline.kernels import gives_logsumexp, kernel, kernel_without_logsumexp
from clearhead.pipeline.mending import block_rule, mended
from clearhead.pipeline.recomputing import recomputing
from clearhead.pipeline.rule import BoundRule
from clearhead.pipeline.tiles import attend_tiles, nothing_seen, wide
from clearhead.pipeline.visibility import column_span, row_blocks
from clearhead.positions.position_bias import PositionBias

__all__ = ["fused", "why_not_fused"]

_HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class _Block:
    """Some rows and the run of columns they may see; ``kind`` says what the kernel must be told."""

    rows: range
    columns: range
    kind: Literal["plain", "causal", "biased", "empty"]


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
    if not gives_logsumexp(query.device) and (
        _compiling() or _keeps_tiles(rule.bias, query, key, value)
    ):
        # a graph cannot look for broken keys, and L comes from tiles there anyway
        return attend_tiles(query, key, value, rule=rule)
    width = value.shape[-1]
    query, key, value = _one_width(query, key, value)
    pairs = [_serve(block, query, key, value, rule) for block in _plan(rule)]
    if len(pairs) == 1:
        context, logsumexp = pairs[0]
    else:
        context = torch.cat([context for context, _ in pairs], dim=2)
        logsumexp = torch.cat([level for _, level in pairs], dim=2)
    return context if context.shape[-1] == width else context[..., :width], logsumexp


def _one_width(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Pad d_k or d_v with zeros to the wider: kernels take one width, and zeros add nothing."""
    d_k, d_v = query.shape[-1], value.shape[-1]
    pad = torch.nn.functional.pad
    if d_v < d_k:
        return query, key, pad(value, (0, d_k - d_v))
    if d_v > d_k:
        return pad(query, (0, d_v - d_k)), pad(key, (0, d_v - d_k)), value
    return query, key, value


def _plan(rule: BoundRule) -> list[_Block]:
    rows, columns = range(rule.queries), range(rule.keys)
    if rule.bias is None and rule.sees_all:
        return [_Block(rows, columns, "plain")]
    if rule.bias is None and rule.triangle:
        return [_Block(rows, columns, "causal")]
    if rule.bias is None and rule.mask is not None and not rule.mask.positional:
        # every row sees the same keys: one bias row serves them all
        return [_Block(rows, columns, "biased")]
    blocks: list[_Block] = []
    for run in row_blocks(rule.queries, width=_bias_width(rule)):
        span = column_span(rule, run)
        if len(span) == 0:
            blocks.append(_Block(run, span, "empty"))
            continue
        plain = rule.bias is None and not _compiling() and rule.verdict(run, span) is Verdict.ALL
        blocks.append(_Block(run, span, "plain" if plain else "biased"))
    return blocks


def _bias_width(rule: BoundRule) -> int:
    """Numbers of a bias that are made for one row; a stored one and a mask count as one."""
    if not isinstance(rule.bias, PositionBias):
        return 1
    start = rule.query_start
    return (1 if isinstance(start, int) else start.numel()) * rule.bias.heads * rule.keys


def _keeps_tiles(bias: Tensor | PositionBias | None, *others: Tensor) -> bool:
    """Whether the way back would keep the tiles of a position bias: n×m, all blocks together."""
    return (
        isinstance(bias, PositionBias)
        and torch.is_grad_enabled()
        and any(part.requires_grad for part in (bias, *others))
    )


def _compiling() -> bool:
    return torch.compiler.is_compiling()


def _serve(
    block: _Block, query: Tensor, key: Tensor, value: Tensor, rule: BoundRule
) -> tuple[Tensor, Tensor]:
    if _keeps_tiles(rule.bias):
        return recomputing(partial(_run, block, rule), rule=rule)(query, key, value)
    return _run(block, rule, query, key, value)


def _run(
    block: _Block, rule: BoundRule, query: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, Tensor]:
    rows, columns = block.rows, block.columns
    if len(rows) < query.shape[2]:
        query = query[:, :, rows.start : rows.stop]
    if len(columns) < key.shape[2]:
        key = key[:, :, columns.start : columns.stop]
        value = value[:, :, columns.start : columns.stop]
    if block.kind == "empty":
        return nothing_seen(query, key, value)
    if block.kind != "biased":
        causal, scale = block.kind == "causal", rule.scale
        if gives_logsumexp(query.device):
            return _with_logsumexp(query, key, value, causal=causal, scale=scale)
        return _without_logsumexp(query, key, value, bias=None, causal=causal, scale=scale)
    make = partial(_additive, block, rule, dtype=wide(query.dtype), device=query.device)
    if gives_logsumexp(query.device):
        learned = rule.bias is not None and rule.bias.requires_grad
        tile = make() if learned else make
        return kernel(query, key, value, bias=tile, causal=False, scale=rule.scale)

    def biased(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return _without_logsumexp(q, k, v, bias=make(), causal=False, scale=rule.scale)

    # the tiles of all blocks together are n×m: kept, training would take quadratic memory
    return recomputing(biased, query, key, value, rule=rule)(query, key, value)


def _with_logsumexp(
    query: Tensor, key: Tensor, value: Tensor, *, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """The kernel without a bias; of heads that share keys, a single row each goes in as several."""
    run = partial(kernel, bias=None, causal=causal, scale=scale)
    heads, kv_heads = query.shape[1], key.shape[1]
    if causal or query.shape[2] > 1 or heads == kv_heads or query.dtype not in _HALF:
        return run(query, key, value)
    # the queries of heads that share keys stand as rows of one: in 16 bits the kernel takes a
    # single row several times as long as a few
    rows = query.reshape(len(query), kv_heads, heads // kv_heads, query.shape[3])
    context, logsumexp = run(rows, key, value)
    return context.reshape(query.shape), logsumexp.reshape(query.shape[:3])


def _without_logsumexp(
    query: Tensor, key: Tensor, value: Tensor, *, bias: Tensor | None, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    run = partial(kernel_without_logsumexp, bias=bias, causal=causal, scale=scale)
    told = partial(block_rule, query, key, bias=bias, causal=causal, scale=scale)
    return mended(query, key, value, run=run, rule=told)


def _additive(
    block: _Block, rule: BoundRule, *, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """The additive tile of one block: the bias, and −inf where the mask says no."""
    rows = (
        block.rows
        if rule.bias is not None or rule.mask is None or rule.mask.positional
        else range(1)
    )
    bias = rule.bias_tile(rows, block.columns, dtype=dtype, device=device)
    visible = rule.visible(rows, block.columns, device=device)
    if visible is None:
        assert bias is not None
        return bias.to(dtype)
    if bias is None:
        return torch.zeros((), dtype=dtype, device=device).masked_fill(~visible, -torch.inf)
    return bias.to(dtype).masked_fill(~visible, -torch.inf)
