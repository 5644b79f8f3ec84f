"""The named masks that hold one value a position: padding and documents."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from clearhead.errors import MaskError
from clearhead.masks.mask import Mask
from clearhead.masks.node import Verdict
from clearhead.masks.places import Call, Selection, written

__all__ = ["Padding", "padding_mask"]


def entry(table: Tensor, b: Tensor, position: Tensor, *, outside: int) -> Tensor:
    """Read one entry a position: ``table[b, position]``, or ``outside`` beyond the table's ends.

    Args:
        table: (1 or batch, m).
        b: batch rows.
        position: absolute positions, before the first and past the last entry included.
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


@final
@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """Real positions may be looked at, padding may not: ``keep[b, j]``.

    Attributes:
        keep: True = real, one row for all batch rows or one each.
    """

    keep: Bool[Tensor, "batch m"]

    def __repr__(self) -> str:
        return f"padding_mask(keep[{', '.join(map(str, self.keep.shape))}])"

    @property
    def positional(self) -> bool:
        """It is not: only the key's position matters."""
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
        return entry(self.keep, b, j, outside=False)

    def settle(self, rows: range, columns: range) -> Verdict:
        """Count real keys among the columns."""
        del rows
        anyone, everyone = self._counts
        last = self.keep.shape[1]
        start, stop = (min(max(edge, 0), last) for edge in (columns.start, columns.stop))
        if anyone[stop] == anyone[start]:
            return Verdict.NONE
        real = everyone[stop] - everyone[start]
        return Verdict.ALL if real == len(columns) else Verdict.MIXED

    @cached_property
    def _counts(self) -> tuple[list[int], list[int]]:
        """Keys before each position that are real in some batch row, and in all."""
        return _before(self.keep.any(dim=0)), _before(self.keep.all(dim=0))

    def faults(self, call: Call) -> list[str]:
        """Expect one entry a key and one row a batch row."""
        return table_faults(self, "keep", self.keep, call)

    def to(self, device: torch.device | str) -> Mask:
        """Move ``keep``."""
        moved = self.keep.to(device)
        return self if moved is self.keep else Padding(moved)


def _before(flags: Tensor) -> list[int]:
    counts: list[int] = flags.cumsum(0).tolist()
    return [0, *counts]


def table_faults(mask: Mask, name: str, table: Tensor, call: Call) -> list[str]:
    """Say where a table of one entry a key does not fit a call."""
    faults: list[str] = []
    rows, entries = table.shape
    if rows not in {1, call.batch}:
        faults.append(
            f"{mask!r}: expected {name} with {call.batch} batch rows, or one for all, got {rows}"
        )
    if call.last_key is not None and entries != call.last_key:
        faults.append(
            f"{mask!r}: expected {name} with {call.last_key} entries, one for each key"
            f"{_from(call.key_start)}, got {entries}; cached keys count too"
        )
    return faults


def _from(key_start: int) -> str:
    return f" (positions 0 to key_start + keys = {key_start} + …)" if key_start else ""


def padding_mask(keep: Shaped[Tensor, "m"] | Shaped[Tensor, "batch m"]) -> Padding:
    """Let nobody look at padding.

    ``mask(b, i, j) = keep[b, j]``

    Args:
        keep: (m,) for all batch rows or (batch, m): True or 1 = real, False or 0 = padding, as
            tokenizers write their ``attention_mask``. It is copied.

    Returns:
        The mask. A position outside ``keep`` counts as padding.

    Raises:
        MaskError: if ``keep`` has another shape or is floating point (an additive mask means
            something else by 0).

    Example:
        >>> padding_mask(torch.tensor([1, 1, 0]))
        padding_mask(keep[1, 3])
    """
    if keep.dim() not in {1, 2} or keep.is_floating_point():
        raise MaskError(
            f"padding_mask: expected keep as bool or integers (m,) or (batch, m), 1 = real, got "
            f"{written(keep)}"
        )
    return Padding(torch.atleast_2d(keep != 0))
