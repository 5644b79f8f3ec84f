"""Which batch row and which positions of a mask were chosen."""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from clearhead.errors import MaskError, gathered
from clearhead.masks.places import numbers, written

__all__ = ["Axis", "Selection"]


@final
@dataclass(frozen=True, eq=False)
class Axis:
    """Chosen positions of one axis: index i stands for position ``chosen[i]``.

    Attributes:
        chosen: absolute positions; None is every position as it is.
        run: the same as a range, where they follow each other.
    """

    chosen: Int[Tensor, "chosen"] | None = None
    run: range | None = None

    @classmethod
    def of(cls, chosen: Int[Tensor, "chosen"] | None) -> "Axis":
        """Note the positions, and whether they follow each other.

        Cost: reads them (an accelerator waits).
        """
        if chosen is None or len(chosen) == 0:
            return cls(chosen)
        first = int(chosen[0])
        run = range(first, first + len(chosen))
        steady = torch.arange(run.start, run.stop, device=chosen.device)
        return cls(chosen, run if torch.equal(chosen, steady) else None)

    def positions(self, index: Tensor) -> Tensor:
        """Absolute positions of indices; any position for an index beyond the chosen ones."""
        if self.chosen is None:
            return index
        if len(self.chosen) == 0:
            return torch.zeros_like(index)
        return self.chosen.to(index.device)[index.clamp(0, len(self.chosen) - 1)]

    def known(self, index: Tensor) -> Bool[Tensor, "..."]:
        """Which indices stand for a position at all."""
        if self.chosen is None:
            return torch.ones_like(index, dtype=torch.bool)
        return (index >= 0) & (index < len(self.chosen))

    def span(self, asked: range | Tensor) -> range | None:
        """The same positions as a range, where both the question and the answer are one."""
        if isinstance(asked, Tensor) or self.chosen is None:
            return None if isinstance(asked, Tensor) else asked
        if self.run is None or asked.step < 1 or asked.start < 0 or asked.stop > len(self.run):
            return None
        return range(asked.start + self.run.start, asked.stop + self.run.start, asked.step)

    def hull(self, asked: range) -> range | None:
        """The smallest run around the positions of a run; None where it leaves the chosen."""
        if self.chosen is None:
            return asked
        if asked.start < 0 or asked.stop > len(self._values):
            return None
        values = self._values[asked.start : asked.stop]
        return range(min(values), max(values) + 1)

    @cached_property
    def _values(self) -> list[int]:
        return [] if self.chosen is None else numbers(self.chosen)


@final
@dataclass(frozen=True, eq=False)
class Selection:
    """One batch row, and chosen positions.

    Attributes:
        batch: the batch row, or None for all.
        rows: chosen query positions.
        columns: chosen key positions.
    """

    batch: int | None
    rows: Axis
    columns: Axis

    @classmethod
    def of(
        cls,
        batch: int | None,
        rows: Int[Tensor, "..."] | None,
        columns: Int[Tensor, "..."] | None,
    ) -> "Selection":
        """Note a selection.

        Args:
            batch: the batch row, or None for all.
            rows: (r,) chosen query positions, or None for all.
            columns: (c,) chosen key positions, or None for all.

        Returns:
            The selection.

        Raises:
            MaskError: if rows or columns are no list of positions.

        Cost: reads rows and columns (an accelerator waits).
        """
        faults = [
            f"expected {name} as an int64 tensor ({name},) of absolute positions, got {written(at)}"
            for name, at in (("rows", rows), ("columns", columns))
            if at is not None and (at.dtype != torch.int64 or at.dim() != 1)
        ]
        if faults:
            raise MaskError(gathered("select", faults))
        return cls(batch, Axis.of(rows), Axis.of(columns))
