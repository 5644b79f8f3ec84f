"""PyTorch's fused kernels, called so that they also give L, and taught the gradient of L.

On the CPU one private operator returns C and L. It is wrapped as an operator of our own, because
its L carries no gradient: a row differentiated through it would be silently wrong. Elsewhere the
public function gives C, and the caller makes L from tiles.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypedDict, cast

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.masks import causal_mask
from clearhead.pipeline.mending import all_finite, mended, touched_rows, wild_keys
from clearhead.pipeline.rule import BoundRule
from clearhead.pipeline.tiles import logsumexp_tiles

__all__ = ["block_rule", "gives_logsumexp", "kernel", "kernel_without_logsumexp"]

_Gradients = tuple[Tensor, Tensor, Tensor]

# neither operators nor what makes operators say anything of their types
_aten, _library = cast("Any", torch.ops.aten), cast("Any", torch.library)
_forward: Callable[..., tuple[Tensor, Tensor]] = (
    _aten._scaled_dot_product_flash_attention_for_cpu.default
)
_backward: Callable[..., _Gradients] = (
    _aten._scaled_dot_product_flash_attention_for_cpu_backward.default
)


@dataclass(frozen=True, eq=False, slots=True)
class _Served:
    """One block as it went forward: what the kernel was given, and what it gave."""

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor | None
    context: Tensor
    logsumexp: Tensor
    causal: bool
    scale: float


class _Told(TypedDict):
    causal: bool
    scale: float


class _Kept(Protocol):
    """What autograd keeps of one forward call."""

    saved_tensors: tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor, Tensor]
    told: _Told
    bias_needed: bool

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...


def gives_logsumexp(device: torch.device) -> bool:
    """Whether this device has a kernel here that returns L beside C."""
    return device.type == "cpu"


def kernel(
    query: Float[Tensor, "batch heads r d"],
    key: Float[Tensor, "batch kv_heads c d"],
    value: Float[Tensor, "batch kv_heads c d"],
    *,
    bias: Float[Tensor, "#batch #heads #r c"] | None,
    causal: bool,
    scale: float,
) -> tuple[Float[Tensor, "batch heads r d"], Float[Tensor, "batch heads r"]]:
    """C and L of one block by the CPU's kernel; every size must be at least 1.

    Args:
        query: Q of the block.
        key: K of the block.
        value: V of the block, as wide as Q.
        bias: added to the scores, in float32 (float64 for float64); −inf masks.
        causal: row i sees columns 0 to i.
        scale: factor on Q Kᵀ.

    Returns:
        C and L (float32, or float64), both differentiable.
    """
    # the CPU operator reads a strided last axis as if it were dense, and gives wrong numbers
    query, key, value = (t if t.stride(-1) == 1 else t.contiguous() for t in (query, key, value))
    if torch.compiler.is_compiling() or _needs_gradient(query, key, value, bias):
        return _flash(query, key, value, bias, causal=causal, scale=scale)
    return _serve(query, key, value, bias, causal=causal, scale=scale)


def block_rule(
    query: Tensor, key: Tensor, *, bias: Tensor | None, causal: bool, scale: float
) -> BoundRule:
    """What one block's kernel was told, as a rule: tiles and mending know what each row sees."""
    mask = causal_mask() if causal else None
    return BoundRule(scale, None, bias, mask, None, query.shape[2], key.shape[2], 0, 0)


def _serve(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    def run(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return _forward(q, k, v, 0.0, causal, attn_mask=_four_axes(bias, q, k), scale=scale)

    rule = block_rule(query, key, bias=bias, causal=causal, scale=scale)
    return mended(query, key, value, run=run, rule=rule)


def _needs_gradient(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def _four_axes(bias: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """The bias spread over rows and columns without copying: the operator wants both whole."""
    if bias is None:
        return None
    return bias.expand(bias.shape[0], bias.shape[1], query.shape[2], key.shape[2])


@_library.custom_op("clearhead::flash", mutates_args=())
def _flash(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    context, logsumexp = _serve(query, key, value, bias, causal=causal, scale=scale)
    return context.contiguous(), logsumexp.contiguous()


@_flash.register_fake
def _flash_shapes(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    context = query.new_empty(query.shape)
    return context, query.new_empty(query.shape[:-1], dtype=wide)


def _keep(
    ctx: _Kept,
    inputs: tuple[Tensor, Tensor, Tensor, Tensor | None],
    keyword_only_inputs: _Told,
    output: tuple[Tensor, Tensor],
) -> None:
    bias = inputs[3]
    ctx.save_for_backward(*inputs, *output)
    ctx.told = keyword_only_inputs
    ctx.bias_needed = bias is not None and bias.requires_grad


def _gradients(
    ctx: _Kept, d_context: Tensor, d_logsumexp: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of C and of L together.

    ``dS = A ⊙ (dC·Vᵀ − D)`` with ``D = rowsum(dC ⊙ C) − dL``. The operator makes D itself from dC
    and C, so dL rides in on one more column: zero in V, dL in dC and −1 in C.
    """
    saved = ctx.saved_tensors
    gradients: _Gradients = _flash_backward(*saved, d_context, d_logsumexp, **ctx.told)
    if not ctx.bias_needed:
        return *gradients, None
    return *gradients, _bias_gradient(_Served(*saved, **ctx.told), d_context, d_logsumexp)


_flash.register_autograd(_gradients, setup_context=_keep)


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
    block = _Served(query, key, value, bias, context, logsumexp, causal, scale)
    wild = wild_keys(query, key, value)
    if all_finite(context, logsumexp) and not bool(wild.any()):
        return _backward_with_level(block, d_context, d_logsumexp)
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
    return d_query.masked_fill(touched & asked, torch.nan), d_key, d_value


@_flash_backward.register_fake
def _flash_backward_shapes(
    query: Tensor, key: Tensor, value: Tensor, *others: Tensor | None, causal: bool, scale: float
) -> _Gradients:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _backward_with_level(
    block: _Served, d_context: Tensor, d_logsumexp: Tensor | None
) -> _Gradients:
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
        attn_mask=_four_axes(bias, block.query, block.key),
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


def _bias_gradient(block: _Served, d_context: Tensor, d_logsumexp: Tensor | None) -> Tensor:
    """dS summed to the bias's shape: one block of rows, so its n×m is small."""
    assert block.bias is not None
    wide = block.logsumexp.dtype
    group = block.query.shape[1] // block.key.shape[1]
    keys, values = (t.to(wide).repeat_interleave(group, dim=1) for t in (block.key, block.value))
    scores = block.query.to(wide) @ keys.mT * block.scale + block.bias
    weights = torch.exp(scores - block.logsumexp.unsqueeze(-1))
    level = (d_context.to(wide) * block.context.to(wide)).sum(-1)
    if d_logsumexp is not None:
        level = level - d_logsumexp
    d_scores = weights * (d_context.to(wide) @ values.mT - level.unsqueeze(-1))
    return d_scores.sum_to_size(block.bias.shape).to(block.bias.dtype)


def kernel_without_logsumexp(
    query: Float[Tensor, "batch heads r d"],
    key: Float[Tensor, "batch kv_heads c d"],
    value: Float[Tensor, "batch kv_heads c d"],
    *,
    bias: Float[Tensor, "#batch #heads #r c"] | None,
    causal: bool,
    scale: float,
) -> tuple[Float[Tensor, "batch heads r d"], Float[Tensor, "batch heads r"]]:
    """C of one block by PyTorch's public function and L by tiles, for devices whose kernels keep L.

    Arguments and results as :func:`kernel`. A row that sees nothing is let see everything, since
    what it gets is overwritten by the caller and a kernel's NaN would come back through the
    gradient.
    """
    rule = block_rule(query, key, bias=bias, causal=causal, scale=scale)
    if bias is not None:
        nothing = torch.isneginf(bias).all(-1, keepdim=True)
        bias = bias.masked_fill(nothing, 0.0).to(query.dtype)
    context = torch.nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=bias,
        is_causal=causal,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return context, logsumexp_tiles(query, key, rule=rule)
