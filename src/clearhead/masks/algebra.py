"""The algebra of masks: ``&``, ``|``, ``~`` and the neutral element.

Verdicts of a joined mask follow from the verdicts of its parts wherever logic settles them; what
logic leaves open (two parts that are both mixed may still leave nothing) is looked at.
"""

from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import final

import torch
from jaxtyping import Bool
from torch import Tensor

from clearhead.masks.mask import Mask
from clearhead.masks.node import Verdict
from clearhead.masks.places import Block, Call, Selection

__all__ = ["And", "Full", "Not", "Or", "full_mask"]


@final
@dataclass(frozen=True)
class Full(Mask):
    """Everyone may look everywhere: ``True``, the neutral element of ``&``."""

    def __repr__(self) -> str:
        return "full_mask()"

    @property
    def positional(self) -> bool:
        """It is not."""
        return False

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Answer True."""
        del b, h, i
        return torch.ones_like(j, dtype=torch.bool)

    def settle(self, rows: range, columns: range) -> Verdict:
        """Judge without looking."""
        del rows, columns
        return Verdict.ALL

    def selected(self, selection: Selection) -> Mask:
        """Stay as it is."""
        del selection
        return self


def full_mask() -> Full:
    """Let everyone look everywhere.

    Returns:
        The mask; ``full_mask() & mask`` is ``mask``.

    Example:
        >>> full_mask().verdict(range(4), range(4))
        <Verdict.ALL: 'all'>
    """
    return Full()


class _Joined(Mask):
    """A mask made of other masks."""

    @property
    def positional(self) -> bool:
        """It is where one of its parts is."""
        return any(part.positional for part in self.parts)

    @property
    def batch_rows(self) -> int:
        """As many as its parts tell apart."""
        return _common([part.batch_rows for part in self.parts])

    @property
    def head_count(self) -> int:
        """As many as its parts tell apart."""
        return _common([part.head_count for part in self.parts])

    @property
    def device(self) -> torch.device | None:
        """Where the first part with a tensor is."""
        return next((part.device for part in self.parts if part.device is not None), None)


def _common(sizes: list[int]) -> int:
    # Not max(): a batch of no rows is told apart too.
    return next((size for size in sizes if size != 1), 1)


@final
@dataclass(frozen=True)
class And(_Joined):
    """May look where every part lets it: ``a(b, h, i, j) and b(b, h, i, j) and …``.

    Attributes:
        masks: at least two masks, none of them an ``And`` or ``Full``.
    """

    masks: tuple[Mask, ...]

    @classmethod
    def of(cls, *masks: Mask) -> Mask:
        """Join masks; nested ``And`` are flattened and ``Full`` is dropped."""
        flat = [part for mask in masks for part in (mask.masks if type(mask) is And else (mask,))]
        kept = tuple(part for part in flat if type(part) is not Full)
        if not kept:
            return Full()
        return kept[0] if len(kept) == 1 else cls(kept)

    @property
    def parts(self) -> tuple[Mask, ...]:
        """The masks it joins."""
        return self.masks

    def __repr__(self) -> str:
        return " & ".join(_bracketed(part) for part in self.masks)

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Answer where every part does."""
        return reduce(and_, [part.predicate(b, h, i, j) for part in self.masks])

    def look(self, block: Block) -> Bool[Tensor, "#batch #heads #rows #columns"]:
        """Answer for a block."""
        return reduce(and_, [part.look(block) for part in self.masks])

    def settle(self, rows: range, columns: range) -> Verdict:
        """Judge by the parts' verdicts, then by their bands, then by looking."""
        mixed: list[Mask] = []
        for part in self.masks:
            verdict = part.settle(rows, columns)
            if verdict is Verdict.NONE:
                return verdict
            if verdict is Verdict.MIXED:
                mixed.append(part)
        if len(mixed) <= 1:
            return Verdict.MIXED if mixed else Verdict.ALL
        # No part is full here, so all that is left open is whether anything remains.
        bands = [part.band for part in mixed]
        low, high = rows.start - columns.stop + 1, rows.stop - 1 - columns.start
        for band in bands:
            if band is None:
                return And(tuple(mixed)).measured(rows, columns)
            low, high = max(low, band[0]), min(high, band[1])
        return Verdict.MIXED if low <= high else Verdict.NONE

    def resolved(self, call: Call) -> Mask:
        """Fill in every part."""
        return _rebuilt(self, [part.resolved(call) for part in self.masks])

    def selected(self, selection: Selection) -> Mask:
        """Select from every part."""
        return And.of(*(part.selected(selection) for part in self.masks))

    def to(self, device: torch.device | str) -> Mask:
        """Move every part."""
        return _rebuilt(self, [part.to(device) for part in self.masks])


@final
@dataclass(frozen=True)
class Or(_Joined):
    """May look where any part lets it: ``a(b, h, i, j) or b(b, h, i, j) or …``.

    Attributes:
        masks: at least two masks, none of them an ``Or``.
    """

    masks: tuple[Mask, ...]

    @classmethod
    def of(cls, *masks: Mask) -> Mask:
        """Join masks; nested ``Or`` are flattened."""
        return cls(
            tuple(part for mask in masks for part in (mask.masks if type(mask) is Or else (mask,)))
        )

    @property
    def parts(self) -> tuple[Mask, ...]:
        """The masks it joins."""
        return self.masks

    def __repr__(self) -> str:
        return " | ".join(_bracketed(part) for part in self.masks)

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Answer where any part does."""
        return reduce(or_, [part.predicate(b, h, i, j) for part in self.masks])

    def look(self, block: Block) -> Bool[Tensor, "#batch #heads #rows #columns"]:
        """Answer for a block."""
        return reduce(or_, [part.look(block) for part in self.masks])

    def settle(self, rows: range, columns: range) -> Verdict:
        """Judge by the parts' verdicts, then by looking."""
        mixed: list[Mask] = []
        for part in self.masks:
            verdict = part.settle(rows, columns)
            if verdict is Verdict.ALL:
                return verdict
            if verdict is Verdict.MIXED:
                mixed.append(part)
        if len(mixed) <= 1:
            return Verdict.MIXED if mixed else Verdict.NONE
        return Or(tuple(mixed)).measured(rows, columns)

    def resolved(self, call: Call) -> Mask:
        """Fill in every part."""
        return _rebuilt(self, [part.resolved(call) for part in self.masks])

    def selected(self, selection: Selection) -> Mask:
        """Select from every part."""
        return Or.of(*(part.selected(selection) for part in self.masks))

    def to(self, device: torch.device | str) -> Mask:
        """Move every part."""
        return _rebuilt(self, [part.to(device) for part in self.masks])


@final
@dataclass(frozen=True)
class Not(_Joined):
    """May look where the part does not let it: ``not a(b, h, i, j)``.

    Attributes:
        part: the mask that is turned round.
    """

    part: Mask

    @classmethod
    def of(cls, mask: Mask) -> Mask:
        """Turn a mask round; twice is not at all."""
        return mask.part if type(mask) is Not else cls(mask)

    def __repr__(self) -> str:
        return f"~{_bracketed(self.part)}"

    @property
    def parts(self) -> tuple[Mask, ...]:
        """The one part."""
        return (self.part,)

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Answer where the part does not."""
        return ~self.part.predicate(b, h, i, j)

    def look(self, block: Block) -> Bool[Tensor, "#batch #heads #rows #columns"]:
        """Answer for a block."""
        return ~self.part.look(block)

    def settle(self, rows: range, columns: range) -> Verdict:
        """Turn the part's verdict round."""
        return _OPPOSITE[self.part.settle(rows, columns)]

    def resolved(self, call: Call) -> Mask:
        """Fill in the part."""
        part = self.part.resolved(call)
        return self if part is self.part else Not(part)

    def selected(self, selection: Selection) -> Mask:
        """Select from the part."""
        return Not.of(self.part.selected(selection))

    def to(self, device: torch.device | str) -> Mask:
        """Move the part."""
        part = self.part.to(device)
        return self if part is self.part else Not(part)


_OPPOSITE = {
    Verdict.ALL: Verdict.NONE,
    Verdict.NONE: Verdict.ALL,
    Verdict.MIXED: Verdict.MIXED,
}


def _rebuilt(mask: And | Or, parts: list[Mask]) -> Mask:
    """Keep the mask where no part changed, so that binding makes nothing new."""
    if all(new is old for new, old in zip(parts, mask.masks, strict=True)):
        return mask
    return type(mask).of(*parts)


def _bracketed(mask: Mask) -> str:
    return f"({mask!r})" if isinstance(mask, And | Or) else repr(mask)
