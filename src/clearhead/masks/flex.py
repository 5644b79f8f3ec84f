"""FlexAttention: its ``mask_mod`` as a mask, and a mask as its ``BlockMask``."""

from dataclasses import dataclass, field
from typing import cast, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, create_mask

from clearhead.errors import MaskError
from clearhead.masks.chosen import Selection
from clearhead.masks.mask import Mask
from clearhead.masks.node import MaskPredicate, Verdict
from clearhead.masks.places import Block, Call, written
from clearhead.masks.selection import Selected

__all__ = ["MaskMod", "block_mask"]

_REMEMBERED = 65_536  # verdicts a function's mask keeps: all blocks of 256 at 65,536 tokens


def _nothing() -> dict[tuple[object, ...], Verdict]:
    return {}


@final
@dataclass(frozen=True, eq=False)
class MaskMod(Mask):
    """FlexAttention's ``mask_mod``: ``fn(b, h, i, j)``, one number each.

    Attributes:
        fn: the function.
        batch: batch rows it tells apart; None until a call says how many there are.
        heads: heads it tells apart, likewise.
        judged: verdicts so far, shared by the copies that calls make: the function is asked once
            for a block, however many layers ask.
    """

    fn: MaskPredicate
    batch: int | None = None
    heads: int | None = None
    judged: dict[tuple[object, ...], Verdict] = field(default_factory=_nothing, repr=False)

    def __repr__(self) -> str:
        return f"Mask.from_mask_mod({getattr(self.fn, '__name__', type(self.fn).__name__)})"

    @property
    def positional(self) -> bool:
        """It may be: it is told the position."""
        return True

    @property
    def batch_rows(self) -> int:
        """As many as it was told."""
        return self._told("batch", self.batch)

    @property
    def head_count(self) -> int:
        """As many as it was told."""
        return self._told("heads", self.heads)

    def _told(self, name: str, size: int | None) -> int:
        if size is None:
            raise MaskError(
                f"{self!r}: expected {name}=, because no call has said how many there are; give "
                f"from_mask_mod {name}=1 if the function does not depend on it, or bind the mask"
            )
        return size

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Ask the function, through ``torch.vmap`` where many pairs are asked at once."""
        if j.dim() == 0:
            return self._answer(b, h, i, j)
        batch = b.shape[0] if i.shape[0] == 1 else i.shape[0]
        rows, columns = i.expand(batch, 1, -1, 1).reshape(batch, -1), j.reshape(-1)

        def at(x: Tensor, y: Tensor, row: Tensor, column: Tensor) -> Tensor:
            return self._answer(x, y, rows[x, row], columns[column])

        sizes = (batch, h.shape[1], i.shape[2], j.shape[3])
        return _evaluated(at, sizes, j.device)

    def look(self, block: Block) -> Bool[Tensor, "#batch #heads #rows #columns"]:
        """Count positions, where they are ranges: that is quicker than to look them up."""
        rows, columns = block.rows, block.columns
        if isinstance(rows, Tensor) or isinstance(columns, Tensor):
            return self.predicate(block.b, block.h, block.i, block.j)

        def at(x: Tensor, y: Tensor, row: Tensor, column: Tensor) -> Tensor:
            i = row * rows.step + rows.start
            return self._answer(x, y, i, column * columns.step + columns.start)

        sizes = (self.batch_rows, self.head_count, len(rows), len(columns))
        return _evaluated(at, sizes, block.j.device)

    def settle(self, rows: range, columns: range) -> Verdict:
        """Remember what was seen: a look takes milliseconds."""
        block = (self.batch, self.heads, rows, columns)
        if block not in self.judged:
            if len(self.judged) >= _REMEMBERED:
                self.judged.clear()
            self.judged[block] = self.measured(rows, columns)
        return self.judged[block]

    def _answer(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        answer = cast("object", self.fn(b, h, i, j))
        if not isinstance(answer, Tensor) or answer.dtype != torch.bool:
            got = written(answer) if isinstance(answer, Tensor) else type(answer).__name__
            raise MaskError(
                f"{self!r}: expected the function to answer with one bool tensor, True = may look, "
                f"got {got}; a function that changes scores is no mask"
            )
        return answer

    def faults(self, call: Call) -> list[str]:
        """Expect as many batch rows and heads as it tells apart."""
        sizes = (("batch", self.batch, call.batch), ("heads", self.heads, call.heads))
        return [
            f"{self!r}: expected {name}={wanted} as in the call (or 1, or None), got {got}"
            for name, got, wanted in sizes
            if got not in {None, 1, wanted}
        ]

    def resolved(self, call: Call) -> Mask:
        """Evaluate it for every batch row and head of the call, where it was told nothing else."""
        batch = call.batch if self.batch is None else self.batch
        heads = call.heads if self.heads is None else self.heads
        if (batch, heads) == (self.batch, self.heads):
            return self
        return MaskMod(self.fn, batch, heads, self.judged)

    def of_batch(self, row: int) -> Mask:
        """Tell it the one batch row."""
        return MaskMod(_at_row(self.fn, row), batch=1, heads=self.heads)

    def selected(self, selection: Selection) -> Mask:
        """Tell it the batch row, even where no call has said how many there are."""
        mask = self
        if self.batch is None and selection.batch is not None:
            mask = MaskMod(_at_row(self.fn, selection.batch), batch=1, heads=self.heads)
        return Selected.of(mask, selection)


def _evaluated(
    at: MaskPredicate, sizes: tuple[int, int, int, int], device: torch.device
) -> Bool[Tensor, "batch heads rows columns"]:
    if 0 in sizes:
        return torch.zeros(sizes, dtype=torch.bool, device=device)
    return create_mask(at, *sizes, device=device)


def _at_row(fn: MaskPredicate, row: int) -> MaskPredicate:
    def at_row(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        # A tensor, as everywhere: a function may compare it and expect a tensor back.
        return fn(torch.full_like(b, row), h, i, j)

    at_row.__name__ = getattr(fn, "__name__", "at_row")
    return at_row


def block_mask(
    mask: Mask,
    *,
    queries: int,
    keys: int,
    batch: int,
    heads: int,
    query_start: int | Int[Tensor, "..."],
    device: torch.device | str,
) -> BlockMask:
    """Write a mask as FlexAttention's ``BlockMask``; see ``Mask.to_block_mask``."""
    bound = mask.to(device).bind(
        queries=queries, keys=keys, batch=batch, heads=heads, query_start=query_start
    )
    if isinstance(query_start, Tensor):
        starts = query_start.to(device).expand(batch)

        def shifted(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            return bound.predicate(b, h, q_idx + starts[b], kv_idx)
    else:

        def shifted(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            return bound.predicate(b, h, q_idx + query_start, kv_idx)

    return create_block_mask(shifted, batch, heads, queries, keys, device=str(device))
