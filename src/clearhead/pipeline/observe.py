"""Statistics of A from one pass over its tiles, together: received, entropy, top keys, pooled maps.

Every statistic sees every visible block once; blocks that the mask empties are skipped. Nothing
carries a gradient.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeVar, overload

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.errors import InputError
from clearhead.pipeline.rule import BoundRule
from clearhead.pipeline.tiles import score_tile, weight_tile
from clearhead.pipeline.visibility import column_span, row_blocks

__all__ = [
    "OBSERVABLES",
    "EntropyObserver",
    "Observed",
    "Observer",
    "PooledMap",
    "PooledObserver",
    "ReceivedObserver",
    "TopKeys",
    "TopKeysObserver",
    "observe",
    "shown",
]

#: What ``observe=`` may name.
OBSERVABLES = ("received", "entropy", "top_keys", "pooled")
#: Columns of one block: wide enough for the matrix product, small enough to stay in cache.
COLUMNS = 1024


_Made_co = TypeVar("_Made_co", covariant=True)


class Observer(Protocol[_Made_co]):
    """A statistic that grows block by block."""

    def see(self, rows: range, columns: range, *, weights: Tensor, scores: Tensor) -> None:
        """Take in one block of A and the same block of S."""
        ...

    def result(self) -> _Made_co:
        """What all the blocks together say."""
        ...


@torch.no_grad()
def observe(
    query: Float[Tensor, "batch heads n d_k"],
    key: Float[Tensor, "batch kv_heads m d_k"],
    logsumexp: Float[Tensor, "batch heads n"],
    *,
    rule: BoundRule,
    observers: Iterable[Observer[object]],
) -> None:
    """Show every visible block of A to every observer, once.

    Args:
        query: Q.
        key: K.
        logsumexp: L.
        rule: the bound rule.
        observers: the statistics to grow.

    Cost: n · m · d_k multiplications a head, whatever the number of observers; memory of one block.
    """
    watching = list(observers)
    for rows in row_blocks(
        rule.queries, width=query.shape[0] * query.shape[1] * min(COLUMNS, rule.keys)
    ):
        span = column_span(rule, rows)
        level = logsumexp[:, :, rows.start : rows.stop]
        for start in range(span.start, span.stop, COLUMNS):
            columns = range(start, min(start + COLUMNS, span.stop))
            scores = score_tile(query, key, rule, rows=rows, columns=columns)
            weights = weight_tile(scores, level)
            for observer in watching:
                observer.see(rows, columns, weights=weights, scores=scores)


class ReceivedObserver:
    """Column sums of A: how much attention each key received.

    ``received[j] = Σᵢ A[i, j]``
    """

    def __init__(self, logsumexp: Tensor, keys: int) -> None:
        self.total: Float[Tensor, "batch heads m"] = logsumexp.new_zeros(
            (*logsumexp.shape[:2], keys)
        )

    def see(self, rows: range, columns: range, *, weights: Tensor, scores: Tensor) -> None:
        """Add the block's column sums."""
        del rows, scores
        self.total[..., columns.start : columns.stop] += weights.sum(-2)

    def result(self) -> Float[Tensor, "batch heads m"]:
        """The column sums."""
        return self.total


class EntropyObserver:
    """Entropy of each row of A in nats; with a sink, of the part that falls on keys.

    ``entropy[i] = −Σⱼ A[i, j] · log A[i, j] = Σⱼ A[i, j] · (L[i] − S[i, j])``
    """

    def __init__(self, logsumexp: Tensor) -> None:
        self.level = logsumexp
        self.total: Float[Tensor, "batch heads n"] = torch.zeros_like(logsumexp)

    def see(self, rows: range, columns: range, *, weights: Tensor, scores: Tensor) -> None:
        """Add the block's share of each row."""
        del columns
        surprise = self.level[..., rows.start : rows.stop, None] - scores
        # 0 · (L − (−inf)) is 0 here: nothing is surprised by what it never sees
        part = torch.where(weights == 0, 0.0, weights * surprise)
        self.total[..., rows.start : rows.stop] += part.sum(-1)

    def result(self) -> Float[Tensor, "batch heads n"]:
        """The entropies."""
        return self.total


@dataclass(frozen=True, eq=False, slots=True)
class TopKeys:
    """The strongest keys of every row, strongest first.

    Attributes:
        weights: their weights, (batch, heads, n, k).
        keys: their indices; −1 where a row sees fewer than k keys.
    """

    weights: Float[Tensor, "*lead n k"]
    keys: Int[Tensor, "*lead n k"]


class TopKeysObserver:
    """The k largest entries of each row of A."""

    def __init__(self, logsumexp: Tensor, k: int) -> None:
        if k < 0:
            raise InputError(f"k must be at least 0, got {k}")
        shape = (*logsumexp.shape, k)
        self.level = logsumexp.detach()
        self.scores = logsumexp.new_full(shape, -torch.inf)
        self.keys = torch.full(shape, -1, dtype=torch.int64, device=logsumexp.device)

    def see(self, rows: range, columns: range, *, weights: Tensor, scores: Tensor) -> None:
        """Merge the block's strongest with the strongest so far."""
        del weights  # a weight too small to hold is 0, as if the key were not seen
        part = slice(rows.start, rows.stop)
        k = self.keys.shape[-1]
        best = scores.topk(min(k, len(columns)), dim=-1)
        found = torch.where(torch.isneginf(best.values), -1, best.indices + columns.start)
        pool = torch.cat([self.scores[..., part, :], best.values], -1)
        names = torch.cat([self.keys[..., part, :], found], -1)
        top = pool.topk(k, dim=-1)
        self.scores[..., part, :] = top.values
        self.keys[..., part, :] = names.gather(-1, top.indices)

    def result(self) -> TopKeys:
        """What was found."""
        return TopKeys(weight_tile(self.scores, self.level), self.keys)


@dataclass(frozen=True, eq=False, slots=True)
class PooledMap:
    """A made small: each cell stands for a rectangle of entries.

    Attributes:
        values: (batch, heads, row bins, column bins).
        row_edges: row bin i holds rows ``row_edges[i]`` to ``row_edges[i + 1]``, the last excluded.
        column_edges: likewise for columns.
        reduce: how a rectangle became one number.
    """

    values: Float[Tensor, "*lead row_bins column_bins"]
    row_edges: Int[Tensor, "row_edges"]
    column_edges: Int[Tensor, "column_edges"]
    reduce: Literal["max", "sum", "mean"]


class PooledObserver:
    """A pooled to at most ``size`` × ``size`` cells by maximum, sum or mean.

    A maximum keeps a needle that a mean would hide; a sum keeps the mass.
    """

    def __init__(
        self, logsumexp: Tensor, keys: int, *, size: int, reduce: Literal["max", "sum", "mean"]
    ) -> None:
        if reduce not in ("max", "sum", "mean"):
            raise InputError(f"reduce must be 'max', 'sum' or 'mean', got {reduce!r}")
        if size < 1:
            raise InputError(f"size must be at least 1, got {size}")
        self.reduce: Literal["max", "sum", "mean"] = reduce
        self.row_edges = _edges(logsumexp.shape[2], size)
        self.column_edges = _edges(keys, size)
        device = logsumexp.device
        self.row_bin = _bins(self.row_edges).to(device)
        self.column_bin = _bins(self.column_edges).to(device)
        shape = (*logsumexp.shape[:2], len(self.row_edges) - 1, len(self.column_edges) - 1)
        self.values = logsumexp.new_zeros(shape)

    def see(self, rows: range, columns: range, *, weights: Tensor, scores: Tensor) -> None:
        """Fold the block's rows, then its columns, into the cells they belong to."""
        del scores
        across = self.column_bin[columns.start : columns.stop]
        down = self.row_bin[rows.start : rows.stop]
        first, last = int(across[0]), int(across[-1]) + 1
        top, bottom = int(down[0]), int(down[-1]) + 1
        # rows first: they fold along memory, and leave few numbers to be folded across it
        flat = _fold(weights, down - top, bottom - top, maximum=self.reduce == "max")
        small = _fold(flat.mT, across - first, last - first, maximum=self.reduce == "max").mT
        cells = self.values[..., top:bottom, first:last]
        cells.copy_(torch.maximum(cells, small) if self.reduce == "max" else cells + small)

    def result(self) -> PooledMap:
        """The map."""
        values = self.values
        if self.reduce == "mean":
            height, width = self.row_edges.diff(), self.column_edges.diff()
            values = values / (height[:, None] * width[None, :]).to(values.device)
        return PooledMap(values, self.row_edges, self.column_edges, self.reduce)


#: What an observer makes.
Observed = Tensor | TopKeys | PooledMap


@overload
def shown(result: Tensor, lead: tuple[int, ...]) -> Tensor: ...
@overload
def shown(result: TopKeys, lead: tuple[int, ...]) -> TopKeys: ...
@overload
def shown(result: PooledMap, lead: tuple[int, ...]) -> PooledMap: ...
def shown(result: Observed, lead: tuple[int, ...]) -> Observed:
    """A statistic with the leading axes that its matrix shows, in place of (batch, heads)."""
    if isinstance(result, Tensor):
        return result.reshape(*lead, *result.shape[2:])
    if isinstance(result, TopKeys):
        return TopKeys(shown(result.weights, lead), shown(result.keys, lead))
    return replace(result, values=shown(result.values, lead))


def _edges(size: int, bins: int) -> Tensor:
    bins = min(bins, size)
    return torch.tensor([i * size // bins for i in range(bins + 1)] if bins else [0])


def _bins(edges: Tensor) -> Tensor:
    return torch.repeat_interleave(torch.arange(len(edges) - 1), edges.diff())


def _fold(block: Tensor, bins: Tensor, count: int, *, maximum: bool) -> Tensor:
    """Reduce the rows to ``count`` bins; equal bins by a view, others by gathering."""
    rows, columns = block.shape[-2:]
    lead = block.shape[:-2]
    if rows % count == 0 and bool(
        (bins.reshape(count, -1) == torch.arange(count, device=bins.device)[:, None]).all()
    ):
        view = block.reshape(*lead, count, rows // count, columns)
        return view.amax(-2) if maximum else view.sum(-2)
    start = torch.searchsorted(bins, torch.arange(count, device=bins.device))
    width = torch.bincount(bins, minlength=count)
    step = torch.arange(int(width.max()), device=bins.device)
    inside = step < width[:, None]
    gathered = block[..., torch.where(inside, start[:, None] + step, start[:, None]), :]
    if maximum:
        return gathered.amax(-2)
    return torch.where(inside[..., None], gathered, 0.0).sum(-2)
