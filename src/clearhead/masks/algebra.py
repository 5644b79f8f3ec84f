"""The algebra of masks: ``&``, ``|``, ``~`` and the neutral element.

Verdicts of a joined mask follow from the verdicts of its parts wherever logic settles them; what
logic leaves open (two parts that are both mixed may still leave nothing) is looked at.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import reduce
from typing import cast, final

import torch
from jaxtyping import Bool
from torch import Tensor

from clearhead.errors import MaskError
from clearhead.masks.chosen import Selection
from clearhead.masks.mask import Mask
from clearhead.masks.node import Verdict
from clearhead.masks.places import Block, Call, written

__all__ = ["And", "Full", "Mask", "Not", "Or"]


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


@dataclass(frozen=True)
class _Several(_Joined):
    """A mask made of two masks or more, joined by one operator.

    Attributes:
        masks: what is joined.
    """

    masks: tuple[Mask, ...]

    @classmethod
    @abstractmethod
    def of(cls, *masks: Mask) -> Mask:
        """Join masks and simplify."""

    @staticmethod
    @abstractmethod
    def join(left: Tensor, right: Tensor) -> Tensor:
        """Join two answers."""

    @property
    def parts(self) -> tuple[Mask, ...]:
        """What is joined."""
        return self.masks

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Join the parts' answers."""
        return reduce(self.join, [part.predicate(b, h, i, j) for part in self.masks])

    def look(self, block: Block) -> Bool[Tensor, "#batch #heads #rows #columns"]:
        """Join the parts' answers for a block."""
        return reduce(self.join, [part.look(block) for part in self.masks])

    def resolved(self, call: Call) -> Mask:
        """Fill in every part."""
        return self._rebuilt([part.resolved(call) for part in self.masks])

    def selected(self, selection: Selection) -> Mask:
        """Select from every part."""
        return self._rebuilt([part.selected(selection) for part in self.masks])

    def to(self, device: torch.device | str) -> Mask:
        """Move every part."""
        return self._rebuilt([part.to(device) for part in self.masks])

    def _rebuilt(self, parts: list[Mask]) -> Mask:
        # Where no part changed, binding makes nothing new.
        same = all(new is old for new, old in zip(parts, self.masks, strict=True))
        return self if same else self.of(*parts)


def _flat(masks: tuple[Mask, ...], kind: type[_Several]) -> list[Mask]:
    for other in cast("tuple[object, ...]", masks):
        if not isinstance(other, Mask):
            raise MaskError(
                f"{masks[0]!r}: expected a mask to join it with, got {written(other)}; "
                f"Mask.from_tensor takes a bool tensor, padding_mask the attention_mask of a "
                f"tokenizer"
            )
    lists = [mask.masks if isinstance(mask, kind) else (mask,) for mask in masks]
    return [mask for some in lists for mask in some]


def _bracketed(mask: Mask) -> str:
    return f"({mask!r})" if isinstance(mask, _Several) else repr(mask)


@final
@dataclass(frozen=True)
class And(_Several):
    """May look where every part lets it: ``a(b, h, i, j) and b(b, h, i, j) and …``.

    Attributes:
        masks: at least two, none of them an ``And`` or ``Full``.
    """

    @classmethod
    def of(cls, *masks: Mask) -> Mask:
        """Join masks; nested ``And`` are flattened and ``Full`` is dropped."""
        kept = [mask for mask in _flat(masks, And) if not isinstance(mask, Full)]
        if not kept:
            return Full()
        return kept[0] if len(kept) == 1 else cls(tuple(kept))

    @staticmethod
    def join(left: Tensor, right: Tensor) -> Tensor:
        """True where both are."""
        return left & right

    def __repr__(self) -> str:
        return " & ".join(_bracketed(part) for part in self.masks)

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
        # None of these is full, so all that is open is whether they leave anything.
        low, high = rows.start - columns.stop + 1, rows.stop - 1 - columns.start
        for part in mixed:
            if part.band is None:
                some = And(tuple(mixed)).some(rows, columns)
                return Verdict.MIXED if some else Verdict.NONE
            low, high = max(low, part.band[0]), min(high, part.band[1])
        return Verdict.MIXED if low <= high else Verdict.NONE


@final
@dataclass(frozen=True)
class Or(_Several):
    """May look where any part lets it: ``a(b, h, i, j) or b(b, h, i, j) or …``.

    Attributes:
        masks: at least two, none of them an ``Or``.
    """

    @classmethod
    def of(cls, *masks: Mask) -> Mask:
        """Join masks; nested ``Or`` are flattened."""
        return cls(tuple(_flat(masks, Or)))

    @staticmethod
    def join(left: Tensor, right: Tensor) -> Tensor:
        """True where one is."""
        return left | right

    def __repr__(self) -> str:
        return " | ".join(_bracketed(part) for part in self.masks)

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
        # None of these is empty, so all that is open is whether they leave any gap.
        return Verdict.ALL if Or(tuple(mixed)).every(rows, columns) else Verdict.MIXED


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
        return mask.part if isinstance(mask, Not) else cls(mask)

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
