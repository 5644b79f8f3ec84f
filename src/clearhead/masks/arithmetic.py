"""The masks that are arithmetic on positions: causal, sliding window, prefix-LM, chunked."""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.masks.mask import Mask
from clearhead.masks.node import Verdict
from clearhead.masks.places import Call, numbers, written

__all__ = ["Causal", "Chunked", "PrefixLM", "SlidingWindow"]


@final
@dataclass(frozen=True)
class Causal(Mask):
    """A position may look at itself and at what came before: ``j <= i``."""

    def __repr__(self) -> str:
        return "causal_mask()"

    @property
    def positional(self) -> bool:
        """It is."""
        return True

    @property
    def band(self) -> tuple[float, float]:
        """``0 <= i - j``."""
        return 0, float("inf")

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Compare positions."""
        del b, h
        return j <= i

    def settle(self, rows: range, columns: range) -> Verdict:
        """Judge by the corner nearest to the diagonal and the one farthest from it."""
        if columns.stop - 1 <= rows.start:
            return Verdict.ALL
        return Verdict.NONE if columns.start >= rows.stop else Verdict.MIXED

    def moved(self, rows: range, columns: range) -> Mask | None:
        """Stay the same, where rows and columns moved together."""
        return self if rows.start == columns.start else None


@final
@dataclass(frozen=True)
class SlidingWindow(Mask):
    """A position may look at what is near: ``|i - j| < width``.

    Attributes:
        width: W, at least 1; joined with ``causal_mask()``, W keys, the position itself included.
    """

    width: int

    def __repr__(self) -> str:
        return f"sliding_window_mask({self.width})"

    @property
    def positional(self) -> bool:
        """It is."""
        return True

    @property
    def band(self) -> tuple[float, float]:
        """``-W < i - j < W``."""
        return 1 - self.width, self.width - 1

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Compare positions with both ends of the window: sums are made of few, not of pairs."""
        del b, h
        return (j > i - self.width) & (j < i + self.width)

    def settle(self, rows: range, columns: range) -> Verdict:
        """Judge by the smallest and the largest ``i - j``, between which each one occurs."""
        low, high = rows.start - columns.stop + 1, rows.stop - 1 - columns.start
        if -low < self.width and high < self.width:
            return Verdict.ALL
        apart = low >= self.width or -high >= self.width
        return Verdict.NONE if apart else Verdict.MIXED

    def moved(self, rows: range, columns: range) -> Mask | None:
        """Stay the same, where rows and columns moved together."""
        return self if rows.start == columns.start else None


@final
@dataclass(frozen=True, eq=False)
class PrefixLM(Mask):
    """A position may look at what came before, and at the prefix: ``j <= i or j < prefix``.

    Attributes:
        prefix: how many positions the prefix has, one for all batch rows or (batch,).
    """

    prefix: int | Int[Tensor, "batch"]

    def __repr__(self) -> str:
        return f"prefix_lm_mask({_named('prefix', self.prefix)})"

    @property
    def positional(self) -> bool:
        """It is."""
        return True

    @property
    def batch_rows(self) -> int:
        """One an entry of ``prefix``."""
        return _length(self.prefix)

    @property
    def device(self) -> torch.device | None:
        """Where ``prefix`` is."""
        return None if isinstance(self.prefix, int) else self.prefix.device

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Compare with the last position seen: the query's own, or the end of the prefix."""
        del h
        return j <= i.clamp(min=_of_row(self.prefix, b) - 1)

    def settle(self, rows: range, columns: range) -> Verdict:
        """Judge by the shortest and the longest prefix."""
        shortest, longest = self._bounds
        if columns.stop - 1 <= max(rows.start, shortest - 1):
            return Verdict.ALL
        reach = max(rows.stop - 1, longest - 1)
        return Verdict.MIXED if columns.start <= reach else Verdict.NONE

    @cached_property
    def _bounds(self) -> tuple[int, int]:
        values = _values(self.prefix)
        return min(values, default=0), max(values, default=0)

    def faults(self, call: Call) -> list[str]:
        """Expect one prefix, or one a batch row."""
        return _faults(self, "prefix", self.prefix, call)

    def of_batch(self, row: int) -> Mask:
        """Keep one prefix."""
        return self if isinstance(self.prefix, int) else PrefixLM(self.prefix[row : row + 1])

    def moved(self, rows: range, columns: range) -> Mask | None:
        """Shorten the prefix, where rows and columns moved together."""
        if rows.start != columns.start:
            return None
        shift = rows.start
        if isinstance(self.prefix, int):
            return PrefixLM(max(self.prefix - shift, 0))
        return PrefixLM((self.prefix - shift).clamp(min=0))

    def to(self, device: torch.device | str) -> Mask:
        """Move ``prefix``."""
        if isinstance(self.prefix, int) or self.prefix.device == torch.device(device):
            return self
        return PrefixLM(self.prefix.to(device))


@final
@dataclass(frozen=True, eq=False)
class Chunked(Mask):
    """A position may look at its own chunk: ``(i - start) // size == (j - start) // size``.

    Attributes:
        size: positions a chunk.
        start: where a chunk begins, one for all batch rows or (batch,).
    """

    size: int
    start: int | Int[Tensor, "batch"] = 0

    def __repr__(self) -> str:
        if isinstance(self.start, int) and self.start == 0:
            return f"chunked_mask({self.size})"
        return f"chunked_mask({self.size}, start={_named('start', self.start)})"

    @property
    def positional(self) -> bool:
        """It is."""
        return True

    @property
    def batch_rows(self) -> int:
        """One an entry of ``start``."""
        return _length(self.start)

    @property
    def device(self) -> torch.device | None:
        """Where ``start`` is."""
        return None if isinstance(self.start, int) else self.start.device

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Compare chunks."""
        del h
        start = _of_row(self.start, b)
        return (i - start) // self.size == (j - start) // self.size

    def settle(self, rows: range, columns: range) -> Verdict:
        """Compare the runs of chunks, for each place where chunks begin."""
        found = {_chunks(rows, columns, size=self.size, start=start) for start in self._starts}
        return found.pop() if len(found) == 1 else Verdict.MIXED

    @cached_property
    def _starts(self) -> set[int]:
        return {value % self.size for value in _values(self.start)}

    def faults(self, call: Call) -> list[str]:
        """Expect one start, or one a batch row."""
        return _faults(self, "start", self.start, call)

    def of_batch(self, row: int) -> Mask:
        """Keep one start."""
        start = self.start
        return self if isinstance(start, int) else Chunked(self.size, start[row : row + 1])

    def moved(self, rows: range, columns: range) -> Mask | None:
        """Let chunks begin earlier, where rows and columns moved together."""
        if rows.start != columns.start:
            return None
        return Chunked(self.size, (self.start - rows.start) % self.size)

    def to(self, device: torch.device | str) -> Mask:
        """Move ``start``."""
        if isinstance(self.start, int) or self.start.device == torch.device(device):
            return self
        return Chunked(self.size, self.start.to(device))


def _chunks(rows: range, columns: range, *, size: int, start: int) -> Verdict:
    first_asking, last_asking = (rows.start - start) // size, (rows.stop - 1 - start) // size
    first_asked, last_asked = (columns.start - start) // size, (columns.stop - 1 - start) // size
    if first_asking == last_asking == first_asked == last_asked:
        return Verdict.ALL
    apart = last_asking < first_asked or last_asked < first_asking
    return Verdict.NONE if apart else Verdict.MIXED


# ------------------------------------------------------- one number for all batch rows, or one each


def _length(value: int | Tensor) -> int:
    return 1 if isinstance(value, int) else value.shape[0]


def _of_row(value: int | Tensor, b: Tensor) -> int | Tensor:
    if isinstance(value, int):
        return value
    value = value.to(b.device)
    return value[0] if value.shape[0] == 1 else value[b]


def _values(value: int | Tensor) -> list[int]:
    return [value] if isinstance(value, int) else numbers(value)


def _named(name: str, value: int | Tensor) -> str:
    return str(value) if isinstance(value, int) else f"{name}[{value.shape[0]}]"


def _faults(mask: Mask, name: str, value: int | Tensor, call: Call) -> list[str]:
    if isinstance(value, int) or value.shape[0] in {1, call.batch}:
        return []
    expected = f"one number or ({call.batch},), one a batch row"
    return [f"{mask!r}: expected {name} as {expected}, got {written(value)}"]
