"""A product on whose way back a factor of exactly 0 leaves out what it meets, NaN included.

A score that is masked has a gradient of exactly 0, and 0 · NaN is NaN: one broken key would spoil
the gradients of rows that may not see it.
"""

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["learned_beside_broken", "skipping_product"]


def learned_beside_broken(left: Tensor, right: Tensor) -> bool:
    """Whether a gradient will come back through this product to numbers that are none."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return False
    if not (left.requires_grad or right.requires_grad):
        return False
    return not bool(torch.isfinite(left).all() & torch.isfinite(right).all())


def skipping_product(
    left: Float[Tensor, "*lead r d"], right: Float[Tensor, "*lead c d"]
) -> Float[Tensor, "*lead r c"]:
    """Left · rightᵀ; backwards ``dleft[i] = Σⱼ d[i, j] · right[j]`` over the j with d[i, j] ≠ 0."""
    return cast("Any", _Skipping).apply(left, right)


class _Skipping(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        """Multiply."""
        ctx.save_for_backward(left, right)
        return left @ right.mT

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, Tensor]:
        """Multiply by what is met."""
        (products,) = grad_outputs
        left, right = ctx.saved_tensors
        return _met(products, right), _met(products.mT, left)


def _met(factors: Tensor, rows: Tensor) -> Tensor:
    broken = ~torch.isfinite(rows).all(-1)
    clean = factors @ rows.masked_fill(broken.unsqueeze(-1), 0.0)
    met = ((factors != 0) & broken.unsqueeze(-2)).any(-1, keepdim=True)
    return clean.masked_fill(met, torch.nan)
