"""Takes over the weights of PyTorch's own multi-head attention.

One of the few files that let in unknown types: that module says little of its own.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn

from clearhead.errors import InputError, UnsupportedError, gathered
from clearhead.transformer.attention import MultiHeadAttention

__all__ = ["attention_from_torch"]


def attention_from_torch(module: nn.MultiheadAttention) -> MultiHeadAttention:
    """Our attention with the weights of a ``torch.nn.MultiheadAttention``; outputs are equal.

    Two things differ in use. Its masks say where *not* to look: give ``Mask.from_tensor(~mask)``
    and ``padding_mask(~key_padding_mask)``. And ours is always batch first: (batch, n, d_model).

    Args:
        module: PyTorch's. Its dropout is left out, as it does nothing in evaluation.

    Returns:
        Ours, with copies of its weights, in their dtype and where they lie.

    Raises:
        InputError: it is no ``torch.nn.MultiheadAttention``.
        UnsupportedError: keys and values come from sources of different widths, or are added to by
            ``add_bias_kv`` or ``add_zero_attn``; all faults at once.
    """
    theirs = cast("Any", module)
    _refuse(theirs)
    attention = MultiHeadAttention(
        theirs.embed_dim,
        heads=theirs.num_heads,
        d_source=theirs.kdim,
        input_bias=theirs.in_proj_bias is not None,
        output_bias=theirs.out_proj.bias is not None,
    )
    attention = attention.to(theirs.out_proj.weight)
    parts = (attention.to_query, attention.to_key, attention.to_value)
    with torch.no_grad():
        for linear, weight in zip(parts, _input_weights(theirs), strict=True):
            linear.weight.copy_(weight)
        if theirs.in_proj_bias is not None:
            for linear, bias in zip(parts, theirs.in_proj_bias.chunk(3), strict=True):
                linear.bias.copy_(bias)
        attention.to_output.load_state_dict(theirs.out_proj.state_dict())
    return attention.train(module.training)


def _refuse(module: Any) -> None:
    if not _is_theirs(module):
        raise InputError(
            f"module must be a torch.nn.MultiheadAttention, got {type(module).__name__}"
        )
    faults: list[str] = []
    if module.kdim != module.vdim:
        faults.append(f"kdim ({module.kdim}) and vdim ({module.vdim}) must be one source's width")
    if module.bias_k is not None or module.bias_v is not None:
        faults.append("add_bias_kv: a learned key and value beside the source's are not known")
    if module.add_zero_attn:
        faults.append("add_zero_attn: a key of zeros is not known; sinks=True is close to it")
    if faults:
        raise UnsupportedError(gathered("this nn.MultiheadAttention cannot be taken over", faults))


def _is_theirs(module: object) -> bool:
    return isinstance(module, nn.MultiheadAttention)


def _input_weights(module: Any) -> tuple[Tensor, ...]:
    """W_Q, W_K and W_V, which lie in one tensor where all sources have one width."""
    joint: Tensor | None = module.in_proj_weight
    if joint is not None:
        return joint.chunk(3)
    return module.q_proj_weight, module.k_proj_weight, module.v_proj_weight
