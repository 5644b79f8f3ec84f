"""How a checkpoint lays our tensors out: alone, several in one, turned, or dealt out by heads.

A layout goes both ways, for what was read must be writable again. Torch is imported only where
tensors are laid out, so that a configuration can be read without it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Size, Tensor

__all__ = ["Alone", "ByHead", "Columns", "Layout", "OneRow", "Rows", "Side"]


@dataclass(frozen=True)
class Layout:
    """One tensor of a checkpoint and those of ours that it holds, one after the other.

    Attributes:
        ours: their modules or names.
        axis: along which they follow each other.
    """

    ours: tuple[str, ...]
    axis = 0

    def __init__(self, *ours: str) -> None:
        object.__setattr__(self, "ours", ours)

    def join(self, tensors: "Sequence[Tensor]", *, heads: int) -> "Tensor":
        """The checkpoint's tensor made of ours.

        Args:
            tensors: ours, in order.
            heads: query heads of the model.
        """
        import torch

        del heads
        return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors), self.axis)

    def split(self, tensor: "Tensor", shapes: "Sequence[Size]", *, heads: int) -> "list[Tensor]":
        """Ours out of the checkpoint's tensor; views of it where they can be.

        Args:
            tensor: the checkpoint's.
            shapes: ours, in order.
            heads: query heads of the model.
        """
        import torch

        del heads
        if len(shapes) == 1:
            return [tensor]
        return list(torch.split(tensor, [shape[self.axis] for shape in shapes], self.axis))

    def shape(self, shapes: "Sequence[Size]") -> "Size":
        """The shape of the checkpoint's tensor.

        Args:
            shapes: ours, in order.
        """
        import torch

        return self.join([torch.empty(shape, device="meta") for shape in shapes], heads=1).shape


class Alone(Layout):
    """A tensor as it is."""


class Rows(Layout):
    """Weights one below the other: their outputs side by side."""


class Side(Layout):
    """Weights of several experts side by side, along the last axis."""

    axis = -1


class Columns(Layout):
    """Weights stored as (in, out), where ours are (out, in); their outputs side by side."""

    def join(self, tensors: "Sequence[Tensor]", *, heads: int) -> "Tensor":
        """Turned; a bias has one axis and stays."""
        return _turned(super().join(tensors, heads=heads))

    def split(self, tensor: "Tensor", shapes: "Sequence[Size]", *, heads: int) -> "list[Tensor]":
        """Turned back."""
        return super().split(_turned(tensor), shapes, heads=heads)


class OneRow(Layout):
    """A vector stored as a matrix of one row."""

    def join(self, tensors: "Sequence[Tensor]", *, heads: int) -> "Tensor":
        """With an axis more."""
        return super().join(tensors, heads=heads)[None]

    def split(self, tensor: "Tensor", shapes: "Sequence[Size]", *, heads: int) -> "list[Tensor]":
        """Without it."""
        return super().split(tensor[0], shapes, heads=heads)


class ByHead(Layout):
    """Rows of W_Q, W_K and W_V dealt out head by head: q, k and v of head 0, then of head 1."""

    def join(self, tensors: "Sequence[Tensor]", *, heads: int) -> "Tensor":
        """Dealt out."""
        import torch

        parts = [tensor.reshape(heads, -1, *tensor.shape[1:]) for tensor in tensors]
        return torch.cat(parts, 1).flatten(0, 1)

    def split(self, tensor: "Tensor", shapes: "Sequence[Size]", *, heads: int) -> "list[Tensor]":
        """Gathered again."""
        import torch

        dealt = tensor.reshape(heads, -1, *tensor.shape[1:])
        parts = torch.split(dealt, [shape[0] // heads for shape in shapes], 1)
        return [part.flatten(0, 1) for part in parts]


def _turned(tensor: "Tensor") -> "Tensor":
    return tensor.mT if tensor.dim() > 1 else tensor
