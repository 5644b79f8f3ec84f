"""How weights lie in memory, so that reading one token is as fast as the machine reads them.

A step of generation multiplies one row with every weight and does little else, so it takes as long
as the weights take to be read. PyTorch's product of one float32 row reads a weight that is wider
out than in nearly twice as fast where all its numbers for one input lie side by side. In 16 bits
the same order is many times slower, for one row and for many.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from clearhead.transformer.logits import Logits

__all__ = ["lay_out", "restore_layout"]


def lay_out(model: nn.Module) -> None:
    """Lay wide float32 weights on the CPU one input after the other; numbers and shapes stay.

    Args:
        model: the model.

    Cost: each of those weights is copied, one at a time.
    """
    for weight in _weights(model):
        if _fits(weight) and weight.shape[0] > weight.shape[1]:
            weight.data = weight.data.t().contiguous().t()


def restore_layout(model: nn.Module) -> None:
    """Lay weights as PyTorch does where they are no longer float32 on the CPU.

    Args:
        model: the model.
    """
    for weight in _weights(model):
        if not _fits(weight) and not weight.is_contiguous():
            weight.data = weight.data.contiguous()


def _weights(model: nn.Module) -> Iterator[Tensor]:
    """What rows are multiplied with, each (out, in)."""
    for module in model.modules():
        if isinstance(module, nn.Linear | Logits):
            yield module.weight


def _fits(weight: Tensor) -> bool:
    return weight.dtype == torch.float32 and weight.device.type == "cpu"
