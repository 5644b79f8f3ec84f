"""Keys and values are kept as numbers: what a backward pass through a cache is told."""

from typing import Any, Never, cast

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.errors import InputError

__all__ = ["kept", "without_backward"]


def kept(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """What a cache keeps of keys or values: not how they were made, which would grow with a text.

    Args:
        x: keys or values of a call.
    """
    # compiled, what refuses a backward pass cannot be in the graph, and so nothing is cut there
    return x.detach() if x.requires_grad and not torch.compiler.is_compiling() else x


def without_backward(
    x: Float[Tensor, "..."], *made_of: Float[Tensor, "..."]
) -> Float[Tensor, "..."]:
    """Give a tensor as it is, but refuse to send a gradient back through it.

    Args:
        x: the tensor, in which something made of others was kept as a number.
        made_of: the others.

    Returns:
        x itself where no gradient is asked for, else a view of it.
    """
    asked = torch.is_grad_enabled() and not torch.compiler.is_compiling()
    if not asked or not any(part.requires_grad for part in (x, *made_of)):
        return x
    return cast("Any", _Refusing).apply(x, *made_of)


class _Refusing(torch.autograd.Function):
    """The identity, until a gradient comes back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *made_of: Tensor) -> Tensor:
        del ctx, made_of
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Never:
        del ctx, gradients
        raise InputError(
            "backward: a cache keeps keys and values without their gradients, so nothing can be "
            "trained through it: call the model without cache="
        )
