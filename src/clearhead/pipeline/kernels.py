"""PyTorch's fused kernels, called so that they also give L, and taught the gradient of L.

On the CPU one private operator returns C and L. It is wrapped as an operator of our own, because
its L carries no gradient: a row differentiated through it would be silently wrong. Elsewhere the
public function gives C, and the caller makes L from tiles.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypedDict, cast

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.pipeline.kernel_gradients import Served, bias_gradient, gradients, spread
from clearhead.pipeline.mending import block_rule, mended
from clearhead.pipeline.tiles import logsumexp_tiles

__all__ = ["gives_logsumexp", "kernel", "kernel_without_logsumexp"]

# neither operators nor what makes operators say anything of their types
_aten, _library = cast("Any", torch.ops.aten), cast("Any", torch.library)
_forward: Callable[..., tuple[Tensor, Tensor]] = (
    _aten._scaled_dot_product_flash_attention_for_cpu.default
)


class _Told(TypedDict):
    causal: bool
    scale: float


class _Kept(Protocol):
    """What autograd keeps of one forward call."""

    saved_tensors: tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor, Tensor]
    told: _Told
    bias_needed: bool

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...
    def set_materialize_grads(self, value: bool, /) -> None: ...


def gives_logsumexp(device: torch.device) -> bool:
    """Whether this device has a kernel here that returns L beside C."""
    return device.type == "cpu"


def kernel(
    query: Float[Tensor, "batch heads r d"],
    key: Float[Tensor, "batch kv_heads c d"],
    value: Float[Tensor, "batch kv_heads c d"],
    *,
    bias: Float[Tensor, "#batch #heads #r c"] | Callable[[], Tensor] | None,
    causal: bool,
    scale: float,
) -> tuple[Float[Tensor, "batch heads r d"], Float[Tensor, "batch heads r"]]:
    """C and L of one block by the CPU's kernel; every size must be at least 1.

    Args:
        query: Q of the block.
        key: K of the block.
        value: V of the block, as wide as Q.
        bias: added to the scores, in float32 (float64 for float64); −inf masks. Or what makes it:
            then it is made again on the way back instead of kept, and itself has no gradient.
        causal: row i sees columns 0 to i.
        scale: factor on Q Kᵀ.

    Returns:
        C and L (float32, or float64), both differentiable.
    """
    # the CPU operator reads a strided last axis as if it were dense, and gives wrong numbers
    query, key, value = (t if t.stride(-1) == 1 else t.contiguous() for t in (query, key, value))
    if callable(bias):
        if _needs_gradient(query, key, value) and not torch.compiler.is_compiling():
            return cast("Any", _MadeAgain).apply(query, key, value, bias, scale)
        bias = bias()
    if torch.compiler.is_compiling() or _needs_gradient(query, key, value, bias):
        return _flash(query, key, value, bias, causal=causal, scale=scale)
    return _serve(query, key, value, bias, causal=causal, scale=scale)


def _serve(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    def run(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return _forward(q, k, v, 0.0, causal, attn_mask=spread(bias, q, k), scale=scale)

    rule = partial(block_rule, query, key, bias=bias, causal=causal, scale=scale)
    return mended(query, key, value, run=run, rule=rule)


def _needs_gradient(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


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
    ctx.set_materialize_grads(False)  # else every way back would pay for L's gradient too
    ctx.save_for_backward(*inputs, *output)
    ctx.told = keyword_only_inputs
    ctx.bias_needed = bias is not None and bias.requires_grad


def _way_back(
    ctx: _Kept, d_context: Tensor | None, d_logsumexp: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    block = Served(*ctx.saved_tensors, **ctx.told)
    d_bias = bias_gradient(block, d_context, d_logsumexp) if ctx.bias_needed else None
    return *gradients(block, d_context, d_logsumexp), d_bias


_flash.register_autograd(_way_back, setup_context=_keep)


class _MadeAgain(torch.autograd.Function):
    """The kernel with an additive tile that is made again on the way back.

    The tiles of all blocks together are n×m: kept, training would take quadratic memory.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        make: Callable[[], Tensor],
        scale: float,
    ) -> tuple[Tensor, Tensor]:
        """Serve the block, and keep how its tile is made."""
        context, logsumexp = _serve(query, key, value, make(), causal=False, scale=scale)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(query, key, value, context, logsumexp)
        ctx.make, ctx.scale = make, scale
        return context, logsumexp

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor | None, ...]:
        """Make the tile again."""
        query, key, value, *made = ctx.saved_tensors
        block = Served(query, key, value, ctx.make(), *made, causal=False, scale=ctx.scale)
        return *gradients(block, *grad_outputs), None, None


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
    # autocast would round what was widened on purpose
    with torch.autocast(query.device.type, enabled=False):
        context = torch.nn.functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=bias,
            is_causal=causal,
            scale=scale,
            enable_gqa=query.shape[1] != key.shape[1],
        )
    # a bias of several rows is one block's, and computed again as a whole: within that, a block
    # computed again would hold on to the bias
    several = bias is not None and bias.shape[2] > 1
    return context, logsumexp_tiles(query, key, rule=rule, kept=several)
