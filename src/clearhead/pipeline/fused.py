"""C and L in linear memory from PyTorch's kernels.

A call is cut into blocks that a kernel can serve, each of one of four kinds: *plain* (its rows see
all its columns), *causal* (the kernel's own triangle), *continued* (both side by side: a text that
goes on after a cache) or *biased* (an additive tile: the bias, and −inf where the mask says no).
Rows are taken a few hundred at a time with only the columns they can see, so nothing n×m is made,
and a window costs its width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.masks import Causal, Verdict
from clearhead.native.attention import attend_row
from clearhead.pipeline.kernels import gives_logsumexp, kernel, kernel_without_logsumexp
from clearhead.pipeline.mending import block_rule, mended
from clearhead.pipeline.recomputing import recomputing
from clearhead.pipeline.rule import FEW, BoundRule
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
    kind: Literal["plain", "causal", "continued", "biased", "empty"]


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
    context, logsumexp = _served(_plan(rule, merges=_merges(query)), query, key, value, rule)
    return context if context.shape[-1] == width else context[..., :width], logsumexp


def _served(
    blocks: Sequence[_Block], query: Tensor, key: Tensor, value: Tensor, rule: BoundRule
) -> tuple[Tensor, Tensor]:
    """All blocks, their rows one after the other."""
    pairs = [_serve(block, query, key, value, rule) for block in blocks]
    if len(pairs) == 1:
        return pairs[0]
    contexts, levels = zip(*pairs, strict=True)
    return torch.cat(contexts, dim=2), torch.cat(levels, dim=2)


def _one_width(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Pad d_k or d_v with zeros to the wider: kernels take one width, and zeros add nothing."""
    d_k, d_v = query.shape[-1], value.shape[-1]
    pad = torch.nn.functional.pad
    if d_v < d_k:
        return query, key, pad(value, (0, d_k - d_v))
    if d_v > d_k:
        return pad(query, (0, d_v - d_k)), pad(key, (0, d_v - d_k)), value
    return query, key, value


def _merges(query: Tensor) -> bool:
    """Whether two kernel calls may make one row: where each gives L, and rounds C to 32 bits."""
    return query.dtype not in _HALF and gives_logsumexp(query.device) and not _compiling()


def _continues(rule: BoundRule) -> bool:
    """Whether many rows stand right behind keys that all of them see, and then see a triangle."""
    start = rule.query_start
    behind = start - rule.key_start if isinstance(start, int) else 0
    causal = rule.bias is None and isinstance(rule.mask, Causal)
    return causal and behind > 0 and FEW < rule.queries == rule.keys - behind


def _plan(rule: BoundRule, *, merges: bool = False) -> list[_Block]:
    rows, columns = range(rule.queries), range(rule.keys)
    if rule.bias is None and rule.sees_all:
        return [_Block(rows, columns, "plain")]
    if rule.bias is None and rule.triangle:
        return [_Block(rows, columns, "causal")]
    if merges and _continues(rule):
        return [_Block(rows, columns, "continued")]
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
    if block.kind == "continued":
        return _continued(query, key, value, rule)
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


def _continued(query: Tensor, key: Tensor, value: Tensor, rule: BoundRule) -> tuple[Tensor, Tensor]:
    """Rows after a cache: what they make of the keys before them, and of their own, as one.

    ``L = log(exp(L₁) + exp(L₂))`` and ``C = exp(L₁ − L) · C₁ + exp(L₂ − L) · C₂``.
    """
    behind = key.shape[2] - query.shape[2]
    before = [part[:, :, :behind] for part in (key, value)]
    own = [part[:, :, behind:] for part in (key, value)]
    made = [
        kernel(query, *before, bias=None, causal=False, scale=rule.scale),
        kernel(query, *own, bias=None, causal=True, scale=rule.scale),
    ]
    if not all(bool(level.isfinite().all()) for _, level in made):
        # what is broken, or hidden from a row by keys of −∞, is told by the whole row alone
        return _served(_plan(rule), query, key, value, rule)
    level = torch.logaddexp(made[0][1], made[1][1])
    first, second = ((part - level).exp().unsqueeze(-1) * context for context, part in made)
    return (first + second).to(query.dtype), level


def _with_logsumexp(
    query: Tensor, key: Tensor, value: Tensor, *, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """The kernel without a bias; of heads that share keys, a single row each goes in as several."""
    native = None if causal else attend_row(query, key, value, scale=scale)
    if native is not None:
        return native
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
