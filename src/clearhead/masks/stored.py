"""The masks that hold one value a position: padding and documents."""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from clearhead.masks.algebra import Full
from clearhead.masks.chosen import Selection
from clearhead.masks.mask import Mask
from clearhead.masks.node import Verdict
from clearhead.masks.places import Call, numbers
from clearhead.masks.selection import chosen_row

__all__ = ["Document", "Padding"]

_REMEMBERED = 4096  # runs of positions whose documents are known: blocks of a million tokens


def _entry(table: Tensor, b: Tensor, position: Tensor, *, outside: int) -> Tensor:
    """Read one entry a position: ``table[b, position]``, or ``outside`` beyond the table's ends.

    Args:
        table: (1 or batch, m).
        b: batch rows.
        position: absolute positions, also before the first and past the last entry.
        outside: what stands there.

    Returns:
        The entries, of the broadcast shape of b and position (of position, for one shared row).
    """
    m = table.shape[1]
    if m == 0:
        return torch.full_like(position, outside, dtype=table.dtype)
    table = table.to(position.device)
    nearest = position.clamp(0, m - 1)
    value = table[0][nearest] if table.shape[0] == 1 else table[b, nearest]
    return torch.where((position >= 0) & (position < m), value, outside)


def _faults(mask: Mask, name: str, table: Tensor, call: Call) -> list[str]:
    """Say where a table of one entry a key does not fit a call."""
    faults: list[str] = []
    rows, entries = table.shape
    if rows not in {1, call.batch}:
        faults.append(
            f"{mask!r}: expected {name} with {call.batch} batch rows (or 1 for all), got {rows}"
        )
    if call.past_keys not in {None, entries}:
        faults.append(
            f"{mask!r}: expected {name} with {call.past_keys} entries, one for each position from "
            f"0 to the last key's, got {entries}; keys that come from a cache count too"
        )
    return faults


@final
@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """Real positions may be looked at, padding may not: ``keep[b, j]``.

    Attributes:
        keep: True = real; one row for all batch rows or one each.
    """

    keep: Bool[Tensor, "batch m"]

    def __repr__(self) -> str:
        return f"padding_mask(keep[{', '.join(map(str, self.keep.shape))}])"

    @property
    def positional(self) -> bool:
        """It is not: only where the key stands matters."""
        return False

    @property
    def batch_rows(self) -> int:
        """One a row of ``keep``."""
        return self.keep.shape[0]

    @property
    def device(self) -> torch.device:
        """Where ``keep`` is."""
        return self.keep.device

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Look the key up."""
        del h, i
        return _entry(self.keep, b, j, outside=False)

    def settle(self, rows: range, columns: range) -> Verdict:
        """Count the real keys among the columns."""
        del rows
        some, every = self._counts
        start, stop = (min(max(edge, 0), len(some) - 1) for edge in (columns.start, columns.stop))
        if some[stop] == some[start]:
            return Verdict.NONE
        return Verdict.ALL if every[stop] - every[start] == len(columns) else Verdict.MIXED

    @cached_property
    def _counts(self) -> tuple[list[int], list[int]]:
        """How many keys before each position are real in some batch row, and in every one."""
        keep = self.keep.cpu()
        return _running(keep.any(dim=0)), _running(keep.all(dim=0))

    def faults(self, call: Call) -> list[str]:
        """Expect one entry a key, and one row or one a batch row."""
        return _faults(self, "keep", self.keep, call)

    def of_batch(self, row: int) -> Mask:
        """Keep one row."""
        return Padding(self.keep[row : row + 1])

    def selected(self, selection: Selection) -> Mask:
        """Pick columns; rows do not matter. Where nothing is padding, no mask is left."""
        row = chosen_row(self, selection.batch)
        keep = self.keep if row is None else self.keep[row : row + 1]
        if selection.columns.chosen is not None:
            rows = torch.arange(len(keep), device=keep.device)[:, None]
            columns = selection.columns.chosen.to(keep.device)[None]
            keep = _entry(keep, rows, columns, outside=False)
        return Full() if keep.all() else Padding(keep)

    def to(self, device: torch.device | str) -> Mask:
        """Move ``keep``."""
        moved = self.keep.to(device)
        return self if moved is self.keep else Padding(moved)


def _running(flags: Tensor) -> list[int]:
    return [0, *numbers(flags.cumsum(0))]


@final
@dataclass(frozen=True, eq=False)
class Document(Mask):
    """Positions of one document look at each other: ``ids[b, i] == ids[b, j] >= 0``.

    Attributes:
        ids: the document of each position; one row for all batch rows or one each. A negative one
            is padding: it sees nobody and nobody sees it.
    """

    ids: Int[Tensor, "batch m"]

    def __repr__(self) -> str:
        return f"document_mask(ids[{', '.join(map(str, self.ids.shape))}])"

    @property
    def positional(self) -> bool:
        """It is: the query's document is found by its position."""
        return True

    @property
    def batch_rows(self) -> int:
        """One a row of ``ids``."""
        return self.ids.shape[0]

    @property
    def device(self) -> torch.device:
        """Where ``ids`` is."""
        return self.ids.device

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Compare documents."""
        del h
        asking, asked = (_entry(self.ids, b, at, outside=-1) for at in (i, j))
        # Padding is written apart on one side, so that one comparison of all pairs is enough.
        return asking == torch.where(asked < 0, -2, asked)

    def settle(self, rows: range, columns: range) -> Verdict:
        """Compare the sets of documents among rows and columns."""
        asking = self._present(rows.start, rows.stop)
        asked = self._present(columns.start, columns.stop)
        pairs = list(zip(asking, asked, strict=True))
        # -1 stands for padding and for what lies outside; it meets nobody, itself included.
        if not any(max(a & c, default=-1) >= 0 for a, c in pairs):
            return Verdict.NONE
        same = all(len(a) == 1 and a == c and -1 not in a for a, c in pairs)
        return Verdict.ALL if same else Verdict.MIXED

    def _present(self, start: int, stop: int) -> list[frozenset[int]]:
        """The documents present in a run of positions, in each batch row; remembered by run."""
        run = (start, stop)
        if run not in self._remembered:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            m = self.ids.shape[1]
            inside = slice(min(max(start, 0), m), min(max(stop, 0), m))
            beyond = (-1,) if start < 0 or stop > m else ()
            self._remembered[run] = [frozenset((*row[inside], *beyond)) for row in self._rows]
        return self._remembered[run]

    @cached_property
    def _rows(self) -> list[list[int]]:
        return [numbers(row) for row in self.ids.cpu()]

    @cached_property
    def _remembered(self) -> dict[tuple[int, int], list[frozenset[int]]]:
        return {}

    def faults(self, call: Call) -> list[str]:
        """Expect one entry a key, and queries that stand among the keys."""
        faults = _faults(self, "ids", self.ids, call)
        entries = self.ids.shape[1]
        if call.past_queries is not None and call.past_queries > entries:
            faults.append(
                f"{self!r}: expected queries at positions below {entries}, where ids ends, got "
                f"{call.first_query} to {call.past_queries - 1}; give an id for every query, or "
                f"another query_start="
            )
        return faults

    def of_batch(self, row: int) -> Mask:
        """Keep one row."""
        return Document(self.ids[row : row + 1])

    def moved(self, rows: range, columns: range) -> Mask | None:
        """Cut the ids out, where rows and columns moved together."""
        if rows.start != columns.start or rows.stop > columns.stop:
            return None
        if rows.start < 0 or columns.stop > self.ids.shape[1]:
            return None
        return Document(self.ids[:, columns.start : columns.stop])

    def to(self, device: torch.device | str) -> Mask:
        """Move ``ids``."""
        moved = self.ids.to(device)
        return self if moved is self.ids else Document(moved)
