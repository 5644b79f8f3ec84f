"""Attention written out: five dense steps, in any dtype up to float64.

This is the oracle. It shares no code with the fast paths, is imported by nothing but its own
``impl="reference"`` dispatch and the tests, and stores the whole n×m matrix: quadratic memory.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.pipeline.rule import BoundRule

__all__ = ["ReferenceSteps", "reference"]


@dataclass(frozen=True, eq=False)
class ReferenceSteps:
    """Every quantity of one attention, dense.

    Attributes:
        raw_scores: scale · Q Kᵀ.
        scores: S, −inf where masked.
        logsumexp: L, sinks included; −inf for an empty row.
        weights: A.
        context: C.
    """

    raw_scores: Float[Tensor, "batch heads n m"]
    scores: Float[Tensor, "batch heads n m"]
    logsumexp: Float[Tensor, "batch heads n"]
    weights: Float[Tensor, "batch heads n m"]
    context: Float[Tensor, "batch heads n d_v"]


def reference(
    query: Float[Tensor, "batch heads n d_k"],
    key: Float[Tensor, "batch kv_heads m d_k"],
    value: Float[Tensor, "batch kv_heads m d_v"],
    *,
    rule: BoundRule,
) -> ReferenceSteps:
    """Compute attention the way the formula reads.

    ``C = softmax(mask(softcap(scale · Q Kᵀ) + bias)) · V``

    A row may be of three kinds. It sees nothing: A = 0, C = 0, L = −inf. It sees only numbers:
    plain softmax. It sees NaN or +Inf: NaN where it looks, 0 where it does not. What it does not
    see never matters, so a value that is not finite is left out of every row that does not look
    at it.

    Args:
        query: Q.
        key: K.
        value: V.
        rule: the bound rule.

    Returns:
        All five steps, in the dtype of ``query``.

    Cost: heads · n · m numbers, several times over; for checking, not for use.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1, equation 1.
    """
    group = query.shape[1] // max(key.shape[1], 1)
    key = key.repeat_interleave(group, dim=1)
    value = value.repeat_interleave(group, dim=1)

    # 1. scaled products
    raw = torch.einsum("bhid,bhjd->bhij", query, key) * rule.scale

    # 2. soft-cap and bias
    scores = raw if rule.softcap is None else rule.softcap * torch.tanh(raw / rule.softcap)
    hidden = torch.zeros(raw.shape, dtype=torch.bool, device=raw.device)
    rows, columns = range(rule.queries), range(rule.keys)
    bias = rule.bias_tile(rows, columns, dtype=raw.dtype, device=raw.device)
    if bias is not None:
        bias = bias.to(raw.dtype).expand(raw.shape)
        hidden = hidden | (bias == -torch.inf)
        scores = scores + bias

    # 3. mask
    visible = rule.visible(rows, columns, device=raw.device)
    if visible is not None:
        hidden = hidden | ~visible
    scores = torch.where(hidden, -torch.inf, scores)

    # 4. softmax, with one more logit a row where there is a sink
    logsumexp = _logsumexp(scores, rule.sinks, empty=hidden.all(-1))
    level = torch.where(logsumexp == -torch.inf, 0.0, logsumexp)
    weights = torch.where(scores == -torch.inf, 0.0, torch.exp(scores - level[..., None]))

    # 5. context
    context = _mixed(weights, value, seen=scores != -torch.inf)
    return ReferenceSteps(raw, scores, logsumexp, weights, context)


def _logsumexp(
    scores: Float[Tensor, "batch heads n m"],
    sinks: Float[Tensor, "heads"] | None,
    *,
    empty: Bool[Tensor, "batch heads n"],
) -> Float[Tensor, "batch heads n"]:
    rows = scores.shape[:3]
    logits = scores
    if sinks is not None:
        column = sinks.to(scores.dtype)[None, :, None, None].expand(*rows, 1)
        logits = torch.cat([scores, column], dim=-1)
    if logits.shape[-1] == 0:
        return scores.new_full(rows, -torch.inf)
    top = logits.detach().amax(-1, keepdim=True)
    top = torch.where(top == -torch.inf, 0.0, top)
    logsumexp = (top + torch.exp(logits - top).sum(-1, keepdim=True).log()).squeeze(-1)
    # by the mask's word: a row whose keys are −Inf sees them, and its sink still counts
    return torch.where(empty, -torch.inf, logsumexp)


def _mixed(
    weights: Float[Tensor, "batch heads n m"],
    value: Float[Tensor, "batch heads m d_v"],
    *,
    seen: Bool[Tensor, "batch heads n m"],
) -> Float[Tensor, "batch heads n d_v"]:
    finite = torch.isfinite(value)
    context = torch.einsum("bhij,bhjd->bhid", weights, torch.where(finite, value, 0.0))
    for place in (~finite).any(-1).any(0).any(0).nonzero().flatten():
        j = int(place)
        wild = torch.where(finite[:, :, j], 0.0, value[:, :, j])[:, :, None]
        term = weights[:, :, :, j, None] * wild
        context = context + torch.where(seen[:, :, :, j, None], term, 0.0)
    return context
