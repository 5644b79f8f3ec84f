"""What one kind of mask writes: its predicate, and what it knows about itself.

Only ``predicate``, ``positional`` and ``__repr__`` are needed. All else has a default that is
right; a kind refines it where it knows something quicker.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from clearhead.masks.places import Block, Call

__all__ = ["MaskPredicate", "Node", "Verdict"]

# FlexAttention's mask_mod: batch row, head, query position and key position, one number each.
MaskPredicate = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Verdict(StrEnum):
    """What a mask says about a whole block: every pair may look, none may, or some may."""

    ALL = "all"
    NONE = "none"
    MIXED = "mixed"


class Node(ABC):
    """One node of a mask's tree, as far as it is asked and answers; people meet it as ``Mask``."""

    # ------------------------------------------------------------- what a kind of mask must write

    @abstractmethod
    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Answer for index tensors that broadcast against each other, or for single numbers.

        Args:
            b: batch rows.
            h: heads.
            i: absolute query positions.
            j: absolute key positions.

        Returns:
            True where i may look at j, of the broadcast shape, or with axes of size 1 where the
            answer does not depend on them. What a mask has no entry for is False, never an error.
        """

    @property
    @abstractmethod
    def positional(self) -> bool:
        """Does the answer depend on where the query stands?"""

    # ------------------------------------------------------------------------ what it is asked

    @final
    def tile(
        self,
        rows: range | Int[Tensor, "rows"] | Int[Tensor, "#batch rows"],
        columns: range | Int[Tensor, "columns"],
        *,
        device: torch.device | str | None = None,
    ) -> Bool[Tensor, "#batch #heads rows columns"]:
        """Answer for one tile.

        ``tile[b, h, r, c] = mask(b, h, rows[r], columns[c])``

        Args:
            rows: absolute query positions, one list for all batch rows or one each.
            columns: absolute key positions.
            device: where ranges are laid out; where the mask's own tensors are, if not given.

        Returns:
            True = may look. The batch or heads axis is 1 where the mask does not depend on it. It
            may be a view whose memory repeats: do not write into it.

        Raises:
            MaskError: if rows or columns are no positions.

        Cost: O(rows · columns) for each batch row and head the mask tells apart.
        """
        block = self.block(rows, columns, device)
        return self.look(block).expand(-1, -1, block.i.shape[2], block.j.shape[3])

    @final
    def verdict(self, rows: range, columns: range) -> Verdict:
        """Judge a whole block, over all batch rows and heads.

        ``ALL`` where the tile is True everywhere, ``NONE`` where nowhere (or the block is empty),
        else ``MIXED``.

        Args:
            rows: absolute query positions.
            columns: absolute key positions.

        Returns:
            The exact verdict.

        Cost: integer arithmetic for the named masks; a tile only where logic leaves it open.
            Tensors inside are read once (an accelerator waits then).
        """
        if not rows or not columns:
            return Verdict.NONE
        if rows.step != 1 or columns.step != 1:
            return self.measured(rows, columns)
        return self.settle(rows, columns)

    # ------------------------------------------------------------------- what a kind may refine

    @property
    def parts(self) -> Sequence["Node"]:
        """The masks this one joins; none for a leaf."""
        return ()

    @property
    def batch_rows(self) -> int:
        """Batch rows the mask tells apart; 1 where all are alike."""
        return 1

    @property
    def head_count(self) -> int:
        """Heads the mask tells apart; 1 where all are alike."""
        return 1

    @property
    def device(self) -> torch.device | None:
        """Where the tensors inside are; None where there are none."""
        return None

    @property
    def band(self) -> tuple[float, float] | None:
        """``(low, high)`` where the mask is ``low <= i - j <= high``, else None."""
        return None

    def look(self, block: Block) -> Bool[Tensor, "#batch #heads #rows #columns"]:
        """Answer for a block, with axes of size 1 where the answer does not depend on them."""
        return self.predicate(block.b, block.h, block.i, block.j)

    def settle(self, rows: range, columns: range) -> Verdict:
        """Judge a block that is not empty and has no gaps."""
        return self.measured(rows, columns)

    def faults(self, call: Call) -> list[str]:
        """Say what does not fit the call, one line a fault, without reading tensors."""
        return [fault for part in self.parts for fault in part.faults(call)]

    # ------------------------------------------------------------------------ what follows from it

    @final
    def measured(self, rows: range, columns: range) -> Verdict:
        """Judge a block by looking at it.

        Cost: a tile.
        """
        seen = self.look(self.block(rows, columns))
        if not _any(seen):
            return Verdict.NONE
        return Verdict.ALL if _all(seen) else Verdict.MIXED

    @final
    def some(self, rows: range, columns: range) -> bool:
        """Does anyone in the block see anything? Asked where not everyone sees everything.

        Cost: one row where it settles the question, else a tile.
        """
        # The last row sees most under a causal mask, which is most often what is joined.
        return any(
            _any(self.look(self.block(part, columns))) for part in (rows[-1:], rows[:-1]) if part
        )

    @final
    def every(self, rows: range, columns: range) -> bool:
        """Does everyone in the block see everything? Asked where someone sees something.

        Cost: one row where it settles the question, else a tile.
        """
        return all(
            _all(self.look(self.block(part, columns))) for part in (rows[:1], rows[1:]) if part
        )

    @final
    def block(
        self,
        rows: range | Tensor,
        columns: range | Tensor,
        device: torch.device | str | None = None,
    ) -> Block:
        """Lay out a tile's positions for this mask."""
        return Block.at(
            rows,
            columns,
            batch=self.batch_rows,
            heads=self.head_count,
            device=torch.device(device or self.device or "cpu"),
        )

    @final
    def leaves(self) -> "list[Node]":
        """The leaves of the tree, from left to right."""
        if not self.parts:
            return [self]
        return [leaf for part in self.parts for leaf in part.leaves()]

    @final
    def unplaced(self, call: Call) -> list[str]:
        """Say which leaves ask where the queries stand, if the call does not tell."""
        if call.query_start is not None or call.queries == call.keys or not self.positional:
            return []
        asking = dict.fromkeys(repr(leaf) for leaf in self.leaves() if leaf.positional)
        several = f"{call.queries} queries can stand at several places among {call.keys} keys"
        what = "the position of the first query: keys - queries where they are the last tokens"
        return [f"{', '.join(asking)}: expected query_start=, because {several}; give {what}"]


# On bytes: PyTorch's any() and all() of a bool tensor take 50 times as long on a CPU.


def _any(seen: Tensor) -> bool:
    return seen.numel() > 0 and bool(seen.view(torch.uint8).max())


def _all(seen: Tensor) -> bool:
    return seen.numel() == 0 or bool(seen.view(torch.uint8).min())
