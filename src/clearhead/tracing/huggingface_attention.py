"""What transformers calls in place of its own attention.

Q, K and V arrive with the call, which gives the tap everything up to C. X, O and W_O are no part of
it: ``huggingface_watch`` observes them.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.errors import UnsupportedError
from clearhead.masks import Mask, causal_mask, document_mask
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tap import Site, attend
from clearhead.positions.position_bias import PositionBias
from clearhead.tracing.huggingface_bias import bias_of
from clearhead.tracing.huggingface_masks import LazyMask
from clearhead.tracing.huggingface_watch import watching

__all__ = ["attention_function"]


def attention_function(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: LazyMask | Tensor | None,
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    **given: Any,
) -> tuple[Tensor, None]:
    """The attention function registered with transformers.

    Args:
        module: the attention module that calls.
        query: Q, (batch, heads, n, d_k).
        key: K, (batch, kv_heads, m, d_k), cached keys included.
        value: V, (batch, kv_heads, m, d_v).
        attention_mask: what our mask function made, a tensor of the user's or the model's, or None.
        dropout: refused unless 0.
        scaling: scale of the scores; None is 1/√d_k.
        given: what else the family asks for: ``softcap``, ``s_aux`` or ``sinks``,
            ``position_bias``, …

    Returns:
        C as (batch, n, heads, d_v), and no weights.

    Raises:
        UnsupportedError: the family asks for what clearhead does not do.
    """
    _refuse(module, dropout, given)
    rule = _rule(module, query, key, attention_mask, scaling=scaling, given=given)
    watch = watching(module)
    site = _unwatched(module) if watch is None else watch.site(module)
    context = attend(query, key, value, rule=rule, site=site).context.transpose(1, 2).contiguous()
    if watch is not None:
        watch.returned(site, context)
    return context, None


def _unwatched(module: nn.Module) -> Site:
    layer = getattr(module, "layer_idx", None)
    return Site(layer if isinstance(layer, int) else 0, "self", type(module).__name__)


def _refuse(module: nn.Module, dropout: float, given: Mapping[str, Any]) -> None:
    refused = [name for name in ("indices", "block_indices") if given.get(name) is not None]
    sinks = _sinks(given)
    if sinks is not None and sinks.ndim != 1:
        refused.append(f"sinks of shape {tuple(sinks.shape)} where one a head is known")
    if dropout:
        refused.append(f"dropout={dropout} (call model.eval(), or set attention dropout to 0)")
    if refused:
        raise UnsupportedError(
            f"{type(module).__name__} asks attention for what clearhead does not do: "
            f"{', '.join(refused)}"
        )


def _sinks(given: Mapping[str, Any]) -> Tensor | None:
    return given.get("sinks") if given.get("s_aux") is None else given["s_aux"]


def _rule(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    attention_mask: LazyMask | Tensor | None,
    *,
    scaling: float | None,
    given: Mapping[str, Any],
) -> ScoreRule:
    n, m = query.shape[2], key.shape[2]
    mask: Mask | None = None
    start: int | None = None
    key_start = 0
    bias = bias_of(module, given.get("position_bias"))
    if isinstance(attention_mask, LazyMask):
        if m != attention_mask.keys:
            raise UnsupportedError(
                f"{type(module).__name__} attends to {m} keys where its mask was made for "
                f"{attention_mask.keys}"
            )
        mask, start = attention_mask.mask, attention_mask.query_start
        key_start = attention_mask.key_start
    elif isinstance(attention_mask, Tensor):
        dense = attention_mask[..., :m]
        if dense.dtype == torch.bool:
            mask = Mask.from_tensor(dense)
        else:
            # transformers writes the lowest number where a row may not look: as a number, a row of
            # nothing else would look everywhere
            dense = dense.masked_fill(dense <= torch.finfo(dense.dtype).min, -torch.inf)
            if isinstance(bias, PositionBias):
                mask = _only_hides(module, dense)
            else:
                bias = dense if bias is None else bias + dense
    elif _is_causal(module, given) and n > 1:
        mask, start = causal_mask(), m - n
    ends = given.get("cu_seq_lens_k")
    if ends is not None:
        packed = document_mask(cu_seqlens=ends)
        mask, start = packed if mask is None else mask & packed, m - n if start is None else start
    return ScoreRule(
        scale=scaling,
        softcap=given.get("softcap"),
        bias=bias,
        mask=mask,
        sinks=_sinks(given),
        query_start=start,
        key_start=key_start,
    )


def _only_hides(module: nn.Module, dense: Tensor) -> Mask:
    """A mask that is added to scores beside a bias by position, where all it does is hide."""
    hidden = torch.isneginf(dense)
    if not bool((hidden | (dense == 0)).all()):
        raise UnsupportedError(
            f"{type(module).__name__} adds numbers of a mask to a bias by position; give a mask of "
            "0 and −∞"
        )
    return Mask.from_tensor(~hidden)


def _is_causal(module: nn.Module, given: Mapping[str, Any]) -> bool:
    """As transformers decides where no mask was made: the call's word, the module's, or yes."""
    said = given.get("is_causal")
    return bool(getattr(module, "is_causal", True) if said is None else said)
