"""NumPy's indexing, read as *which part must be computed* and *how to arrange it afterwards*."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clearhead.errors import InputError, OutOfRangeError
from clearhead.pipeline.rule import Positions

__all__ = ["Chosen", "Selection", "positions", "select"]

#: The most entries that an index of arrays may compute at once.
INDEXED_ELEMENTS = 2**26


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
    final: tuple[Any, ...]

    def finish(self, block: Tensor) -> Tensor:
        """Arrange the computed block as the index asked."""
        return block[self.final]


def positions(index: Any, size: int, *, axis: str) -> Positions:
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
        index = torch.arange(size)[0:0] if len(index) == 0 else list(index)
    array = np.atleast_1d(np.asarray(index.cpu() if isinstance(index, Tensor) else index))
    if array.size == 0:
        return range(0)
    if array.dtype == np.bool_ and array.shape == (size,):
        array = array.nonzero()[0]
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise InputError(
            f"{axis} must be a slice, a range or integers in one axis, got {array.dtype} of shape {array.shape}"
        )
    if array.min() < -size or array.max() >= size:
        raise OutOfRangeError(
            f"{axis} must lie in [{-size}, {size}), got {array.min()} to {array.max()}"
        )
    return torch.from_numpy(np.where(array < 0, array + size, array).astype(np.int64))


def select(index: Any, shape: tuple[int, ...]) -> Selection:
    """Take a NumPy index apart.

    Args:
        index: integers, slices, an Ellipsis, or integer and boolean arrays of one axis, in a tuple or not.
        shape: shape of the matrix; the last two axes are rows and columns.

    Returns:
        What to compute and how to arrange it.

    Raises:
        InputError: too many indices, a new axis, or arrays that would compute too much at once.
        OutOfRangeError: an integer lies outside its axis.
    """
    entries = _full(index, shape)
    if any(_is_array(entry) for entry in entries):
        return _with_arrays(entries, shape)
    ranges = [
        _range(entry, size, axis)
        for axis, (entry, size) in enumerate(zip(entries, shape, strict=True))
    ]
    kept = [isinstance(entry, slice) for entry in entries]
    leading = tuple(
        Chosen(positions(r, size, axis="the index"), keep)
        for r, size, keep in zip(ranges[:-2], shape, kept, strict=False)
    )
    whole = all(entry == slice(None) for entry in entries[-2:])
    final = tuple(slice(None) for keep in kept[:-2] if keep) + tuple(
        slice(None) if k else 0 for k in kept[-2:]
    )
    rows, columns = (
        positions(r, s, axis="the index") for r, s in zip(ranges[-2:], shape[-2:], strict=True)
    )
    return Selection(leading, rows, columns, whole, final)


def _full(index: Any, shape: tuple[int, ...]) -> list[Any]:
    entries = list(index) if isinstance(index, tuple) else [index]
    if any(entry is None for entry in entries):
        raise InputError("a new axis (None) cannot be added to a matrix that is never formed")
    dots = [place for place, entry in enumerate(entries) if entry is Ellipsis]
    if len(dots) > 1:
        raise InputError("an index can only have a single Ellipsis ('...')")
    given = len(entries) - len(dots)
    if given > len(shape):
        raise InputError(
            f"too many indices: the matrix has {len(shape)} axes, {given} were indexed"
        )
    at = dots[0] if dots else len(entries)
    return entries[:at] + [slice(None)] * (len(shape) - given) + entries[at + len(dots) :]


def _is_array(entry: Any) -> bool:
    return not isinstance(entry, slice) and np.ndim(entry) > 0


def _range(entry: Any, size: int, axis: int) -> range:
    if isinstance(entry, slice):
        return range(size)[entry]
    place = int(entry)
    if not -size <= place < size:
        raise OutOfRangeError(f"index {place} is out of bounds for axis {axis} with size {size}")
    place += size if place < 0 else 0
    return range(place, place + 1)


def _with_arrays(entries: list[Any], shape: tuple[int, ...]) -> Selection:
    """Arrays are broadcast together, integers among them, as NumPy does: compute what they touch, then pick."""
    needed: list[Positions] = []
    final: list[Any] = []
    for axis, (entry, size) in enumerate(zip(entries, shape, strict=True)):
        if isinstance(entry, slice):
            needed.append(positions(entry, size, axis=f"axis {axis}"))
            final.append(slice(None))
            continue
        where = positions(np.ravel(np.asarray(entry)), size, axis=f"axis {axis}")
        where = torch.arange(where.start, where.stop) if isinstance(where, range) else where
        unique, inverse = where.unique(return_inverse=True)
        needed.append(unique)
        final.append(
            inverse.reshape(np.shape(entry)) if np.asarray(entry).dtype != np.bool_ else inverse
        )
    final = _broadcast_integers(final)
    elements = int(np.prod([len(part) for part in needed]))
    if elements > INDEXED_ELEMENTS:
        raise InputError(
            f"these index arrays touch {elements:,} entries (at most {INDEXED_ELEMENTS:,} at once): "
            "ask for fewer at a time, or use rows() and tile()"
        )
    leading = tuple(Chosen(part, keep=True) for part in needed[:-2])
    return Selection(leading, needed[-2], needed[-1], False, tuple(final))


def _broadcast_integers(final: list[Any]) -> list[Any]:
    """PyTorch takes a 0-d index out of the broadcast, NumPy does not: give it the others' shape."""
    arrays = torch.broadcast_tensors(*[entry for entry in final if isinstance(entry, Tensor)])
    supply = iter(arrays)
    return [next(supply) if isinstance(entry, Tensor) else entry for entry in final]
