"""Matrices that behave like S and A and are never formed.

:class:`ScoreMatrix` and :class:`AttentionMatrix` hold Q, K and the rule (and L); every read
computes the block it needs. Indexing follows NumPy: choosing layers of the leading axes stays lazy,
choosing rows or columns gives numbers.

    weights = result.weights        (batch, heads, n, m), nothing computed
    weights[0, 3]                   one head, still lazy
    weights[0, 3, 10]               one exact row
    weights[0, 3, :, 10]            one exact column
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.errors import InputError, ShapeError
from clearhead.pipeline.indexing import AxisIndex, MatrixIndex, Selection, positions, select
from clearhead.pipeline.levels import exact_levels
from clearhead.pipeline.observe import (
    EntropyObserver,
    Observer,
    PooledMap,
    PooledObserver,
    ReceivedObserver,
    TopKeys,
    TopKeysObserver,
    observe,
    shown,
)
from clearhead.pipeline.places import Positions, as_tensor, take
from clearhead.pipeline.recomputing import recomputing
from clearhead.pipeline.rule import BoundRule
from clearhead.pipeline.showing import ShowsItself
from clearhead.pipeline.tiles import mix, score_tile, weight_tile
from clearhead.pipeline.visibility import column_span, row_blocks

__all__ = ["AttentionMatrix", "ScoreMatrix"]

#: The largest matrix that becomes a NumPy array unasked.
ARRAY_ELEMENTS = 4096 * 4096

_Made = TypeVar("_Made", Tensor, TopKeys, PooledMap)


@dataclass(frozen=True, eq=False, repr=False)
class ScoreMatrix(ShowsItself):
    """S (or scale · Q Kᵀ alone) as a matrix that is never formed.

    Attributes:
        query: Q, four axes.
        key: K, four axes, not repeated for grouped heads.
        bound: the rule, bound to them.
        leading: how many of the axes (batch, heads) are shown, with which of them.
        raw: stop after the scale.
    """

    query: Float[Tensor, "batch heads n d_k"]
    key: Float[Tensor, "batch kv_heads m d_k"]
    bound: BoundRule
    leading: tuple[bool, bool] = (True, True)
    raw: bool = False

    #: The tensors that choosing batch rows or heads narrows, and whether they have key–value heads.
    _tensors: ClassVar[dict[str, bool]] = {"query": False, "key": True}

    @property
    def shape(self) -> tuple[int, ...]:
        """(batch, heads, n, m), without the axes that were chosen away."""
        lead = zip(self.query.shape[:2], self.leading, strict=True)
        return (*(size for size, shown in lead if shown), self.bound.queries, self.bound.keys)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> torch.dtype:
        """float32, or float64 for float64."""
        return torch.float64 if self.query.dtype == torch.float64 else torch.float32

    def tile(self, rows: AxisIndex, columns: AxisIndex) -> Float[Tensor, "*lead r c"]:
        """One exact block.

        Args:
            rows: a range, a slice, or integers.
            columns: likewise.

        Returns:
            The block, for every leading axis.

        Cost: r · c · d_k multiplications a head, and for A in half precision r · m · d_k, since L
        is made again; memory of the block.
        """
        r = positions(rows, self.bound.queries, axis="rows")
        c = positions(columns, self.bound.keys, axis="columns")
        return self._shown(self._block(r, c))

    def rows(self, rows: AxisIndex) -> Float[Tensor, "*lead r m"]:
        """Some whole rows; see :meth:`tile`."""
        return self.tile(rows, range(self.bound.keys))

    def to_dense(self) -> Float[Tensor, "*lead n m"]:
        """The whole matrix: **quadratic**, heads · n · m numbers. For small sizes and to check."""
        return self.tile(range(self.bound.queries), range(self.bound.keys))

    # a matrix while rows and columns stay whole, else a tensor: the index decides, not its type
    def __getitem__(self, index: MatrixIndex) -> Any:
        selection = select(index, self.shape)
        if selection.lazy:
            return self._narrowed(selection)
        return selection.finish(self._narrowed(selection).tile(selection.rows, selection.columns))

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __array__(
        self, dtype: npt.DTypeLike | None = None, *, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        del copy  # every read computes, so the array is always new
        elements = int(np.prod(self.shape))
        if elements > ARRAY_ELEMENTS:
            raise InputError(
                f"a matrix of shape {self.shape} has {elements:,} entries and is not made into an "
                f"array unasked (at most {ARRAY_ELEMENTS:,}): use pooled(size) for a picture, "
                "tile(rows, columns) for a part, or to_dense() to pay for all of it"
            )
        array = self.to_dense().detach().cpu().numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, never formed)"

    def _block(self, rows: Positions, columns: Positions) -> Tensor:
        return score_tile(
            self.query, self.key, self.bound, rows=rows, columns=columns, raw=self.raw
        )

    def _shown(self, block: Tensor) -> Tensor:
        """Drop the leading axes that are not shown; each of them has size 1."""
        return block.reshape(*self.shape[:-2], *block.shape[2:])

    def _narrowed(self, selection: Selection) -> Self:
        """The same matrix for the chosen batch rows and heads."""
        matrix = self
        axes = [axis for axis, shown in enumerate(self.leading) if shown]
        for axis, chosen in zip(axes, selection.leading, strict=True):
            matrix = matrix._on_axis(axis, chosen.index, keep=chosen.keep)
        return matrix

    def _on_axis(self, axis: int, index: Positions, *, keep: bool) -> Self:
        leading = (self.leading[0] and (axis != 0 or keep), self.leading[1] and (axis != 1 or keep))
        if isinstance(index, range) and len(index) == self.query.shape[axis]:
            return replace(self, leading=leading)
        group = self.query.shape[1] // max(self.key.shape[1], 1)
        parts: dict[str, Tensor] = {}
        for name, grouped in self._tensors.items():
            where = _grouped(index, group) if axis == 1 and grouped else index
            parts[name] = take(getattr(self, name), where, axis=axis)
        index = as_tensor(index, self.query.device)
        bound = self.bound.choose(batch=index) if axis == 0 else self.bound.choose(heads=index)
        return replace(self, bound=bound, leading=leading, **parts)


def _grouped(heads: Positions, group: int) -> Positions:
    """The key–value heads that these heads read: a view for one head, else one entry a head."""
    if isinstance(heads, range):
        if len(heads) == 1:
            return range(heads.start // group, heads.start // group + 1)
        heads = torch.arange(heads.start, heads.stop)
    return heads // group


@dataclass(frozen=True, eq=False, repr=False)
class AttentionMatrix(ScoreMatrix):
    """A as a matrix that is never formed: rows, tiles, products and statistics, each exact.

    Attributes:
        logsumexp: L, which makes every entry ``exp(S − L)``.
    """

    logsumexp: Float[Tensor, "batch heads n"] = field(kw_only=True)

    _tensors: ClassVar[dict[str, bool]] = {"query": False, "key": True, "logsumexp": False}

    def matvec(
        self, vectors: Float[Tensor, "*shared m e"] | Float[Tensor, "m"]
    ) -> Float[Tensor, "*lead n e"] | Float[Tensor, "*lead n"]:
        """The product A · X, by blocks of rows.

        ``(A X)[i] = Σⱼ A[i, j] · xⱼ``; a key that a row may not see does not matter, NaN included.

        Args:
            vectors: X: (m, e), shared by every leading axis, or with the leading axes of this
                matrix; or one vector, (m,).

        Returns:
            A · X, in the wide dtype; (n,) behind the leading axes for one vector.

        Raises:
            ShapeError: X does not have m rows, or other leading axes.

        Cost: n · m · (d_k + e) multiplications a head; memory linear in n, also under autograd,
        where each block of rows is computed again on the way back.
        """
        if vectors.shape == (self.bound.keys,):
            return self.matvec(vectors.unsqueeze(-1)).squeeze(-1)
        batch, heads = self.query.shape[:2]
        lead = self._lead if vectors.ndim > 2 else (batch, heads)
        if vectors.shape[-2:-1] != (self.bound.keys,) or vectors.shape[:-2] not in ((), lead):
            several = f" or {(*self._lead, 'm', 'e')}".replace("'", "") if self._lead else ""
            wanted = f"(m,), (m, e){several}"
            raise ShapeError(
                f"vectors must have shape {wanted} with m = {self.bound.keys}, "
                f"got {tuple(vectors.shape)}"
            )
        size = vectors.shape[-2:]
        spread = vectors.expand(*lead, *size).reshape(batch, heads, *size).to(self.dtype)
        learned = (self.query, self.key, self.logsumexp, spread)
        block = recomputing(self._mixed_rows, *learned, rule=self.bound)
        parts = [
            block(spread, rows)
            for rows in row_blocks(self.bound.queries, width=batch * heads * self.bound.keys)
        ]
        none = spread.new_zeros(batch, heads, 0, spread.shape[-1])
        return self._shown(torch.cat(parts, dim=2) if parts else none)

    def _mixed_rows(self, vectors: Tensor, rows: range) -> Tensor:
        """Some rows of A · X."""
        span = column_span(self.bound, rows)
        scores = super()._block(rows, span)
        weights = weight_tile(scores, self.levels(rows))
        return mix(weights, take(vectors, span, axis=2), ~torch.isneginf(scores))

    def received(self) -> Float[Tensor, "*lead m"]:
        """How much attention each key received: ``Σᵢ A[i, j]``. One pass over the tiles."""
        return self._watch(lambda level: ReceivedObserver(level, self.bound.keys))

    def entropy(self) -> Float[Tensor, "*lead n"]:
        """Entropy of each row in nats, ``−Σⱼ A[i, j] log A[i, j]``. One pass over the tiles."""
        return self._watch(EntropyObserver)

    def top_keys(self, k: int = 8) -> TopKeys:
        """The k strongest keys of each row, strongest first. One pass over the tiles.

        Args:
            k: how many; at most m are found.

        Returns:
            Their weights and indices; index −1 where a row sees fewer.
        """
        return self._watch(lambda level: TopKeysObserver(level, min(k, self.bound.keys)))

    def pooled(
        self, size: int = 256, *, reduce: Literal["max", "sum", "mean"] = "max"
    ) -> PooledMap:
        """The matrix made small enough to look at. One pass over the tiles.

        Args:
            size: cells a side at most; a matrix with fewer rows or columns keeps them all.
            reduce: how a rectangle becomes one number. A maximum keeps a needle that a mean hides.

        Returns:
            The map and the edges of its bins.
        """
        return self._watch(
            lambda level: PooledObserver(level, self.bound.keys, size=size, reduce=reduce)
        )

    def levels(self, rows: Positions | None = None) -> Float[Tensor, "batch heads r"]:
        """L of some rows, or of all, by which ``exp(S − L)`` is exact in half precision too."""
        chosen = range(self.bound.queries) if rows is None else rows
        return exact_levels(self.query, self.key, self.logsumexp, rule=self.bound, rows=chosen)

    @torch.no_grad()
    def _watch(self, make: Callable[[Tensor], Observer[_Made]]) -> _Made:
        level = self.levels()
        observer = make(level)
        observe(self.query, self.key, level, rule=self.bound, observers=(observer,))
        return shown(observer.result(), self._lead)

    @property
    def _lead(self) -> tuple[int, ...]:
        return self.shape[:-2]

    def _block(self, rows: Positions, columns: Positions) -> Tensor:
        return weight_tile(super()._block(rows, columns), self.levels(rows))
