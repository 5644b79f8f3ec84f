"""The product with a weight: the one place where rows meet the weights of a model.

A step of generation multiplies one row, or a few, with every weight and does little else, so it
takes as long as the weights take to be read. PyTorch's product of few rows lets one core read a
weight; here each core reads a part of it.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["Linear", "linear"]

#: So many rows are few: with more of them, PyTorch's own product keeps every core busy.
FEW = 64
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
    """``y = x Wᵀ + b``, where few rows are multiplied with a part of W on each core.

    Args:
        x: rows.
        weight: W.
        bias: b, or None.

    Returns:
        y.

    Cost: d_in · d_out multiplications a row; for few rows the time of reading W.
    """
    if not _shared_out(x, weight):
        return nn.functional.linear(x, weight, bias)
    d_out, d_in = weight.shape
    rows = x.numel() // d_in
    parts = PARTS * torch.get_num_threads()
    if d_out % parts:
        whole = d_out - d_out % parts
        rest = nn.functional.linear(x, weight[whole:])
        y = torch.cat((_in_parts(x, weight[:whole], rows, parts), rest), dim=-1)
    else:
        y = _in_parts(x, weight, rows, parts)
    return y if bias is None else y.add_(bias)


def _in_parts(x: Tensor, weight: Tensor, rows: int, parts: int) -> Tensor:
    """The product as a batch of products, each of all rows with some of the outputs."""
    d_out, d_in = weight.shape
    each = d_out // parts
    # one view each, where view, transpose and expand would cost as much as a small product
    pieces = weight.as_strided((parts, d_in, each), (each * d_in, 1, d_in))
    few = x.contiguous().as_strided((parts, rows, d_in), (0, d_in, 1))
    made = torch.bmm(few, pieces)
    if rows > 1:
        made = made.transpose(0, 1).reshape(rows, d_out)
    return made.view(*x.shape[:-1], d_out)


class Linear(nn.Linear):
    """``y = x Wᵀ + b``, W stored (out, in): PyTorch's own layer, with the product above."""

    def forward(self, input: Float[Tensor, "*batch d_in"]) -> Float[Tensor, "*batch d_out"]:  # noqa: A002  PyTorch's name for it
        """Multiply every row of x with the weight."""
        return linear(input, self.weight, self.bias)


def _shared_out(x: Tensor, weight: Tensor) -> bool:
    """Whether a product is quicker in parts: one of few rows is, with MKL, but not in 16 bits."""
    return (
        weight.dtype in _WIDE
        and _HAS_MKL
        and weight.numel() >= LEAST
        and 0 < x.numel() <= FEW * weight.shape[1]
        and weight.device.type == "cpu"
        and weight.is_contiguous()
        and not (torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad))
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )
