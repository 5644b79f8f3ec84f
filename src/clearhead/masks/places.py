"""Where a mask is asked: one tile's positions, one call's sizes, one selection of positions."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.errors import MaskError

__all__ = ["Block", "Call", "Selection", "run_of", "written"]


@final
@dataclass(frozen=True, eq=False)
class Block:
    """The positions of one tile, as index tensors that broadcast against each other.

    Attributes:
        rows: absolute query positions as they were asked for: a range, (rows,) or (batch, rows).
        columns: absolute key positions as they were asked for: a range or (columns,).
        b: batch rows, (batch, 1, 1, 1).
        h: heads, (1, heads, 1, 1).
        i: query positions, (1 or batch, 1, rows, 1).
        j: key positions, (1, 1, 1, columns).
    """

    rows: range | Tensor
    columns: range | Tensor
    b: Int[Tensor, "batch 1 1 1"]
    h: Int[Tensor, "1 heads 1 1"]
    i: Int[Tensor, "#batch 1 rows 1"]
    j: Int[Tensor, "1 1 1 columns"]

    @classmethod
    def at(
        cls,
        rows: range | Tensor,
        columns: range | Tensor,
        *,
        batch: int,
        heads: int,
        device: torch.device,
    ) -> "Block":
        """Lay out the positions of one tile.

        Args:
            rows: absolute query positions: a range, (rows,) or (batch, rows) of int64.
            columns: absolute key positions: a range or (columns,) of int64.
            batch: batch rows the mask tells apart; 1 where it does not.
            heads: heads the mask tells apart; 1 where it does not.
            device: where ranges are laid out; tensors stay where they are.

        Returns:
            The block.

        Raises:
            MaskError: if the positions are no ranges and no integer tensors of these shapes.

        Cost: O(rows + columns).
        """
        for tensor in (columns, rows):
            if isinstance(tensor, Tensor):
                device = tensor.device
        i = _positions("rows", rows, device=device, axes=(1, 2))
        j = _positions("columns", columns, device=device, axes=(1,))
        return cls(
            rows=rows,
            columns=columns,
            b=torch.arange(batch, device=device).view(-1, 1, 1, 1),
            h=torch.arange(heads, device=device).view(1, -1, 1, 1),
            i=i.view(-1, 1, i.shape[-1], 1) if i.dim() == 2 else i.view(1, 1, -1, 1),
            j=j.view(1, 1, 1, -1),
        )


def _positions(
    name: str, positions: range | Tensor, *, device: torch.device, axes: tuple[int, ...]
) -> Tensor:
    if isinstance(positions, range):
        return torch.arange(positions.start, positions.stop, positions.step, device=device)
    if positions.dtype != torch.int64 or positions.dim() not in axes:
        shapes = " or ".join(("", f"({name},)", f"(batch, {name})")[axis] for axis in axes)
        raise MaskError(
            f"{name}: expected a range or an int64 tensor {shapes} of absolute positions, "
            f"got {written(positions)}"
        )
    return positions


def written(tensor: Tensor) -> str:
    """Name a tensor by dtype and shape: ``float32[2, 3]``."""
    return f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(map(str, tensor.shape))}]"


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Call:
    """The sizes of one attention call, which a mask has to fit.

    Attributes:
        queries: n, or None where a selection hides it.
        keys: m, or None where a selection hides it.
        batch: batch rows of the query.
        heads: heads of the query.
        query_start: absolute position of query 0, one for all or (batch,), or None where not given.
        key_start: absolute position of key 0.
    """

    queries: int | None
    keys: int | None
    batch: int
    heads: int
    query_start: int | Tensor | None
    key_start: int

    def __str__(self) -> str:
        sizes = {"queries": self.queries, "keys": self.keys, "batch": self.batch}
        return ", ".join(f"{name}={size}" for name, size in sizes.items() if size is not None)

    @property
    def first_query(self) -> int | Tensor:
        """Absolute position of query 0: where not given, queries begin where the keys begin."""
        return self.key_start if self.query_start is None else self.query_start

    @property
    def last_key(self) -> int | None:
        """Absolute position just past the last key."""
        return None if self.keys is None else self.key_start + self.keys

    def faults(self) -> list[str]:
        """Say what is wrong with ``query_start`` itself.

        Returns:
            One line a fault; nothing is read from a tensor.
        """
        start = self.query_start
        if isinstance(start, Tensor):
            if start.is_floating_point() or tuple(start.shape) not in {(), (self.batch,)}:
                expected = f"an integer or an integer tensor ({self.batch},), one for each batch row"
                return [f"query_start: expected {expected}, got {written(start)}"]
        elif start is not None and start < 0:
            return [f"query_start: expected a position of 0 or more, got {start}"]
        return []


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Selection:
    """Chosen positions: index i of what is selected stands for position ``rows[i]``.

    Attributes:
        batch: the batch row, or None for all.
        rows: chosen query positions, or None for all.
        columns: chosen key positions, or None for all.
        row_run: ``rows`` as a range, where they follow each other.
        column_run: ``columns`` as a range, where they follow each other.
    """

    batch: int | None
    rows: Int[Tensor, "rows"] | None
    columns: Int[Tensor, "columns"] | None
    row_run: range | None
    column_run: range | None

    @property
    def shift(self) -> int | None:
        """The distance by which rows and columns moved together, or None where they did not."""
        if self.row_run is None or self.column_run is None:
            return None
        same = self.row_run.start == self.column_run.start
        return self.row_run.start if same else None


def run_of(positions: Int[Tensor, "chosen"] | None) -> range | None:
    """Write positions that follow each other as a range.

    Args:
        positions: chosen positions, or None.

    Returns:
        The range, or None where positions jump, are none or are not given.

    Cost: reads the values (an accelerator waits).
    """
    if positions is None or len(positions) == 0:
        return None
    first = int(positions[0])
    run = range(first, first + len(positions))
    steady = torch.arange(run.start, run.stop, device=positions.device)
    return run if torch.equal(positions, steady) else None
