"""Arrays on their way into a page: packed for a browser, or as plain lists for JSON."""

import base64
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "ArrayType", "listed", "packed"]

ArrayType = Literal["f32", "u32", "u16", "u8"]

#: Little-endian, as every browser's machine is.
_TYPES: dict[ArrayType, str] = {"f32": "<f4", "u32": "<u4", "u16": "<u2", "u8": "|u1"}


@dataclass(frozen=True, eq=False)
class Array:
    """Numbers of one type.

    Attributes:
        values: the numbers.
        type: how they are stored: ``"f32"``, ``"u32"``, ``"u16"`` or ``"u8"``.
    """

    values: npt.NDArray[Any]
    type: ArrayType

    @classmethod
    def of(cls, values: npt.ArrayLike, kind: ArrayType) -> "Array":
        """Store numbers as a type that holds them.

        Args:
            values: the numbers.
            kind: the type.
        """
        return cls(np.ascontiguousarray(values, dtype=_TYPES[kind]), kind)

    @cached_property
    def data(self) -> str:
        """The numbers as text that a browser unpacks quickly: base64 of zlib of their bytes.

        All first bytes of all numbers stand before all second bytes, and so on: neighbours are then
        alike, and compress. No number is changed.
        """
        plain = self.values.reshape(-1).view(np.uint8).reshape(-1, self.values.itemsize)
        return base64.b64encode(zlib.compress(np.ascontiguousarray(plain.T).tobytes(), 6)).decode(
            "ascii"
        )

    def packed(self) -> dict[str, object]:
        """``type``, ``shape`` and ``data``: what a page holds of the array."""
        return {"type": self.type, "shape": list(self.values.shape), "data": self.data}

    def listed(self) -> list[Any]:
        """The array as nested lists; what is no number (NaN, ±∞) is None."""
        if self.type != "f32":
            return self.values.tolist()
        # the shortest decimals that give the same float32 again
        short = [_shortest(number) for number in self.values.reshape(-1)]
        return np.array(short, dtype=object).reshape(self.values.shape).tolist()


def packed(tree: object) -> Any:
    """Pack every array in a tree of dicts and lists.

    Args:
        tree: the tree.
    """
    return _walked(tree, Array.packed)


def listed(tree: object) -> Any:
    """Make lists of every array in a tree of dicts and lists.

    Args:
        tree: the tree.
    """
    return _walked(tree, Array.listed)


def _walked(tree: object, made: Callable[[Array], object]) -> Any:
    if isinstance(tree, Array):
        return made(tree)
    if isinstance(tree, dict):
        entries = cast("dict[str, object]", tree)
        return {name: _walked(entry, made) for name, entry in entries.items()}
    if isinstance(tree, list | tuple):
        return [_walked(entry, made) for entry in cast("list[object]", tree)]
    return tree


def _shortest(number: np.float32) -> float | None:
    return float(str(number)) if math.isfinite(number) else None
