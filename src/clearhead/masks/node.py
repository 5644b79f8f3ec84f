"""What one kind of mask writes: its predicate, and what it knows about itself.

Only ``predicate`` and ``positional`` are needed. All else has a default that is right; a kind
refines it where it knows something quicker.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from typing import final

import torch
from jaxtyping import Bool
from torch import Tensor

from clearhead.masks.places import Block, Call

__all__ = ["Node", "Verdict"]


class Verdict(StrEnum):
    """What a mask says about a whole block: every pair may look, none may, or some may."""

    ALL = "all"
    NONE = "none"
    MIXED = "mixed"


class Node(ABC):
    """One node of a mask's tree; people meet it as ``Mask``."""

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
            answer does not depend on them. Never an error for a position outside what the mask
            knows: there it is False.
        """

    @property
    @abstractmethod
    def positional(self) -> bool:
        """Does the answer depend on where the query stands?"""

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
        """Say what does not fit the call, one line a fault."""
        return [fault for part in self.parts for fault in part.faults(call)]

    @final
    def measured(self, rows: range, columns: range) -> Verdict:
        """Judge a block by looking at it.

        Cost: a tile.
        """
        seen = self.look(self.block(rows, columns))
        if not seen.any():
            return Verdict.NONE
        return Verdict.ALL if seen.all() else Verdict.MIXED

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
        asking = [repr(leaf) for leaf in self.leaves() if leaf.positional]
        return [
            f"{' and '.join(dict.fromkeys(asking))}: expected query_start=, because "
            f"{call.queries} queries can stand at several places among {call.keys} keys, got None; "
            f"give the absolute position of the first query (keys - queries where the queries are "
            f"the last tokens, 0 where they are the first)"
        ]
