"""Random calls of attention, and the masks that the laws are tried with."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from clearhead.masks import (
    Mask,
    causal_mask,
    chunked_mask,
    document_mask,
    padding_mask,
    prefix_lm_mask,
    sliding_window_mask,
)
from clearhead.positions.bias import T5RelativeBias

__all__ = ["MASKS", "Drawn", "draw", "laid_out", "t5_bias", "with_entry"]


@dataclass(frozen=True, eq=False)
class Drawn:
    """Q, K and V of one call."""

    query: Tensor
    key: Tensor
    value: Tensor

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """In the order in which attention takes them."""
        return self.query, self.key, self.value

    @property
    def double(self) -> tuple[Tensor, Tensor, Tensor]:
        """The same rounded numbers in float64."""
        return self.query.double(), self.key.double(), self.value.double()

    def leaves(self) -> "Drawn":
        """Copies that ask for a gradient."""
        return Drawn(*(tensor.clone().requires_grad_() for tensor in self.tensors))


def draw(
    generator: torch.Generator,
    *,
    batch: int = 2,
    heads: int = 4,
    kv_heads: int = 2,
    n: int = 6,
    m: int | None = None,
    d_k: int = 8,
    d_v: int = 8,
    dtype: torch.dtype = torch.float32,
) -> Drawn:
    """Draw Q, K and V from a normal distribution."""
    m = n if m is None else m
    shapes = ((batch, heads, n, d_k), (batch, kv_heads, m, d_k), (batch, kv_heads, m, d_v))
    return Drawn(*(torch.randn(shape, generator=generator).to(dtype) for shape in shapes))


def with_entry(call: Drawn, name: str, where: tuple[int, ...], value: float) -> Drawn:
    """The same call with one number of Q, K or V replaced."""
    tensor = getattr(call, name).clone()
    tensor[where] = value
    return replace(call, **{name: tensor})


def laid_out(tensor: Tensor, strides: str) -> Tensor:
    """The same numbers (for ``expanded``: one batch row of them, for all) laid out otherwise."""
    if strides == "transposed":  # as a projection leaves them: positions before heads
        return tensor.transpose(1, 2).contiguous().transpose(1, 2)
    if strides == "inner":  # neighbours in the last axis lie apart
        return tensor.mT.contiguous().mT
    if strides == "every second":
        spread = torch.full((*tensor.shape[:-1], 2 * tensor.shape[-1]), 7.0, dtype=tensor.dtype)
        spread[..., ::2] = tensor
        return spread[..., ::2]
    if strides == "expanded":
        return tensor[:1].expand(tensor.shape)
    return tensor.contiguous()


def t5_bias(weight: Tensor, *, max_distance: int = 40, **options: bool) -> T5RelativeBias:
    """T5's bias with a given table, which may be a leaf of its own or made from one."""
    buckets, heads = weight.shape
    bias = T5RelativeBias(heads, buckets=buckets, max_distance=max_distance, **options)
    del bias.weight
    bias.weight = weight
    return bias


def _left_padded(m: int) -> Mask:
    """The first batch row whole, the second with a third of its keys padded on the left."""
    keep = torch.ones(2, m, dtype=torch.bool)
    keep[1, : m // 3] = False
    return padding_mask(keep)


def _documents(m: int) -> Mask:
    """Documents of five positions, the last ones packed with padding between."""
    ids = torch.arange(m) // 5
    ids[m // 2 : m // 2 + 2] = -1
    return document_mask(ids)


def _written_out(m: int) -> Mask:
    pattern = torch.Generator().manual_seed(m)
    allowed = torch.rand(2, 4, m, m, generator=pattern) < 0.5
    allowed[0, 1, m // 2] = False
    return Mask.from_tensor(allowed)


def _tree(m: int) -> Mask:
    return (causal_mask() & _left_padded(m)) | ~sliding_window_mask(m // 2 + 1)


#: One mask of every kind for n = m queries and keys, two batch rows and four heads.
MASKS: dict[str, Callable[[int], Mask | None]] = {
    "none": lambda _m: None,
    "causal": lambda _m: causal_mask(),
    "window": lambda _m: causal_mask() & sliding_window_mask(4),
    "padding": _left_padded,
    "causal and padding": lambda m: causal_mask() & _left_padded(m),
    "document": _documents,
    "prefix": lambda m: prefix_lm_mask(torch.tensor([0, m // 3])),
    "chunk": lambda _m: chunked_mask(4, start=torch.tensor([0, 2])),
    "tree": _tree,
    "tensor": _written_out,
    "mask_mod": lambda _m: Mask.from_mask_mod(lambda b, h, i, j: (3 * i + j + h + b) % 4 != 0),
}
