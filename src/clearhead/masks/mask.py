"""A mask as a value: an index predicate that is asked for tiles and for verdicts.

A mask answers, for batch row b, head h, query position i and key position j: may i look at j?
True means it may. It can be asked for one tile, or for a verdict on a block, so that empty blocks
are skipped and full ones need no mask; the n×m answer is formed only by ``to_dense``.
"""

# ruff: noqa: PLC0415 -- the nodes of the tree are masks: their files import this one
from collections.abc import Callable
from typing import TYPE_CHECKING, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from clearhead.errors import MaskError, gathered
from clearhead.masks.node import Node, Verdict
from clearhead.masks.places import Call, Selection

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

__all__ = ["Mask", "MaskPredicate"]

# FlexAttention's mask_mod: batch row, head, query position and key position, one number each.
MaskPredicate = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Mask(Node):
    """Who may look at whom: a predicate over batch row b, head h, query i and key j.

    ``mask(b, h, i, j) = True`` where position i may look at position j. Positions are absolute.

    Masks are values: ``&``, ``|`` and ``~`` make new ones. A kind of your own is a frozen dataclass
    that writes ``predicate``, ``positional`` and ``__repr__``; let its test inherit the contract
    suite of ``tests/masks``.

    Example:
        >>> from clearhead.masks import causal_mask, sliding_window_mask
        >>> mask = causal_mask() & sliding_window_mask(2)
        >>> mask
        causal_mask() & sliding_window_mask(2)
        >>> mask.tile(range(4, 6), range(2, 6)).int()[0, 0].tolist()
        [[0, 1, 1, 0], [0, 0, 1, 1]]
        >>> mask.verdict(range(4, 6), range(0, 3))
        <Verdict.NONE: 'none'>
    """

    def __and__(self, other: "Mask") -> "Mask":
        from clearhead.masks.algebra import And

        return And.of(self, other)

    def __or__(self, other: "Mask") -> "Mask":
        from clearhead.masks.algebra import Or

        return Or.of(self, other)

    def __invert__(self) -> "Mask":
        from clearhead.masks.algebra import Not

        return Not.of(self)

    @final
    def tile(
        self,
        rows: range | Int[Tensor, "rows"] | Int[Tensor, "batch rows"],
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

    @final
    def bind(
        self,
        *,
        queries: int,
        keys: int,
        batch: int,
        heads: int,
        query_start: int | Tensor | None,
        key_start: int = 0,
    ) -> "Mask":
        """Check the whole tree against one call and make it ready for ``tile``.

        Args:
            queries: n.
            keys: m.
            batch: batch rows of the query.
            heads: heads of the query.
            query_start: absolute position of query 0, one for all or (batch,); where None, queries
                begin where the keys begin.
            key_start: absolute position of key 0.

        Returns:
            The same mask, with what the call decides filled in.

        Raises:
            MaskError: naming every part that does not fit, what it expected, got and what to do.

        Cost: O(parts of the tree); no tensor value is read.
        """
        call = Call(
            queries=queries,
            keys=keys,
            batch=batch,
            heads=heads,
            query_start=query_start,
            key_start=key_start,
        )
        faults = [*call.faults(), *self.unplaced(call), *self.faults(call)]
        if faults:
            summary = f"mask={self!r} does not fit {call}"
            raise MaskError(gathered(summary, list(dict.fromkeys(faults))))
        return self.resolved(call)

    def resolved(self, call: Call) -> "Mask":
        """Fill in what the call decides; asked when nothing is at fault."""
        del call
        return self

    def to(self, device: torch.device | str) -> "Mask":
        """Move the tensors inside; a mask without any stays as it is."""
        del device
        return self
