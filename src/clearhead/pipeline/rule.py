"""How scores are made from queries and keys, as one value.

Two classes: :class:`ScoreRule` is what a person writes and may be used with any Q and K;
:class:`BoundRule` is the same rule checked against the sizes of one call, which is what every
implementation takes.
"""

import math
import operator
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.errors import ShapeError, gathered
from clearhead.masks import Causal, Mask, Verdict
from clearhead.masks.places import numbers
from clearhead.pipeline.places import Positions, as_index, take
from clearhead.pipeline.rule_faults import four_axes, rule_faults
from clearhead.positions.position_bias import ChosenPositions, PositionBias

__all__ = ["FEW", "BoundRule", "ScoreRule"]

#: So many rows are few: a step of generation.
FEW = 64


def _none_settled() -> dict[Hashable, tuple["BoundRule", str]]:
    return {}  # a compiled graph can call this, and not a type of dict with its parts named


@dataclass(frozen=True, eq=False)
class ScoreRule:
    """How S is made from Q and K; the order of operations is fixed.

    ``S = mask(softcap · tanh(scale · Q Kᵀ / softcap) + bias)``, and with sinks the softmax of a row
    runs over its m scores and one more logit, whose column is then dropped.

    Attributes:
        scale: factor on Q Kᵀ; None is 1/√d_k.
        softcap: scores are bent smoothly into (−softcap, softcap); None is no cap.
        bias: added to the scores: a tensor that broadcasts to (batch, heads, n, m), of which −inf
            masks, or a position bias, which is made a tile at a time.
        mask: who may look at whom; None is everyone at everything.
        sinks: one logit a head, shape (heads,).
        query_start: absolute position of the first query, an integer or one a batch row. None is
            the first key's position, allowed only where n = m or neither the mask nor the bias asks
            for positions.
        key_start: absolute position of the first key.
    """

    scale: float | None = None
    softcap: float | None = None
    bias: Tensor | PositionBias | None = None
    mask: Mask | None = None
    sinks: Tensor | None = None
    query_start: int | Int[Tensor, "..."] | None = None
    key_start: int = 0
    #: The call it was last bound to, by its sizes: layers that share a rule check it once.
    settled: dict[Hashable, tuple["BoundRule", str]] = field(
        default_factory=_none_settled, init=False, repr=False
    )

    def bind(
        self, query: Float[Tensor, "batch heads n d_k"], key: Float[Tensor, "batch kv_heads m d_k"]
    ) -> "BoundRule":
        """Check the rule against one call's Q and K.

        Args:
            query: queries, with all four axes.
            key: keys, with all four axes.

        Returns:
            The rule with every default filled in.

        Raises:
            ShapeError: the bias, the sinks or a number does not fit; all faults at once.
            MaskError: the mask does not fit; all faults at once.
        """
        batch, heads, queries, d_k = query.shape
        keys = key.shape[2]
        faults = rule_faults(self, (batch, heads, queries, keys), device=query.device)
        if faults:
            raise ShapeError(gathered("the score rule does not fit the call", faults))
        start, key_start = self.query_start, operator.index(self.key_start)
        if start is not None:  # NumPy's integers are no int
            start = start.expand(batch) if isinstance(start, Tensor) else operator.index(start)
        mask = self.mask
        if mask is not None:
            mask = mask.bind(
                queries=queries,
                keys=keys,
                batch=batch,
                heads=heads,
                query_start=start,
                key_start=key_start,
            )
        bias = self.bias
        if isinstance(bias, Tensor):
            bias = bias.reshape(four_axes(bias.shape))
        return BoundRule(
            scale=self.scale if self.scale is not None else 1.0 / math.sqrt(max(d_k, 1)),
            softcap=self.softcap,
            bias=bias,
            mask=mask,
            sinks=self.sinks,
            queries=queries,
            keys=keys,
            query_start=key_start if start is None else start,
            key_start=key_start,
        )


@dataclass(frozen=True, eq=False)
class BoundRule:
    """A score rule that fits one call: no default is open and every size is known.

    Rows and columns are the call's own indices; the rule turns them into absolute positions for the
    mask and a position bias. ``batch_index`` and ``head_index`` narrow these two to the chosen
    batch rows and heads, so that one head of a large call can be looked at without touching the
    others.
    """

    scale: float
    softcap: float | None
    bias: Float[Tensor, "#batch #heads #n #m"] | PositionBias | None
    mask: Mask | None
    sinks: Float[Tensor, "heads"] | None
    queries: int
    keys: int
    query_start: int | Int[Tensor, "batch"]
    key_start: int
    batch_index: Int[Tensor, "chosen_batch"] | None = None
    head_index: Int[Tensor, "chosen_heads"] | None = None

    def row_positions(self, rows: Positions) -> Positions:
        """Absolute positions of rows: (r,), or (batch, r) when each batch row starts elsewhere."""
        start = self.query_start
        if isinstance(start, int):
            if isinstance(rows, range):
                return range(rows.start + start, rows.stop + start, rows.step)
            return rows + start
        index = torch.arange(rows.start, rows.stop, rows.step) if isinstance(rows, range) else rows
        start = start.reshape(-1, 1)
        return start + index.to(start.device)

    def column_positions(self, columns: Positions) -> Positions:
        """Absolute positions of columns."""
        if isinstance(columns, range):
            start = self.key_start
            return range(columns.start + start, columns.stop + start, columns.step)
        return columns + self.key_start

    def visible(
        self, rows: Positions, columns: Positions, *, device: torch.device
    ) -> Bool[Tensor, "#batch #heads r c"] | None:
        """The mask's tile, True where a row may look at a column; None where there is no mask."""
        if self.mask is None:
            return None
        tile = self.mask.tile(
            as_index(self.row_positions(rows), device),
            as_index(self.column_positions(columns), device),
        )
        if self.batch_index is not None and tile.shape[0] > 1:
            tile = tile[self.batch_index]
        if self.head_index is not None and tile.shape[1] > 1:
            tile = tile[:, self.head_index]
        return tile

    def bias_tile(
        self,
        rows: Positions,
        columns: Positions,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
    ) -> Float[Tensor, "#batch #heads #r #c"] | None:
        """The bias for a tile; axes of size 1 stay so.

        A stored one is as it is; a position bias is made in ``dtype`` on ``device``.
        """
        tile = self.bias
        if isinstance(tile, PositionBias):
            where, columns = self.row_positions(rows), self.column_positions(columns)
            if self.batch_index is not None and isinstance(where, Tensor) and where.ndim > 1:
                where = where[self.batch_index.to(where.device)]
            return tile.tile(where, columns, heads=self.head_index, dtype=dtype, device=device)
        if tile is None:
            return None
        if tile.shape[2] > 1:
            tile = take(tile, rows, axis=2)
        if tile.shape[3] > 1:
            tile = take(tile, columns, axis=3)
        return tile

    def verdict(self, rows: range, columns: range) -> Verdict:
        """Whether a block is seen wholly, partly or not at all (over every batch row and head)."""
        if self.mask is None:
            return Verdict.ALL
        start = self.query_start
        starts = {start} if isinstance(start, int) else set(numbers(start.reshape(-1)))
        where = self.column_positions(columns)
        assert isinstance(where, range)
        found = {self.mask.verdict(range(rows.start + s, rows.stop + s), where) for s in starts}
        return found.pop() if len(found) == 1 else Verdict.MIXED

    @property
    def sees_all(self) -> bool:
        """Whether the mask is known to hide nothing from any row.

        It is asked for a few rows only, since some masks answer with a tile, and not while
        compiling.
        """
        if self.mask is None:
            return True
        asked = 0 < self.queries <= FEW and self.keys > 0
        if not asked or torch.compiler.is_compiling():
            return False
        return self._whole is Verdict.ALL

    @cached_property
    def _whole(self) -> Verdict:
        return self.verdict(range(self.queries), range(self.keys))

    @property
    def triangle(self) -> bool:
        """Whether the mask is plainly causal and row i stands where column i does."""
        start = self.query_start
        return isinstance(self.mask, Causal) and isinstance(start, int) and start == self.key_start

    def narrowed(
        self, batch: int, *, rows: Int[Tensor, "r"] | None, columns: Int[Tensor, "c"] | None
    ) -> "BoundRule":
        """The rule of one batch row, with only some of its rows and columns, renumbered from 0.

        Args:
            batch: the batch row.
            rows: which rows, as indices of this call; None is all.
            columns: which columns; None is all.

        Returns:
            A rule for a call with one batch row, these rows and these columns.
        """
        chosen, bias = self.choose(batch=torch.tensor([batch])), self.bias
        batch = batch if self.batch_index is None else int(self.batch_index[batch])
        start = self.query_start
        if isinstance(start, Tensor):
            start = numbers(start.reshape(-1))[batch if start.numel() > 1 else 0]
        if rows is None and columns is None and start is self.query_start:
            mask = None if self.mask is None else self.mask.select(batch=batch)
            return replace(chosen, mask=mask, batch_index=None)
        rows = torch.arange(self.queries) if rows is None else rows
        columns = torch.arange(self.keys) if columns is None else columns
        mask = self.mask
        if mask is not None:
            mask = mask.select(batch=batch, rows=rows + start, columns=columns + self.key_start)
        if isinstance(bias, PositionBias):
            bias = ChosenPositions(bias, rows=rows + start, columns=columns + self.key_start)
        else:
            bias = chosen.bias_tile(rows, columns)
        return replace(
            chosen,
            bias=bias,
            mask=mask,
            queries=len(rows),
            keys=len(columns),
            query_start=0,
            key_start=0,
            batch_index=None,
        )

    def choose(
        self, *, batch: Int[Tensor, "b"] | None = None, heads: Int[Tensor, "h"] | None = None
    ) -> "BoundRule":
        """The rule for some batch rows and heads; mask and position bias follow tile by tile."""
        bias, sinks = self.bias, self.sinks
        if batch is not None and isinstance(bias, Tensor) and bias.shape[0] > 1:
            bias = bias[batch]
        if heads is not None:
            bias = bias[:, heads] if isinstance(bias, Tensor) and bias.shape[1] > 1 else bias
            sinks = sinks[heads] if sinks is not None else None
        return replace(
            self,
            bias=bias,
            sinks=sinks,
            batch_index=_chain(self.batch_index, batch),
            head_index=_chain(self.head_index, heads),
        )


def _chain(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return first if second is None else second
    return first[second]
