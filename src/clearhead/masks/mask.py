"""A mask as a value: the algebra, the call it is bound to, and what it is converted to.

A mask answers, for batch row b, head h, query position i and key position j: may i look at j?
True means it may. It can be asked for one tile, or for a verdict on a block, so that empty blocks
are skipped and full ones need no mask; the n×m answer is formed only by ``to_dense``.
"""

from typing import TYPE_CHECKING, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from clearhead.errors import MaskError, gathered
from clearhead.masks.chosen import Axis, Selection
from clearhead.masks.node import MaskPredicate, Node
from clearhead.masks.places import Call

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

__all__ = ["Mask"]


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
    def bind(
        self,
        *,
        queries: int,
        keys: int,
        batch: int,
        heads: int,
        query_start: int | Int[Tensor, "..."] | None,
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

    @final
    def select(
        self,
        *,
        batch: int | None = None,
        rows: Int[Tensor, "rows"] | None = None,
        columns: Int[Tensor, "columns"] | None = None,
    ) -> "Mask":
        """See the same mask at one batch row, or at chosen positions.

        ``selected(i, j) = mask(batch, rows[i], columns[j])``

        Args:
            batch: the batch row; None keeps all.
            rows: query positions that count as 0, 1, 2, … from now on; None keeps all.
            columns: key positions, likewise.

        Returns:
            The mask for what was chosen. Positions that follow each other keep quick verdicts, and
            a mask that only asks for distances stays itself.

        Raises:
            MaskError: if rows or columns are no positions, or there is no such batch row.

        Cost: O(rows + columns); reads them (an accelerator waits).
        """
        return self.selected(Selection.of(batch, rows, columns))

    @final
    def to_dense(
        self,
        *,
        queries: int,
        keys: int,
        batch: int = 1,
        heads: int = 1,
        query_start: int | Int[Tensor, "..."] | None = None,
    ) -> Bool[Tensor, "#batch #heads queries keys"]:
        """Form the whole n×m answer. Quadratic: memory and time grow with n · m.

        Args:
            queries: n.
            keys: m.
            batch: batch rows of the call.
            heads: heads of the call.
            query_start: absolute position of query 0, one for all or (batch,).

        Returns:
            True = may look, as ``scaled_dot_product_attention`` takes it.

        Raises:
            MaskError: if the mask does not fit the sizes.

        Cost: O(n · m) for each batch row and head the mask tells apart; ``tile`` gives any part.
        """
        bound = self.bind(
            queries=queries, keys=keys, batch=batch, heads=heads, query_start=query_start
        )
        if not isinstance(query_start, Tensor):
            first = query_start or 0
            return bound.tile(range(first, first + queries), range(keys))
        index = torch.arange(queries, device=query_start.device)
        rows = query_start.to(torch.int64).reshape(-1, 1) + index
        return bound.tile(rows, range(keys))

    @final
    def to_mask_mod(self) -> MaskPredicate:
        """Write the mask as FlexAttention's ``mask_mod``, by absolute position.

        Returns:
            A function of (b, h, q_idx, kv_idx), one number each, True = may look.
        """

        def mask_mod(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            return self.predicate(b, h, q_idx, kv_idx)

        return mask_mod

    @final
    def to_block_mask(
        self,
        *,
        queries: int,
        keys: int,
        batch: int | None = None,
        heads: int | None = None,
        query_start: int | Int[Tensor, "..."] = 0,
        device: torch.device | str = "cpu",
    ) -> "BlockMask":
        """Write the mask as FlexAttention's ``BlockMask``. Quadratic while it is made.

        Args:
            queries: n.
            keys: m.
            batch: batch rows; None is as many as the mask tells apart.
            heads: heads, likewise.
            query_start: absolute position of query 0, one for all or (batch,).
            device: where FlexAttention will run.

        Returns:
            The block mask; its query index 0 is position ``query_start``.

        Raises:
            MaskError: if the mask does not fit the sizes.

        Cost: O(n · m) memory while FlexAttention makes it, O(blocks) kept.
        """
        from clearhead.masks.flex import block_mask

        return block_mask(
            self,
            queries=queries,
            keys=keys,
            batch=self.batch_rows if batch is None else batch,
            heads=self.head_count if heads is None else heads,
            query_start=query_start,
            device=device,
        )

    @staticmethod
    def from_tensor(
        allowed: Bool[Tensor, "*batch_heads n m"], *, query_start: int | None = None
    ) -> "Mask":
        """Take a mask that was already written out.

        ``mask(b, h, i, j) = allowed[b, h, i - query_start, j]``

        Args:
            allowed: (n, m), (heads, n, m) or (batch, heads, n, m) of bool, True = may look; an axis
                of size 1 stands for all. It is not copied: do not write into it afterwards.
            query_start: absolute position of row 0; None is the call's first query. Column 0 is the
                call's first key.

        Returns:
            The mask.

        Raises:
            MaskError: if ``allowed`` is no bool tensor of such a shape.

        Cost: the tensor was quadratic already; nothing more is kept.
        """
        from clearhead.masks.tensor import tensor_mask

        return tensor_mask(allowed, query_start=query_start)

    @staticmethod
    def from_mask_mod(
        fn: MaskPredicate, *, batch: int | None = None, heads: int | None = None
    ) -> "Mask":
        """Take FlexAttention's ``mask_mod``.

        ``mask(b, h, i, j) = fn(b, h, i, j)``

        Args:
            fn: answers for one batch row, head, absolute query and key position with a bool tensor.
            batch: batch rows ``fn`` tells apart: None is every one of the call, 1 is none.
            heads: heads, likewise.

        Returns:
            The mask. ``fn`` is evaluated a tile at a time, through ``torch.vmap``.

        Cost: a tile of ``fn``; a verdict takes one too, once a block: ``fn`` may not change.
        """
        from clearhead.masks.flex import MaskMod

        return MaskMod(fn, batch=batch, heads=heads)

    # ------------------------------------------------------------------- what a kind may refine

    def resolved(self, call: Call) -> "Mask":
        """Fill in what the call decides; asked when nothing is at fault."""
        del call
        return self

    def of_batch(self, row: int) -> "Mask":
        """See one batch row; asked only where the mask tells batch rows apart."""
        from clearhead.masks.selection import Selected

        return Selected(self, Selection(row, Axis(), Axis()))

    def moved(self, rows: range, columns: range) -> "Mask | None":
        """See runs of positions as 0, 1, 2, …, or None where the kind knows no short way."""
        del rows, columns
        return None

    def selected(self, selection: Selection) -> "Mask":
        """See chosen positions."""
        from clearhead.masks.selection import Selected

        return Selected.of(self, selection)

    def to(self, device: torch.device | str) -> "Mask":
        """Move the tensors inside; a mask without any stays as it is."""
        del device
        return self
