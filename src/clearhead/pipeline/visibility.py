"""Which part of n×m need be looked at: blocks of rows, what they see, which of them see nothing."""

from collections.abc import Iterator
from typing import Any, cast

import torch
from jaxtyping import Bool
from torch import Tensor

from clearhead.masks import Verdict
from clearhead.pipeline.places import Positions
from clearhead.pipeline.rule import BoundRule
from clearhead.positions.position_bias import PositionBias

__all__ = ["BLOCK", "all_seen", "column_span", "empty_rows", "row_blocks"]

#: Rows and columns of a block for which the mask is asked for a verdict.
BLOCK = 256
#: Elements of one block of scores over all heads: 64 MiB of float32.
BLOCK_ELEMENTS = 2**24

_torch = cast("Any", torch)  # broadcast_shapes says nothing of its type


def all_seen(rule: BoundRule, rows: Positions, columns: Positions) -> bool:
    """Whether a block needs no mask: known at once for most, and not asked while compiling."""
    if rule.mask is None:
        return True
    if torch.compiler.is_compiling() or not (
        isinstance(rows, range) and isinstance(columns, range)
    ):
        return False
    whole = rows.step == columns.step == 1 and len(rows) > 0 and len(columns) > 0
    return whole and rule.verdict(rows, columns) is Verdict.ALL


def empty_rows(rule: BoundRule, device: torch.device) -> Bool[Tensor, "#batch #heads n"] | None:
    """Which rows see nothing at all, by the mask's own verdict and a bias of −inf; None: none can.

    Cost: a few verdicts a block of rows where those settle it, else one tile of the mask at a time.
    """
    biased = _masking(rule.bias)
    if not biased and (rule.triangle or rule.sees_all):
        return None
    parts = [
        _empty(rule, rows, device, biased=biased)
        for rows in row_blocks(rule.queries, width=rule.keys)
    ]
    if not torch.compiler.is_compiling() and not any(bool(part.any()) for part in parts):
        return None
    shape: torch.Size = _torch.broadcast_shapes(*[part.shape[:2] for part in parts])
    return torch.cat([part.expand(*shape, part.shape[2]) for part in parts], dim=2)


def _masking(bias: Tensor | PositionBias | None) -> bool:
    """Whether a bias may hold −inf."""
    if isinstance(bias, Tensor):
        return torch.compiler.is_compiling() or bool(torch.isneginf(bias).any())
    return bias is not None and bias.masking


def _empty(rule: BoundRule, rows: range, device: torch.device, *, biased: bool) -> Tensor:
    span = column_span(rule, rows)
    if not biased and not torch.compiler.is_compiling():
        own = min(max(rows.start, span.start), span.stop - 1)
        if any(
            rule.verdict(rows, range(c, c + 1)) is Verdict.ALL
            for c in (span.start, own)
            if c in span
        ):
            return torch.zeros((1, 1, len(rows)), dtype=torch.bool, device=device)
    visible = rule.visible(rows, span, device=device)
    bias = rule.bias_tile(rows, span, device=device) if biased else None
    if bias is not None:
        unbiased = ~torch.isneginf(bias)
        visible = unbiased if visible is None else visible & unbiased
    assert visible is not None
    empty = ~visible.any(-1)
    return empty.expand(*empty.shape[:2], len(rows))


def row_blocks(queries: int, *, width: int = 1) -> Iterator[range]:
    """Cut the queries into runs of rows, so few that ``width`` numbers a row stay bounded."""
    step = max(1, min(BLOCK, BLOCK_ELEMENTS // max(1, width)))
    for start in range(0, queries, step):
        yield range(start, min(start + step, queries))


def column_span(rule: BoundRule, rows: range) -> range:
    """The shortest run of columns, in whole blocks, outside which these rows see nothing."""
    everything = range(rule.keys)
    if rule.mask is None or torch.compiler.is_compiling():
        return everything
    verdict = rule.verdict(rows, everything)
    if verdict is not Verdict.MIXED:
        return everything if verdict is Verdict.ALL else range(0)
    blocks = [range(start, min(start + BLOCK, rule.keys)) for start in range(0, rule.keys, BLOCK)]
    first = next(block for block in blocks if rule.verdict(rows, block) is not Verdict.NONE)
    last = next(
        block for block in reversed(blocks) if rule.verdict(rows, block) is not Verdict.NONE
    )
    return range(first.start, last.stop)
