"""Padded batches."""

import torch
from torch import Tensor

__all__ = ["padded", "positions"]


def padded(generator, *, side: str) -> tuple[Tensor, Tensor]:
    """Three rows of 11 tokens, two of them with padding."""
    ids = torch.randint(3, 99, (3, 11), generator=generator)
    real = torch.ones_like(ids)
    for row, pads in ((1, 3), (2, 8)):
        real[row, slice(0, pads) if side == "left" else slice(11 - pads, 11)] = 0
    return ids, real


def positions(real: Tensor) -> Tensor:
    return (real.cumsum(-1) - 1).clamp(min=0)
