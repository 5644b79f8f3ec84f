"""A mask that was already written out as a tensor."""

from dataclasses import dataclass, replace
from typing import cast, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from clearhead.errors import MaskError
from clearhead.masks.chosen import Selection
from clearhead.masks.mask import Mask
from clearhead.masks.places import Block, Call, written
from clearhead.masks.selection import Selected

__all__ = ["TensorMask", "tensor_mask"]


@final
@dataclass(frozen=True, eq=False)
class TensorMask(Mask):
    """A mask that was already written out: ``allowed[b, h, i - query_start, j - key_start]``.

    Attributes:
        allowed: True = may look; an axis of size 1 stands for all.
        query_start: position of row 0; None until a call says where its first query stands, and for
            a single row, which stands for every query.
        key_start: position of column 0; None until a call says where its first key stands.
    """

    allowed: Bool[Tensor, "batch heads n m"]
    query_start: int | Int[Tensor, "..."] | None = None
    key_start: int | None = None

    def __repr__(self) -> str:
        return f"Mask.from_tensor({written(self.allowed)})"

    @property
    def positional(self) -> bool:
        """It is where the position of row 0 was given; else its rows follow the queries."""
        return self.query_start is not None

    @property
    def batch_rows(self) -> int:
        """As many as written out, or as there are places where row 0 stands."""
        start = self.query_start
        placed = start.numel() if isinstance(start, Tensor) else 1
        return self.allowed.shape[0] if self.allowed.shape[0] != 1 else placed

    @property
    def head_count(self) -> int:
        """As many as written out."""
        return self.allowed.shape[1]

    @property
    def device(self) -> torch.device:
        """Where it was written."""
        return self.allowed.device

    @property
    def _one_row(self) -> bool:
        return self.query_start is None and self.allowed.shape[2] == 1

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Look each pair up."""
        allowed = self.allowed.to(j.device)
        batch, heads, n, m = allowed.shape
        row, column = i - self._first(b), j - (self.key_start or 0)
        inside = torch.ones_like(j, dtype=torch.bool)
        if not self._one_row:
            inside = inside & (row >= 0) & (row < n)
        if m != 1:
            inside = inside & (column >= 0) & (column < m)
        if n == 0 or m == 0:
            return torch.zeros_like(inside)
        at = (
            0 if batch == 1 else b,
            0 if heads == 1 else h,
            0 if self._one_row else row.clamp(0, n - 1),
            0 if m == 1 else column.clamp(0, m - 1),
        )
        return allowed[at] & inside

    def look(self, block: Block) -> Bool[Tensor, "#batch #heads #rows #columns"]:
        """Take a slice, where the block is one; else look each pair up."""
        n, m = self.allowed.shape[2:]
        start = self.query_start or 0 if isinstance(self.query_start, int | None) else None
        rows = slice(0, 1) if self._one_row else _slice(block.rows, start, n)
        columns = slice(0, 1) if m == 1 else _slice(block.columns, self.key_start or 0, m)
        if rows is None or columns is None:
            return self.predicate(block.b, block.h, block.i, block.j)
        return self.allowed[:, :, rows, columns].to(block.i.device)

    def _first(self, b: Tensor) -> int | Tensor:
        start = self.query_start
        if not isinstance(start, Tensor):
            return start or 0
        start = start.to(b.device).reshape(-1)
        return start[0] if start.shape[0] == 1 else start[b]

    def faults(self, call: Call) -> list[str]:
        """Expect one row a query and one column a key, or 1 for all; likewise batch and heads."""
        batch, heads, n, m = self.allowed.shape
        sizes: list[tuple[str, int, int | None]] = [
            ("batch rows", batch, call.batch),
            ("heads", heads, call.heads),
        ]
        if self.query_start is None:
            sizes.append(("rows, one a query", n, call.queries))
        sizes.append(("columns, one a key", m, call.keys))
        faults = [
            f"{self!r}: expected {wanted} {name} (or 1 for all), got {got}"
            for name, got, wanted in sizes
            if wanted is not None and got not in {1, wanted}
        ]
        return faults + self._outside(call)

    def _outside(self, call: Call) -> list[str]:
        start, first, past = self.query_start, call.first_query, call.past_queries
        if not isinstance(start, int) or not isinstance(first, int) or past is None:
            return []
        end = start + self.allowed.shape[2]
        if start <= first and past <= end:
            return []
        there = f"expected queries at positions {start} to {end - 1}, where its rows stand"
        what = "leave query_start= of from_tensor out to let row 0 be the first query"
        return [f"{self!r}: {there}, got {first} to {past - 1}; {what}"]

    def resolved(self, call: Call) -> Mask:
        """Let row 0 be the first query and column 0 the first key, where nothing else was said."""
        start = call.first_query if self.query_start is None else self.query_start
        key_start = call.key_start if self.key_start is None else self.key_start
        return TensorMask(self.allowed, None if self._one_row else start, key_start)

    def of_batch(self, row: int) -> Mask:
        """Keep one batch row."""
        allowed = self.allowed if len(self.allowed) == 1 else self.allowed[row : row + 1]
        start = self.query_start
        if isinstance(start, Tensor) and start.numel() > 1:
            start = start[row : row + 1]
        return TensorMask(allowed, start, self.key_start)

    def selected(self, selection: Selection) -> Mask:
        """Count rows and columns from position 0, where no call said anything else."""
        start = 0 if self.query_start is None and not self._one_row else self.query_start
        placed = replace(self, query_start=start, key_start=self.key_start or 0)
        chosen = selection.rows.chosen is not None or selection.columns.chosen is not None
        return Selected.of(placed if chosen else self, selection)

    def to(self, device: torch.device | str) -> Mask:
        """Move what was written out."""
        moved = self.allowed.to(device)
        return self if moved is self.allowed else replace(self, allowed=moved)


def _slice(asked: range | Tensor, start: int | None, size: int) -> slice | None:
    if start is None or isinstance(asked, Tensor) or asked.step < 1:
        return None
    if asked.start < start or asked.stop > start + size:
        return None
    return slice(asked.start - start, asked.stop - start, asked.step)


def tensor_mask(allowed: Bool[Tensor, "..."], *, query_start: int | None) -> TensorMask:
    """Take a mask that was already written out; see ``Mask.from_tensor``.

    Args:
        allowed: (n, m), (heads, n, m) or (batch, heads, n, m) of bool, True = may look.
        query_start: absolute position of row 0, or None.

    Returns:
        The mask.

    Raises:
        MaskError: if ``allowed`` is no bool tensor of such a shape.
    """
    is_tensor = isinstance(cast("object", allowed), Tensor)
    if not is_tensor or allowed.dtype != torch.bool or allowed.dim() not in {2, 3, 4}:
        raise MaskError(
            f"Mask.from_tensor: expected a bool tensor (n, m), (heads, n, m) or "
            f"(batch, heads, n, m), True = may look, got {written(allowed)}; what is added to the "
            f"scores belongs in bias="
        )
    shape = (1,) * (4 - allowed.dim()) + tuple(allowed.shape)
    return TensorMask(allowed.view(shape), query_start)
