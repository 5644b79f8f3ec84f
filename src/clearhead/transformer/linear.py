"""The product with a weight: the one place where rows meet the weights of a model.

A step of generation multiplies one row with every weight and does little else, so it takes as long
as the weights take to be read. PyTorch's product of one row lets one core read a weight; here each
core reads a part of it.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["Linear", "linear"]

#: A weight with fewer numbers is read before it could be shared out.
LEAST = 2**16
#: Parts a core, so that none waits long for another.
PARTS = 2
_WIDE = (torch.float32, torch.float64)
_HAS_MKL = torch.backends.mkl.is_available()


def linear(
    x: Float[Tensor, "*batch d_in"],
    weight: Float[Tensor, "d_out d_in"],
    bias: Float[Tensor, "d_out"] | None = None,
) -> Float[Tensor, "*batch d_out"]:
    """``y = x Wᵀ + b``, where one row is multiplied with a part of W on each core.

    Args:
        x: rows.
        weight: W.
        bias: b, or None.

    Returns:
        y.

    Cost: d_in · d_out multiplications a row; for one row the time of reading W.
    """
    if not _shared_out(x, weight):
        return nn.functional.linear(x, weight, bias)
    made = _in_parts(x, weight, PARTS * torch.get_num_threads())
    return made if bias is None else made.add_(bias)


def _in_parts(x: Tensor, weight: Tensor, parts: int) -> Tensor:
    """The product of one row as a batch of products, each with some of the outputs."""
    d_out, d_in = weight.shape
    each = d_out // parts
    # one view each, where view, transpose and expand would cost as much as a small product
    pieces = weight.as_strided((parts, d_in, each), (each * d_in, 1, d_in))
    row = x.contiguous().as_strided((parts, 1, d_in), (0, d_in, 1))
    return torch.bmm(row, pieces).view(*x.shape[:-1], d_out)


class Linear(nn.Linear):
    """``y = x Wᵀ + b``, W stored (out, in): PyTorch's own layer, with the product above."""

    def forward(self, input: Float[Tensor, "*batch d_in"]) -> Float[Tensor, "*batch d_out"]:  # noqa: A002  PyTorch's name for it
        """Multiply every row of x with the weight."""
        return linear(input, self.weight, self.bias)


def _shared_out(x: Tensor, weight: Tensor) -> bool:
    """Whether a product is quicker in parts, with the same bits: of one row, and not in 16 bits.

    Several rows would be quicker too, but are rounded otherwise by some sizes and with a bias; a
    trace that makes O again would then not have the bits of the run.
    """
    return (
        weight.dtype in _WIDE
        and _HAS_MKL
        and weight.numel() >= LEAST
        and x.numel() == x.shape[-1] == weight.shape[1]
        and x.dtype == weight.dtype
        and len(weight) % (PARTS * torch.get_num_threads()) == 0
        and weight.device.type == "cpu"
        and weight.is_contiguous()
        and type(x) is Tensor
        and type(weight) in (Tensor, nn.Parameter)
        and not (torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad))
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )
