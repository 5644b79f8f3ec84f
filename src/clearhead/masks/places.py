"""Where a mask is asked: one tile's positions, and one call's sizes."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.errors import MaskError

__all__ = ["Block", "Call", "numbers", "written"]


def written(tensor: object) -> str:
    """Name a tensor by dtype and shape, ``float32[2, 3]``, and anything else by its kind.

    Args:
        tensor: what was got.

    Returns:
        The name.
    """
    if not isinstance(tensor, Tensor):
        return type(tensor).__name__
    return f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(map(str, tensor.shape))}]"


def numbers(tensor: Int[Tensor, "count"]) -> list[int]:
    """Read a list of integers.

    Args:
        tensor: the integers.

    Returns:
        The same as Python's.

    Cost: O(count); an accelerator waits.
    """
    return tensor.numpy(force=True).tolist()


@final
@dataclass(frozen=True, eq=False)
class Block:
    """The positions of one tile, as index tensors that broadcast against each other.

    Attributes:
        rows: absolute query positions as they were asked for: a range, (rows,) or (batch, rows).
        columns: absolute key positions as they were asked for: a range or (columns,).
        b: batch rows.
        h: heads.
        i: query positions.
        j: key positions.
    """

    rows: range | Tensor
    columns: range | Tensor
    b: Int[Tensor, "batch 1 1 1"]
    h: Int[Tensor, "1 heads 1 1"]
    i: Int[Tensor, "#batch_of_rows 1 rows 1"]
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
            device: where ranges are laid out if neither is a tensor.

        Returns:
            The block.

        Raises:
            MaskError: if the positions are neither ranges nor integer tensors of these shapes.

        Cost: O(rows + columns).
        """
        for positions in (columns, rows):
            if isinstance(positions, Tensor):
                device = positions.device
        i = _index("rows", rows, device=device, axes=(1, 2))
        j = _index("columns", columns, device=device, axes=(1,))
        return cls(
            rows=rows,
            columns=columns,
            b=torch.arange(batch, device=device).view(-1, 1, 1, 1),
            h=torch.arange(heads, device=device).view(1, -1, 1, 1),
            i=i.view(1, 1, -1, 1) if i.dim() == 1 else i[:, None, :, None],
            j=j.view(1, 1, 1, -1),
        )


def _index(
    name: str, positions: range | Tensor, *, device: torch.device, axes: tuple[int, ...]
) -> Tensor:
    if isinstance(positions, range):
        return torch.arange(positions.start, positions.stop, positions.step, device=device)
    if positions.dtype != torch.int64 or positions.dim() not in axes:
        shapes = " or ".join(f"({'batch, ' * (axis - 1)}{name})" for axis in axes)
        raise MaskError(
            f"{name}: expected a range or an int64 tensor {shapes} of absolute positions, "
            f"got {written(positions)}"
        )
    return positions


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Call:
    """The sizes of one attention call, which a mask has to fit.

    Attributes:
        queries: n, or None where a selection stands between.
        keys: m, or None where a selection stands between.
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
        start = self.query_start
        told = {
            "queries": self.queries,
            "keys": self.keys,
            "batch": self.batch,
            "heads": self.heads,
            "query_start": written(start) if isinstance(start, Tensor) else start,
            "key_start": self.key_start or None,
        }
        return ", ".join(f"{name}={value}" for name, value in told.items() if value is not None)

    @property
    def first_query(self) -> int | Tensor:
        """Absolute position of query 0: where not given, queries begin where the keys begin."""
        return self.key_start if self.query_start is None else self.query_start

    @property
    def past_queries(self) -> int | None:
        """Absolute position just past the last query, where it can be told without reading."""
        if self.queries is None or isinstance(self.first_query, Tensor):
            return None
        return self.first_query + self.queries

    @property
    def past_keys(self) -> int | None:
        """Absolute position just past the last key."""
        return None if self.keys is None else self.key_start + self.keys

    def faults(self) -> list[str]:
        """Say what is wrong with ``query_start`` itself.

        Returns:
            One line a fault; nothing is read from a tensor.
        """
        start = self.query_start
        if not isinstance(start, Tensor):
            return []
        if not start.is_floating_point() and tuple(start.shape) in {(), (self.batch,)}:
            return []
        expected = f"an integer or an integer tensor ({self.batch},), one a batch row"
        return [f"query_start: expected {expected}, got {written(start)}"]
