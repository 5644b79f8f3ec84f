"""Blocks that keep nothing of n×m for the way back, and are computed again there."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import torch
import torch.utils.checkpoint
from torch import Tensor

from clearhead.pipeline.rule import BoundRule
from clearhead.positions.position_bias import PositionBias

__all__ = ["recomputing"]

_Made = TypeVar("_Made")
_checkpoint = cast("Any", torch.utils.checkpoint).checkpoint  # it says little of its type


def recomputing(
    block: Callable[..., _Made], *inputs: Tensor, rule: BoundRule
) -> Callable[..., _Made]:
    """The block, or where it is learned through, one that runs again on the way back.

    Args:
        block: computes a few rows; nothing of n×m is kept of it.
        inputs: the tensors it reads, but for the rule's.
        rule: the bound rule, whose bias may be learned.
    """
    if torch.is_grad_enabled() and any(t.requires_grad for t in _inputs(rule, *inputs)):
        return partial(_again, block)
    return block


def _again(block: Callable[..., object], *given: Any) -> Any:
    made: Any = _checkpoint(block, *given, use_reentrant=False)
    single = isinstance(made, Tensor) or torch.compiler.is_compiling()
    return made if single else cast("Any", _Together).apply(*made)


class _Together(torch.autograd.Function):
    """Several results as they are, which always go back together.

    What a block recomputes stays in memory until it is asked for: if only C were asked for a
    gradient, all that belongs to L would stay, block after block.
    """

    @staticmethod
    def forward(ctx: Any, *made: Tensor) -> tuple[Tensor, ...]:
        """Pass on."""
        del ctx
        return tuple(tensor.view_as(tensor) for tensor in made)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Pass back, with zeros for what nobody used."""
        del ctx
        return grad_outputs


def _inputs(rule: BoundRule, *tensors: Tensor) -> list[Tensor | PositionBias]:
    return [*tensors, *([] if rule.bias is None else [rule.bias])]
