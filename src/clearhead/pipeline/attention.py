"""``attention``: softmax attention whose every step can be read."""

from collections.abc import Callable, Sequence
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.errors import InputError, ShapeError, gathered
from clearhead.masks import Mask
from clearhead.pipeline.dispatch import Implementation, choose, compute
from clearhead.pipeline.matrix import AttentionMatrix
from clearhead.pipeline.observe import (
    OBSERVABLES,
    EntropyObserver,
    Observed,
    Observer,
    PooledObserver,
    ReceivedObserver,
    TopKeysObserver,
    shown,
)
from clearhead.pipeline.observe import observe as watch
from clearhead.pipeline.result import AttentionResult
from clearhead.pipeline.rule import BoundRule, ScoreRule
from clearhead.positions.position_bias import PositionBias

__all__ = ["attention", "attention_by_rule", "autocast"]

_DTYPES = {torch.float64, torch.float32, torch.bfloat16, torch.float16}


def attention(
    query: Float[Tensor, "*batch n d_k"],
    key: Float[Tensor, "*kv_batch m d_k"],
    value: Float[Tensor, "*kv_batch m d_v"],
    *,
    mask: Mask | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    bias: Float[Tensor, "..."] | PositionBias | None = None,
    sinks: Float[Tensor, "heads"] | None = None,
    query_start: int | Int[Tensor, "..."] | None = None,
    rule: ScoreRule | None = None,
    observe: Sequence[str] = (),
    impl: Implementation = "auto",
) -> AttentionResult:
    """Softmax attention: C = softmax(S) · V, in linear memory, with every step there to be read.

    ``S = mask(softcap(scale · Q Kᵀ) + bias)``, ``A = exp(S − L)``, ``C = A · V``

    Args:
        query: Q, (batch, heads, n, d_k), or without batch, or (n, d_k) for one head.
        key: K, likewise, with kv_heads heads, of which heads is a multiple; m keys.
        value: V, as K, but d_v wide.
        mask: who may look at whom; None is everyone at everything.
        scale: factor on Q Kᵀ; None is 1/√d_k.
        softcap: bends scores into (−softcap, softcap).
        bias: added to the scores: a tensor that broadcasts to (batch, heads, n, m), of which −inf
            masks, or a position bias (``AlibiBias``, ``T5RelativeBias``), never stored as n×m.
        sinks: one more logit a head that takes weight and brings nothing.
        query_start: absolute position of the first query, or (batch,) of them; needed when n ≠ m
            and the mask or the bias asks for positions.
        rule: all of the above as one value, instead of them.
        observe: names of statistics, all made in one more pass over the tiles: ``received``,
            ``entropy``, ``top_keys`` (the 8 strongest keys a row) and ``pooled`` (a map of at most
            64 × 64 by maximum). Of other sizes, ``result.weights`` makes them when asked.
        impl: ``"fused"`` (a kernel), ``"tiles"`` (in PyTorch), ``"reference"`` (dense) or
            ``"auto"``: fused where it can serve the call. The result says which it was.

    Returns:
        Context, logsumexp and the lazy matrices, with the axes of ``query``.

    Raises:
        InputError: an argument is of another kind than asked for, or names nothing there is.
        ShapeError: shapes, dtypes or devices do not fit together; all faults at once.
        MaskError: the mask does not fit; all faults at once.
        UnsupportedError: ``impl`` names an implementation that cannot serve the call.

    Cost: n · m · (d_k + d_v) multiplications a head, less what the mask empties; memory linear in n
    and m, but quadratic for ``impl="reference"``.

    Source: Vaswani et al. 2017, "Attention Is All You Need", equation 1; L as in Dao et al. 2022,
    "FlashAttention", section 3.1. The paper's output is our *context*; our *output* is after W_O.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(cast("object", tensor), Tensor):
            raise InputError(f"{name} must be a tensor, got {type(tensor).__name__}")
    _check_observables(observe)
    rule = _one_rule(rule, ScoreRule(scale, softcap, bias, mask, sinks, query_start))
    return attention_by_rule(query, key, value, rule=rule, observe=observe, impl=impl)


def attention_by_rule(
    query: Float[Tensor, "*batch n d_k"],
    key: Float[Tensor, "*kv_batch m d_k"],
    value: Float[Tensor, "*kv_batch m d_v"],
    *,
    rule: ScoreRule,
    observe: Sequence[str] = (),
    impl: Implementation = "auto",
) -> AttentionResult:
    """:func:`attention` of a rule, for callers whose arguments are of the right kinds."""
    query, key, value = autocast(query, key, value)
    leading = (query.ndim == 4, query.ndim >= 3)
    bound, chosen = _settled(query, key, value, rule=rule, impl=impl)
    query4, key4, value4 = (t if t.ndim == 4 else _four_axes(t) for t in (query, key, value))
    context, logsumexp = compute(query4, key4, value4, rule=bound, impl=chosen)
    weights = AttentionMatrix(query4, key4, bound, leading=leading, logsumexp=logsumexp)
    lead = query.shape[:-2]
    if len(lead) < 2:
        context = context.reshape(*lead, *context.shape[2:])
        logsumexp = logsumexp.reshape(*lead, logsumexp.shape[2])
    return AttentionResult(
        context=context,
        logsumexp=logsumexp,
        weights=weights,
        implementation=chosen,
        value=value,
        observed=_observe(observe, weights, lead) if observe else {},
    )


def _one_rule(rule: ScoreRule | None, parts: ScoreRule) -> ScoreRule:
    if rule is None:
        return parts
    if not isinstance(cast("object", rule), ScoreRule):
        raise InputError(f"rule must be a ScoreRule, got {type(rule).__name__}")
    given = [
        name
        for name in ("scale", "softcap", "bias", "mask", "sinks", "query_start")
        if getattr(parts, name) is not None
    ]
    if given:
        raise InputError(
            f"give either rule= or its parts, not both: got rule and {', '.join(given)}"
        )
    return rule


def autocast(*tensors: Tensor) -> list[Tensor]:
    """Under autocast take the dtype that PyTorch's own attention would.

    Args:
        tensors: Q, K and V.

    Returns:
        The same tensors, rounded where autocast is on; float64 and what is no number stays.
    """
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return list(tensors)
    dtype = torch.get_autocast_dtype(device)
    rounded = _DTYPES - {torch.float64}
    return [t.to(dtype) if t.dtype in rounded else t for t in tensors]


def _settled(
    query: Tensor, key: Tensor, value: Tensor, *, rule: ScoreRule, impl: Implementation
) -> tuple[BoundRule, str]:
    """The rule bound to a call, and who serves it: once for calls alike, one after the other."""
    # tensors may be written to, or need gradients the next time
    changing = isinstance(rule.query_start, Tensor) or isinstance(rule.bias, Tensor)
    if changing or torch.compiler.is_compiling():
        return _settle(query, key, value, rule=rule, impl=impl)
    alike = (impl, *((t.shape, t.dtype, t.device) for t in (query, key, value)))
    found = rule.settled.get(alike)
    if found is None:
        found = _settle(query, key, value, rule=rule, impl=impl)
        rule.settled.clear()
        rule.settled[alike] = found
    return found


def _settle(
    query: Tensor, key: Tensor, value: Tensor, *, rule: ScoreRule, impl: Implementation
) -> tuple[BoundRule, str]:
    """Bind the rule and choose, or raise one error that lists every mismatch."""
    faults = _rank_faults(query, key, value)
    if not faults:
        query, key, value = _four_axes(query), _four_axes(key), _four_axes(value)
        faults = _size_faults(query, key, value)
    if faults:
        shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
        raise ShapeError(gathered(f"attention({shapes}) does not fit together", faults))
    bound = rule.bind(query, key)
    return bound, choose(impl, bound)


def _four_axes(tensor: Tensor) -> Tensor:
    return tensor.reshape((1,) * (4 - tensor.ndim) + tuple(tensor.shape))


def _rank_faults(query: Tensor, key: Tensor, value: Tensor) -> list[str]:
    faults: list[str] = []
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.ndim not in (2, 3, 4):
            faults.append(
                f"{name} must be (batch, heads, length, width), (heads, length, width) or "
                f"(length, width), got {tensor.ndim} axes"
            )
        elif tensor.ndim != query.ndim:
            faults.append(
                f"{name} must have as many axes as query, {query.ndim}, got {tensor.ndim}"
            )
        if tensor.dtype not in _DTYPES:
            faults.append(
                f"{name} must be float64, float32, bfloat16 or float16, got {tensor.dtype}"
            )
        elif tensor.dtype != query.dtype:
            faults.append(f"{name} must have query's dtype, {query.dtype}, got {tensor.dtype}")
        if tensor.device != query.device:
            faults.append(f"{name} must be on query's device, {query.device}, got {tensor.device}")
    return faults


def _size_faults(query: Tensor, key: Tensor, value: Tensor) -> list[str]:
    faults: list[str] = []
    if not query.shape[0] == key.shape[0] == value.shape[0]:
        faults.append(
            f"batch sizes must agree, got {query.shape[0]}, {key.shape[0]} and {value.shape[0]}"
        )
    if key.shape[1] != value.shape[1]:
        faults.append(
            f"key and value must have the same heads, got {key.shape[1]} and {value.shape[1]}"
        )
    heads, kv_heads = query.shape[1], key.shape[1]
    if heads != kv_heads and (kv_heads == 0 or heads % kv_heads):
        faults.append(f"query heads must be a multiple of key heads, got {heads} and {kv_heads}")
    if key.shape[2] != value.shape[2]:
        faults.append(
            f"key and value must be equally long, got {key.shape[2]} and {value.shape[2]}"
        )
    if query.shape[3] != key.shape[3]:
        faults.append(
            f"query and key must be equally wide, got {query.shape[3]} and {key.shape[3]}"
        )
    return faults


def _check_observables(names: Sequence[str]) -> None:
    if isinstance(names, str):
        raise InputError(f"observe must be a tuple or list of names, got the text {names!r}")
    unknown = [str(name) for name in names if name not in OBSERVABLES]
    if unknown:
        raise InputError(
            f"observe must name some of {', '.join(OBSERVABLES)}; got {', '.join(unknown)}"
        )


@torch.no_grad()
def _observe(
    names: Sequence[str], weights: AttentionMatrix, lead: torch.Size
) -> dict[str, Observed]:
    """All the named statistics from one pass."""
    level, keys = weights.levels(), weights.bound.keys
    make: dict[str, Callable[[], Observer[Observed]]] = {
        "received": lambda: ReceivedObserver(level, keys),
        "entropy": lambda: EntropyObserver(level),
        "top_keys": lambda: TopKeysObserver(level, min(8, keys)),
        "pooled": lambda: PooledObserver(level, keys, size=64, reduce="max"),
    }
    observers = {name: make[name]() for name in names}
    watch(weights.query, weights.key, level, rule=weights.bound, observers=observers.values())
    return {name: shown(observer.result(), tuple(lead)) for name, observer in observers.items()}
