"""Norms: every token's vector brought to one size."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.native.library import unseen
from clearhead.native.norm import rms_norm
from clearhead.transformer.config import TransformerConfig

__all__ = ["RMSNorm", "make_norm"]


class RMSNorm(nn.Module):
    """Brings every token's vector to root mean square 1, then scales each of its numbers.

    ``y = (w + offset) · x / √(mean(x²) + ε)``

    x and y are (…, width), w is (width,). The root is taken in float32 whatever the dtype of x,
    float64 included, for so the released models were defined; with an offset the product with w is
    too.

    Args:
        width: width of a vector.
        epsilon: ε, which keeps a vector of zeros finite.
        offset: added to w.
        learned: whether there is a w at all.

    Source: Zhang and Sennrich 2019, "Root Mean Square Layer Normalization", equation 4.
    """

    def __init__(
        self, width: int, *, epsilon: float, offset: float = 0.0, learned: bool = True
    ) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.offset = offset
        self.weight = nn.Parameter(torch.full((width,), 1.0 - offset)) if learned else None

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Normalise each vector of x."""
        weight, rounds = self.weight, x.dtype != torch.float32 and not self.offset
        native = rms_norm(x, weight, epsilon=self.epsilon, offset=self.offset, rounds=rounds)
        if native is not None:
            return native
        if weight is None or rounds:
            # in other dtypes the released models round before the product with w
            unit = self._normed(x, None).to(x.dtype)
            return unit if weight is None else weight * unit
        weight = weight.float()
        return self._normed(x, self.offset + weight if self.offset else weight).to(x.dtype)

    def _normed(self, x: Tensor, weight: Tensor | None) -> Tensor:
        # on a CPU PyTorch's own function makes these steps, with the same bits, and takes longer
        wide = x.float()
        unit = wide * (wide * wide).mean(-1, keepdim=True).add_(self.epsilon).rsqrt_()
        if weight is None:
            return unit
        return unit.mul_(weight) if unseen(x, weight) else unit * weight


def make_norm(config: TransformerConfig, width: int | None = None) -> nn.Module:
    """The norm a configuration names.

    Args:
        config: the configuration.
        width: width of a vector; None is d_model.
    """
    width = config.d_model if width is None else width
    if config.norm == "layer":
        return nn.LayerNorm(width, eps=config.norm_epsilon)
    return RMSNorm(width, epsilon=config.norm_epsilon, offset=config.norm_offset)
