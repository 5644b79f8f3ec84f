"""The way back through one block of a kernel: gradients of C and of L, and of the bias."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.pipeline.mending import all_finite, block_rule, touched_rows, wild_keys

__all__ = ["Gradients", "Served", "bias_gradient", "gradients", "spread"]

#: Of Q, K and V.
Gradients = tuple[Tensor, Tensor, Tensor]

# neither operators nor what makes operators say anything of their types
_aten, _library = cast("Any", torch.ops.aten), cast("Any", torch.library)
_backward: Callable[..., Gradients] = (
    _aten._scaled_dot_product_flash_attention_for_cpu_backward.default  # noqa: SLF001  private there
)


@dataclass(frozen=True, eq=False, slots=True)
class Served:
    """One block as it went forward: what the kernel was given, and what it gave.

    Attributes:
        query: Q of the block.
        key: K of the block.
        value: V of the block, as wide as Q.
        bias: what was added to the scores.
        context: C.
        logsumexp: L.
        causal: row i saw columns 0 to i.
        scale: factor on Q Kᵀ.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor | None
    context: Tensor
    logsumexp: Tensor
    causal: bool
    scale: float


def spread(
    bias: Float[Tensor, "#batch #heads #r c"] | None, query: Tensor, key: Tensor
) -> Float[Tensor, "#batch #heads r c"] | None:
    """The bias spread over rows and columns without copying: the operator wants both whole."""
    if bias is None:
        return None
    return bias.expand(bias.shape[0], bias.shape[1], query.shape[2], key.shape[2])


def gradients(
    block: Served,
    d_context: Float[Tensor, "batch heads r d"] | None,
    d_logsumexp: Float[Tensor, "batch heads r"] | None,
) -> Gradients:
    """Gradients of Q, K and V from those of C and L.

    ``dS = A ⊙ (dC·Vᵀ − D)`` with ``D = rowsum(dC ⊙ C) − dL``. The operator makes D itself from dC
    and C, so dL rides in on one more column: zero in V, dL in dC and −1 in C.

    Args:
        block: what went forward.
        d_context: dC; None where C was not used.
        d_logsumexp: dL; None where L was not used.

    Returns:
        dQ, dK and dV. Where C or L of a row that saw NaN or Inf is asked for a gradient, that row
        of dQ is NaN; it adds nothing to dK and dV, which are those of the other rows.

    Source: Dao 2023, "FlashAttention-2", section 3.1, for dS and D.
    """
    return _flash_backward(
        block.query,
        block.key,
        block.value,
        block.bias,
        block.context,
        block.logsumexp,
        torch.zeros_like(block.context) if d_context is None else d_context,
        d_logsumexp,
        causal=block.causal,
        scale=block.scale,
    )


@_library.custom_op("clearhead::flash_backward", mutates_args=())
def _flash_backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    context: Tensor,
    logsumexp: Tensor,
    d_context: Tensor,
    d_logsumexp: Tensor | None,
    *,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    block = Served(query, key, value, bias, context, logsumexp, causal, scale)
    # K meets Q on the way back, and V meets dC
    wild = wild_keys(query, key, value) | wild_keys(d_context, value, value)
    if all_finite(context, logsumexp) and not bool(wild.any()):
        return _backward_with_level(block, d_context, d_logsumexp)
    if not bool(d_context.any()):
        # L alone asks nothing of V
        value, context = torch.zeros_like(value), torch.zeros_like(context)
        block = replace(block, value=value, context=context)
        wild = wild_keys(query, key, value)
    # as in the forward: blank what could poison, let nothing back through the rows that see it
    rule = block_rule(query, key, bias=bias, causal=causal, scale=scale)
    blank = wild.unsqueeze(-1)
    rows = touched_rows(query, wild, rule=rule, rows=range(rule.queries))
    touched = rows.unsqueeze(-1)
    calm = replace(
        block,
        query=query.masked_fill(touched, 0.0),
        key=key.masked_fill(blank, 0.0),
        value=value.masked_fill(blank, 0.0),
        context=context.masked_fill(touched, 0.0),
        logsumexp=logsumexp.masked_fill(rows, 0.0),
    )
    d_level = None if d_logsumexp is None else d_logsumexp.masked_fill(rows, 0.0)
    d_query, d_key, d_value = _backward_with_level(
        calm, d_context.masked_fill(touched, 0.0), d_level
    )
    asked = (d_context != 0).any(-1, keepdim=True)
    if d_logsumexp is not None:
        asked = asked | (d_logsumexp != 0).unsqueeze(-1)
    return d_query.masked_fill(touched & asked, torch.nan), d_key, d_value


@_flash_backward.register_fake
def _flash_backward_shapes(
    query: Tensor, key: Tensor, value: Tensor, *others: Tensor | None, causal: bool, scale: float
) -> Gradients:
    del others, causal, scale
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _backward_with_level(block: Served, d_context: Tensor, d_logsumexp: Tensor | None) -> Gradients:
    width = block.query.shape[-1]
    tensors = [d_context, block.query, block.key, block.value, block.context]
    if d_logsumexp is not None:
        extra = d_logsumexp.to(block.query.dtype).unsqueeze(-1)
        tails = (extra, None, None, None, -torch.ones_like(extra))
        tensors = [_one_wider(t, tail) for t, tail in zip(tensors, tails, strict=True)]
    # rounded before it is spread: rounding would write the spread one out
    bias = None if block.bias is None else block.bias.to(block.query.dtype)
    # the operator wants L laid out as its forward left it: rows before heads
    level = block.logsumexp.transpose(1, 2).contiguous().transpose(1, 2)
    d_query, d_key, d_value = _backward(
        *(t.contiguous() for t in tensors),
        level,
        0.0,
        block.causal,
        attn_mask=spread(bias, block.query, block.key),
        scale=block.scale,
    )
    return (
        d_query[..., :width].contiguous(),
        d_key[..., :width].contiguous(),
        d_value[..., :width].contiguous(),
    )


def _one_wider(tensor: Tensor, tail: Tensor | None) -> Tensor:
    if tail is None:
        tail = torch.zeros_like(tensor[..., :1])
    return torch.cat([tensor, tail], dim=-1)


def bias_gradient(
    block: Served,
    d_context: Float[Tensor, "batch heads r d"] | None,
    d_logsumexp: Float[Tensor, "batch heads r"] | None,
) -> Float[Tensor, "#batch #heads #r c"]:
    """Gradient of the bias: dS summed to the bias's shape.

    Args:
        block: what went forward; it had a bias.
        d_context: dC; None where C was not used.
        d_logsumexp: dL; None where L was not used.

    Returns:
        The gradient, shaped like the bias.

    Cost: r · c numbers a head: of one block of rows, so it is small.
    """
    assert block.bias is not None
    d_context = torch.zeros_like(block.context) if d_context is None else d_context
    wide = block.logsumexp.dtype
    group = block.query.shape[1] // block.key.shape[1]
    with torch.autocast(block.query.device.type, enabled=False):
        key, value = (t.to(wide).repeat_interleave(group, 1) for t in (block.key, block.value))
        scores = block.query.to(wide) @ key.mT * block.scale + block.bias
        weights = torch.exp(scores - block.logsumexp.unsqueeze(-1))
        level = (d_context.to(wide) * block.context.to(wide)).sum(-1)
        if d_logsumexp is not None:
            level = level - d_logsumexp
        d_scores = weights * (d_context.to(wide) @ value.mT - level.unsqueeze(-1))
        # a key that a row does not see sends it nothing, whatever it holds
        d_scores = d_scores.masked_fill(torch.isneginf(block.bias), 0.0)
    return d_scores.sum_to_size(block.bias.shape).to(block.bias.dtype)
