"""NumPy's indexing, read as *which part must be computed* and *how to arrange it afterwards*."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, NamedTuple, SupportsIndex, cast

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.errors import InputError, OutOfRangeError
from clearhead.pipeline.places import Positions, as_tensor

__all__ = [
    "AxisIndex",
    "Chosen",
    "Distinct",
    "MatrixIndex",
    "Selection",
    "distinct",
    "positions",
    "select",
]

#: What chooses places on one axis: a slice, a range, an integer, or integers or truth values.
AxisIndex = slice | SupportsIndex | Sequence[int] | npt.NDArray[Any] | Tensor
#: What stands between the brackets of a matrix; None, a new axis, is answered with an error.
MatrixIndex = AxisIndex | EllipsisType | None | tuple[AxisIndex | EllipsisType | None, ...]

#: The most entries that an index of arrays may compute at once.
INDEXED_ELEMENTS = 2**26

_torch = cast("Any", torch)  # unique and broadcast_tensors say nothing of their types


class Distinct(NamedTuple):
    """Integers without repetition.

    Attributes:
        values: each integer once, in order.
        places: where each of the given ones stands among them.
    """

    values: Int[Tensor, "distinct"]
    places: Int[Tensor, "..."]


def distinct(integers: Int[Tensor, "..."]) -> Distinct:
    """Leave repetitions out: ``values[places]`` is what was given.

    Args:
        integers: any number of them, in any order.

    Returns:
        The distinct ones, and where each of the given ones stands among them.
    """
    return Distinct(*_torch.unique(integers, return_inverse=True))


@dataclass(frozen=True, eq=False, slots=True)
class Chosen:
    """What is chosen of one leading axis, and whether the axis stays."""

    index: Positions
    keep: bool


@dataclass(frozen=True, eq=False, slots=True)
class Selection:
    """An index, taken apart.

    Attributes:
        leading: the choice on each leading axis.
        rows: the rows to compute.
        columns: the columns to compute.
        lazy: whether all rows and columns were chosen, so that nothing need be computed.
        final: index to apply to the computed block.
    """

    leading: tuple[Chosen, ...]
    rows: Positions
    columns: Positions
    lazy: bool
    final: tuple[slice | int | Tensor, ...]

    def finish(self, block: Tensor) -> Tensor:
        """Arrange the computed block as the index asked."""
        return block[self.final]


def positions(index: AxisIndex, size: int, *, axis: str) -> Positions:
    """Read a range, slice, integer sequence or array as positions on one axis.

    Args:
        index: what the caller gave; negative integers count from the end.
        size: length of the axis.
        axis: its name, for the error.

    Returns:
        A range of step 1, or an int64 tensor of positions.

    Raises:
        OutOfRangeError: a position lies outside the axis.
        InputError: the index is of another kind.
    """
    if isinstance(index, slice):
        index = range(size)[index]
    if isinstance(index, range):
        if index.step == 1 and 0 <= index.start <= index.stop <= size:
            return index
        index = list(index)
    array = np.atleast_1d(_array(index))
    if array.dtype == np.bool_ and array.shape == (size,):
        array = array.nonzero()[0]
    if array.size == 0:
        return range(0)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise InputError(
            f"{axis} must be a slice, a range, integers in one axis or {size} truth values, "
            f"got {array.dtype} of shape {array.shape}"
        )
    if array.min() < -size or array.max() >= size:
        raise OutOfRangeError(
            f"{axis} must lie in [{-size}, {size}), got {array.min()} to {array.max()}"
        )
    array = np.where(array < 0, array + size, array).astype(np.int64)
    return torch.as_tensor(array, device="cpu")


def select(index: MatrixIndex, shape: tuple[int, ...]) -> Selection:
    """Take a NumPy index apart.

    Args:
        index: integers, slices, an Ellipsis, or integer and boolean arrays of one axis, in a tuple
            or not.
        shape: shape of the matrix; the last two axes are rows and columns.

    Returns:
        What to compute and how to arrange it.

    Raises:
        InputError: too many indices, a new axis, or arrays that would compute too much at once.
        OutOfRangeError: an integer lies outside its axis.
    """
    entries = _full(index, shape)
    simple = [entry for entry in entries if not isinstance(entry, np.ndarray)]
    if len(simple) < len(entries):
        return _with_arrays(entries, shape)
    ranges = [
        _range(entry, size, axis)
        for axis, (entry, size) in enumerate(zip(simple, shape, strict=True))
    ]
    kept = [isinstance(entry, slice) for entry in simple]
    leading = tuple(
        Chosen(positions(r, size, axis="the index"), keep)
        for r, size, keep in zip(ranges[:-2], shape, kept, strict=False)
    )
    whole = all(entry == slice(None) for entry in simple[-2:])
    final = tuple(slice(None) for keep in kept[:-2] if keep) + tuple(
        slice(None) if k else 0 for k in kept[-2:]
    )
    rows, columns = (
        positions(r, s, axis="the index") for r, s in zip(ranges[-2:], shape[-2:], strict=True)
    )
    return Selection(leading, rows, columns, whole, final)


_Entry = slice | int | npt.NDArray[Any]


def _full(index: MatrixIndex, shape: tuple[int, ...]) -> list[_Entry]:
    """One entry an axis: the Ellipsis is written out, whatever has axes of its own is an array."""
    entries = list(index) if isinstance(index, tuple) else [index]
    dots = sum(entry is Ellipsis for entry in entries)
    given = len(entries) - dots
    full: list[_Entry] = []
    for entry in entries if dots else [*entries, ...]:
        if entry is None:
            raise InputError("a new axis (None) cannot be added to a matrix that is never formed")
        if isinstance(entry, EllipsisType):
            full += [slice(None)] * (len(shape) - given)
        elif isinstance(entry, slice):
            full.append(entry)
        else:
            array = _array(entry)
            full.append(array if array.ndim else _integer(array))
    if dots > 1:
        raise InputError("an index can only have a single Ellipsis ('...')")
    if given > len(shape):
        raise InputError(
            f"too many indices: the matrix has {len(shape)} axes, {given} were indexed"
        )
    return full


def _array(index: SupportsIndex | Sequence[int] | npt.NDArray[Any] | Tensor) -> npt.NDArray[Any]:
    return np.asarray(index.cpu() if isinstance(index, Tensor) else index)


def _integer(array: npt.NDArray[Any]) -> int:
    if array.dtype.kind not in "iu":
        raise InputError(
            "an index must be integers, slices, an Ellipsis, or arrays of integers or truth values "
            f"of one axis, got {array.item()!r}"
        )
    return int(array)


def _range(entry: slice | int, size: int, axis: int) -> range:
    if isinstance(entry, slice):
        return range(size)[entry]
    if not -size <= entry < size:
        raise OutOfRangeError(f"index {entry} is out of bounds for axis {axis} with size {size}")
    place = entry + (size if entry < 0 else 0)
    return range(place, place + 1)


def _with_arrays(entries: list[_Entry], shape: tuple[int, ...]) -> Selection:
    """Arrays and integers broadcast together, as in NumPy: compute what they touch, then pick."""
    needed: list[Positions] = []
    final: list[slice | Tensor] = []
    for axis, (entry, size) in enumerate(zip(entries, shape, strict=True)):
        if isinstance(entry, slice):
            needed.append(positions(entry, size, axis=f"axis {axis}"))
            final.append(slice(None))
            continue
        array = np.asarray(entry)
        if array.dtype == np.bool_ and array.ndim > 1:
            raise InputError(
                f"axis {axis}: truth values must be of one axis, got shape {array.shape}"
            )
        where = positions(array.ravel(), size, axis=f"axis {axis}")
        touched = distinct(as_tensor(where, torch.device("cpu")))
        needed.append(touched.values)
        is_mask = array.dtype == np.bool_
        final.append(touched.places if is_mask else touched.places.reshape(array.shape))
    final = _broadcast_integers(final)
    elements = int(np.prod([len(part) for part in needed]))
    if elements > INDEXED_ELEMENTS:
        raise InputError(
            f"these index arrays touch {elements:,} entries (at most {INDEXED_ELEMENTS:,} at once):"
            " ask for fewer at a time, or use rows() and tile()"
        )
    leading = tuple(Chosen(part, keep=True) for part in needed[:-2])
    rows, columns = needed[-2:]
    return Selection(leading, rows=rows, columns=columns, lazy=False, final=tuple(final))


def _broadcast_integers(final: list[slice | Tensor]) -> list[slice | Tensor]:
    """PyTorch takes a 0-d index out of the broadcast, NumPy does not: give it the others' shape."""
    arrays = [entry for entry in final if isinstance(entry, Tensor)]
    try:
        supply: Iterator[Tensor] = iter(_torch.broadcast_tensors(*arrays))
    except RuntimeError:
        shapes = ", ".join(str(tuple(array.shape)) for array in arrays)
        raise InputError(f"index arrays must broadcast together, got shapes {shapes}") from None
    return [next(supply) if isinstance(entry, Tensor) else entry for entry in final]
