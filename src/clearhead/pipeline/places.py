"""Rows and columns of a call: a run of them, or a tensor of indices."""

import torch
from jaxtyping import Int
from torch import Tensor

__all__ = ["Positions", "as_index", "as_tensor", "take"]

Positions = range | Tensor


def as_index(positions: Positions, device: torch.device) -> Positions:
    """Positions on a device; a run stays one on the CPU."""
    kept = isinstance(positions, range) and device.type == "cpu"
    return positions if kept else as_tensor(positions, device)


def as_tensor(positions: Positions, device: torch.device) -> Int[Tensor, "*batch count"]:
    """Positions as a tensor of indices on a device."""
    if isinstance(positions, range):
        return torch.arange(positions.start, positions.stop, positions.step, device=device)
    return positions.to(device)


def take(tensor: Tensor, where: Positions, *, axis: int) -> Tensor:
    """Some places along one axis: a view for a run, else a copy."""
    if isinstance(where, range) and where.step == 1:
        return tensor.narrow(axis, where.start, len(where))
    return tensor.index_select(axis, as_tensor(where, tensor.device))
