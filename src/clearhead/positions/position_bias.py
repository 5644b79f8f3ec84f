"""A bias of the scores that depends on positions alone, made a tile at a time.

A model with such a bias adds to every score a number that says how far query and key stand apart.
Written out that is n×m numbers a head; nothing here keeps them. A bias is asked for one tile, by
absolute positions, as masks are: a decode step and the full pass then get the same numbers.
"""

from abc import ABC, abstractmethod
from typing import TypeGuard, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.errors import InputError

__all__ = ["ChosenPositions", "PositionBias", "RelativeBias"]


class PositionBias(ABC):
    """What is added to a score because of where its query and its key stand.

    ``S[h, i, j] = scale · qᵢ·kⱼ + bias[h, i, j]`` for query position i and key position j.

    Attributes:
        heads: heads it has a bias for.
    """

    heads: int

    @abstractmethod
    def tile(
        self,
        rows: range | Int[Tensor, "*lead r"],
        columns: range | Int[Tensor, "c"],
        *,
        heads: Int[Tensor, "chosen"] | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
    ) -> Float[Tensor, "#batch chosen r c"]:
        """Make one tile.

        Args:
            rows: absolute positions of queries: a range, (r,) or (batch, r) of int64.
            columns: absolute positions of keys: a range or (c,) of int64.
            heads: which heads, in this order; None is all.
            dtype: dtype of the tile.
            device: where it lies; None is where the positions do, and for ranges the CPU.

        Returns:
            The tile; its first axis is 1 unless batch rows stand at different positions.

        Raises:
            InputError: positions are neither ranges nor integer tensors of these shapes.

        Cost: r · c numbers a head.
        """

    @property
    def requires_grad(self) -> bool:
        """Whether something in it is learned."""
        return False

    @property
    def masking(self) -> bool:
        """Whether it may hold −inf: then a row that sees only those sees nothing."""
        return True


class RelativeBias(PositionBias):
    """A position bias that depends on the distance ``j − i`` and on nothing else."""

    @abstractmethod
    def at(
        self,
        distances: Int[Tensor, "*distances"],
        *,
        heads: Int[Tensor, "chosen"] | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Float[Tensor, "chosen *distances"]:
        """The bias at each distance ``j − i``: negative where the key stands before the query."""

    @final
    def tile(
        self,
        rows: range | Int[Tensor, "*lead r"],
        columns: range | Int[Tensor, "c"],
        *,
        heads: Int[Tensor, "chosen"] | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
    ) -> Float[Tensor, "#batch chosen r c"]:
        """Make one tile; see :meth:`PositionBias.tile`. Runs need only r + c − 1 distances."""
        if _is_run(rows) and _is_run(columns):
            distances = torch.arange(columns[0] - rows[-1], columns[-1] - rows[0] + 1)
            along = self.at(distances.to(device), heads=heads, dtype=dtype)
            return _skewed(along, len(columns)).unsqueeze(0)
        for positions in (columns, rows):
            if device is None and isinstance(positions, Tensor):
                device = positions.device
        i = _index("rows", rows, axes=(1, 2)).to(device)
        j = _index("columns", columns, axes=(1,)).to(device)
        distances = j - (i[:, :, None] if i.ndim == 2 else i[None, :, None])
        return self.at(distances, heads=heads, dtype=dtype).transpose(0, 1)


@final
class ChosenPositions(PositionBias):
    """A position bias at chosen positions, which count as 0, 1, 2, … from here on.

    ``chosen[h, i, j] = bias[h, rows[i], columns[j]]``

    Args:
        bias: the position bias.
        rows: absolute positions of queries.
        columns: absolute positions of keys.

    Cost: r + c numbers, which are read once (an accelerator waits).
    """

    def __init__(
        self, bias: PositionBias, *, rows: Int[Tensor, "n"], columns: Int[Tensor, "m"]
    ) -> None:
        self.heads = bias.heads
        self.bias = bias
        self.rows, self.columns = _as_run(rows), _as_run(columns)

    @property
    def requires_grad(self) -> bool:
        """Whether the bias behind it is learned."""
        return self.bias.requires_grad

    @property
    def masking(self) -> bool:
        """Whether the bias behind it may hold −inf."""
        return self.bias.masking

    def tile(
        self,
        rows: range | Int[Tensor, "*lead r"],
        columns: range | Int[Tensor, "c"],
        *,
        heads: Int[Tensor, "chosen"] | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
    ) -> Float[Tensor, "#batch chosen r c"]:
        """Make one tile; see :meth:`PositionBias.tile`."""
        r, c = _picked(self.rows, rows), _picked(self.columns, columns)
        return self.bias.tile(r, c, heads=heads, dtype=dtype, device=device)


def _is_run(positions: range | Tensor) -> TypeGuard[range]:
    return isinstance(positions, range) and positions.step == 1 and len(positions) > 0


def _skewed(along: Tensor, columns: int) -> Tensor:
    """Lay out what stands along distances so that each row begins one distance before the last.

    The run seen through a window that slides by one a row; the last row has its beginning.
    """
    seen = along.unfold(1, columns, 1)
    # a row's numbers must lie side by side, which flip does not promise
    return seen.index_select(1, torch.arange(seen.shape[1] - 1, -1, -1, device=along.device))


def _index(name: str, positions: range | Tensor, *, axes: tuple[int, ...]) -> Tensor:
    if isinstance(positions, range):
        return torch.arange(positions.start, positions.stop, positions.step)
    if positions.dtype != torch.int64 or positions.ndim not in axes:
        shapes = " or ".join(f"({'batch, ' * (axis - 1)}{name})" for axis in axes)
        raise InputError(
            f"{name}: expected a range or an int64 tensor {shapes} of absolute positions, "
            f"got {positions.dtype} of shape {tuple(positions.shape)}"
        )
    return positions


def _as_run(positions: Tensor) -> range | Tensor:
    """Positions as a range where they follow each other."""
    if len(positions) == 0:
        return range(0)
    first = int(positions[0])
    run = range(first, first + len(positions))
    return run if bool((positions.diff() == 1).all()) else positions


def _picked(chosen: range | Tensor, where: range | Tensor) -> range | Tensor:
    """The positions at some places among those chosen."""
    if isinstance(chosen, range):
        if isinstance(where, range):
            return range(where.start + chosen.start, where.stop + chosen.start, where.step)
        return where + chosen.start
    index = torch.arange(where.start, where.stop, where.step) if isinstance(where, range) else where
    return chosen[index.to(chosen.device)]
