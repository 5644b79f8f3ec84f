"""The product with a weight: the one place where rows meet the weights of a model.

A step of generation multiplies one row with every weight and does little else, so it takes as long
as the weights take to be read. PyTorch's product of one row lets one core read a weight; here each
core reads a part of it.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.native.library import function, unseen

__all__ = ["linear"]

#: A weight with fewer numbers is read before it could be shared out.
LEAST = 2**16
#: Parts a core, where PyTorch does it, so that none waits long for another.
PARTS = 2
_HAS_MKL = torch.backends.mkl.is_available()


def linear(
    x: Float[Tensor, "*batch d_in"],
    weight: Float[Tensor, "d_out d_in"],
    bias: Float[Tensor, "d_out"] | None = None,
) -> Float[Tensor, "*batch d_out"]:
    """``y = x Wᵀ + b``, where one row is multiplied with a part of W on each core.

    One row's sums are native where that can be: as accurate as PyTorch's, with other bits, which
    are the same for any number of threads. Several rows are PyTorch's.

    Args:
        x: rows.
        weight: W.
        bias: b, or None.

    Returns:
        y.

    Cost: d_in · d_out multiplications a row; for one row the time of reading W.
    """
    if not _is_one_row(x, weight, bias):
        return nn.functional.linear(x, weight, bias)
    native = function("linear", x.dtype)
    if native is not None:
        d_out, d_in = weight.shape
        x = x.contiguous()
        made = x.new_empty((1,) * (x.ndim - 1) + (d_out,))
        given = (weight.data_ptr(), x.data_ptr(), None if bias is None else bias.data_ptr())
        if native(*given, made.data_ptr(), d_out, d_in, torch.get_num_threads()) == 1:
            return made
    parts = PARTS * torch.get_num_threads()
    # in 16 bits PyTorch's product gains nothing
    if _HAS_MKL and len(weight) % parts == 0 and x.dtype in (torch.float32, torch.float64):
        made = _in_parts(x, weight, parts)
        return made if bias is None else made.add_(bias)
    return nn.functional.linear(x, weight, bias)


def _in_parts(x: Tensor, weight: Tensor, parts: int) -> Tensor:
    """The product of one row as a batch of products, each with some of the outputs."""
    d_out, d_in = weight.shape
    each = d_out // parts
    # one view each, where view, transpose and expand would cost as much as a small product
    pieces = weight.as_strided((parts, d_in, each), (each * d_in, 1, d_in))
    row = x.contiguous().as_strided((parts, 1, d_in), (0, d_in, 1))
    return torch.bmm(row, pieces).view(*x.shape[:-1], d_out)


def _is_one_row(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether this is a plain product of one row on a CPU, worth sharing out.

    Several rows would be quicker too, but are rounded otherwise by some sizes; a trace that makes O
    again would then not have the bits of the run.
    """
    if not unseen(x, weight, bias):
        return False
    width, dtype = x.shape[-1], x.dtype
    if not (x.numel() == width == weight.shape[1] and weight.dtype == dtype):
        return False
    if weight.numel() < LEAST or not weight.is_contiguous():
        return False
    return bias is None or (
        bias.dtype == dtype and bias.shape == weight.shape[:1] and bias.is_contiguous()
    )
