"""The same mask seen at one batch row, or at chosen positions."""

from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Bool
from torch import Tensor

from clearhead.errors import MaskError
from clearhead.masks.chosen import Axis, Selection
from clearhead.masks.mask import Mask
from clearhead.masks.node import Verdict
from clearhead.masks.places import Block, Call

__all__ = ["Selected", "chosen_row"]


def chosen_row(mask: Mask, batch: int | None) -> int | None:
    """Say which batch row of a leaf has to be picked.

    Args:
        mask: the leaf.
        batch: the batch row, or None for all.

    Returns:
        The row; None where all are wanted, or all are alike.

    Raises:
        MaskError: if the mask tells batch rows apart and has no such row.
    """
    if batch is None or mask.batch_rows == 1:
        return None
    if not 0 <= batch < mask.batch_rows:
        raise MaskError(
            f"select: expected batch among the {mask.batch_rows} rows of {mask!r}, counted from 0, "
            f"got {batch}"
        )
    return batch


@final
@dataclass(frozen=True, eq=False)
class Selected(Mask):
    """A leaf at chosen positions: ``mask(batch, h, rows[i], columns[j])``.

    Attributes:
        mask: the leaf.
        selection: what was chosen; an index beyond it sees nobody and is seen by nobody.
    """

    mask: Mask
    selection: Selection

    @classmethod
    def of(cls, mask: Mask, selection: Selection) -> Mask:
        """Select from a leaf, by the shortest way it knows."""
        row = chosen_row(mask, selection.batch)
        mask = mask if row is None else mask.of_batch(row)
        rows, columns = selection.rows, selection.columns
        if rows.chosen is None and columns.chosen is None:
            return mask
        if rows.run is not None and columns.run is not None:
            moved = mask.moved(rows.run, columns.run)
            if moved is not None:
                return moved
        return cls(mask, replace(selection, batch=None))

    def __repr__(self) -> str:
        chosen = {"rows": self.selection.rows.chosen, "columns": self.selection.columns.chosen}
        told = [f"{name}={name}[{len(at)}]" for name, at in chosen.items() if at is not None]
        if self.selection.batch is not None:
            told.insert(0, f"batch={self.selection.batch}")
        return f"{self.mask!r}.select({', '.join(told)})"

    @property
    def positional(self) -> bool:
        """As the leaf is."""
        return self.mask.positional

    @property
    def batch_rows(self) -> int:
        """As many as the leaf tells apart, or the one chosen."""
        return self.mask.batch_rows if self.selection.batch is None else 1

    @property
    def head_count(self) -> int:
        """As many as the leaf tells apart."""
        return self.mask.head_count

    @property
    def device(self) -> torch.device | None:
        """Where the leaf's tensors are, else where the chosen positions are."""
        chosen = (self.selection.rows.chosen, self.selection.columns.chosen)
        return self.mask.device or next((at.device for at in chosen if at is not None), None)

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Ask the leaf at the chosen positions."""
        if self.selection.batch is not None:
            b = torch.full_like(b, self.selection.batch)
        rows, columns = self.selection.rows, self.selection.columns
        seen = self.mask.predicate(b, h, rows.positions(i), columns.positions(j))
        return seen & rows.known(i) & columns.known(j)

    def look(self, block: Block) -> Bool[Tensor, "#batch #heads #rows #columns"]:
        """Ask for ranges where they stay ranges: the leaf may have a slice for them."""
        rows = self.selection.rows.span(block.rows)
        columns = self.selection.columns.span(block.columns)
        if rows is None or columns is None or self.selection.batch is not None:
            return self.predicate(block.b, block.h, block.i, block.j)
        return self.mask.look(self.mask.block(rows, columns, block.i.device))

    def settle(self, rows: range, columns: range) -> Verdict:
        """Judge the run the positions make, or the smallest run around them, or look."""
        row_span, column_span = self.selection.rows.span(rows), self.selection.columns.span(columns)
        if row_span is not None and column_span is not None and self.selection.batch is None:
            return self.mask.settle(row_span, column_span)
        row_hull, column_hull = self.selection.rows.hull(rows), self.selection.columns.hull(columns)
        if row_hull is not None and column_hull is not None:
            verdict = self.mask.settle(row_hull, column_hull)
            if verdict is not Verdict.MIXED:
                return verdict
        return self.measured(rows, columns)

    def faults(self, call: Call) -> list[str]:
        """Expect a chosen position for all of the call's, and a leaf that fits the rest."""
        rows, columns = self.selection.rows.chosen, self.selection.columns.chosen
        faults: list[str] = []
        if rows is not None and call.past_queries is not None and call.past_queries > len(rows):
            faults.append(
                f"{self!r}: expected queries at positions below {len(rows)}, where rows ends, got "
                f"{call.first_query} to {call.past_queries - 1}; choose a row for every query"
            )
        if columns is not None and call.past_keys not in {None, len(columns)}:
            faults.append(
                f"{self!r}: expected {len(columns)} keys, one for each of columns, got "
                f"{call.past_keys}; choose a column for every key"
            )
        return faults + self.mask.faults(self._inner(call))

    def resolved(self, call: Call) -> Mask:
        """Fill in the leaf."""
        mask = self.mask.resolved(self._inner(call))
        return self if mask is self.mask else replace(self, mask=mask)

    def of_batch(self, row: int) -> Mask:
        """Choose the leaf's batch row."""
        return replace(self, mask=self.mask.of_batch(row))

    def to(self, device: torch.device | str) -> Mask:
        """Move the leaf and the chosen positions."""
        rows, columns = _to(self.selection.rows, device), _to(self.selection.columns, device)
        mask = self.mask.to(device)
        if mask is self.mask and rows is self.selection.rows and columns is self.selection.columns:
            return self
        return Selected(mask, Selection(self.selection.batch, rows, columns))

    def _inner(self, call: Call) -> Call:
        """The call as the leaf sees it: what was chosen hides the sizes."""
        rows, columns = self.selection.rows.chosen, self.selection.columns.chosen
        return replace(
            call,
            batch=call.batch if self.selection.batch is None else self.mask.batch_rows,
            queries=call.queries if rows is None else None,
            keys=call.keys if columns is None else None,
        )


def _to(axis: Axis, device: torch.device | str) -> Axis:
    moved = None if axis.chosen is None else axis.chosen.to(device)
    return axis if moved is axis.chosen else Axis(moved, axis.run)
