"""The layer that multiplies every row with a weight."""

from jaxtyping import Float
from torch import Tensor, nn

from clearhead.native.linear import linear

__all__ = ["Linear"]


class Linear(nn.Linear):
    """``y = x Wᵀ + b``, W stored (out, in): PyTorch's own layer, with our product of one row."""

    def forward(self, input: Float[Tensor, "*batch d_in"]) -> Float[Tensor, "*batch d_out"]:  # noqa: A002  PyTorch's name for it
        """Multiply every row of x with the weight."""
        return linear(input, self.weight, self.bias)
