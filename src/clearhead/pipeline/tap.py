"""The tap: the one seam where a quantity inside attention is read or replaced.

Every model that wants to be traced, edited or audited sends its quantities through here: our own
layers call :func:`visit` and :func:`attend`, and the function registered with transformers does the
same for theirs. Without an active tap both cost one look at a context variable and change nothing.

    attention_input ─ visit ─▶ W_Q, W_K, W_V ─▶ attend ┐ query, key, value, rule
                                                       │ (softmax(S)·V)
    output ◀─ visit ─ W_O ◀────────────────────────────┘ logsumexp (read only), context
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from clearhead.errors import TraceError
from clearhead.pipeline.attention import attention_by_rule, autocast
from clearhead.pipeline.result import AttentionResult
from clearhead.pipeline.rule import ScoreRule

__all__ = ["TAPPED", "Site", "Tap", "attend", "tapped", "tapping", "visit"]

#: The quantities every model sends through the tap, in the order they pass.
TAPPED = ("attention_input", "query", "key", "value", "logsumexp", "context", "output")


@dataclass(frozen=True, slots=True)
class Site:
    """Where in a model one attention happens.

    Attributes:
        layer: index of the layer, counted within its kind.
        kind: ``"self"``; ``"cross"`` where keys and values come from another sequence;
            ``"encoder"`` for the self-attention of an encoder whose output a decoder looks at.
        name: path of the attention module inside the model.
    """

    layer: int
    kind: Literal["self", "cross", "encoder"]
    name: str


class Tap:
    """Reads nothing and changes nothing: override what you need.

    A tap that only reads must return the very tensor it was given; the model's output then keeps
    its bits, since every call gets the same arguments.
    """

    def visit(self, site: Site, quantity: str, value: Tensor) -> Tensor:
        """See one quantity of one layer on its way, and say what goes on.

        Args:
            site: the layer.
            quantity: one of :data:`TAPPED`.
            value: (batch, heads, n, d) for query, context; (batch, kv_heads, m, d) for key, value;
                (batch, heads, n) for logsumexp; (batch, n, d_model) for attention_input and output.

        Returns:
            The tensor that goes on; the same one to change nothing. A replacement has its shape.
        """
        del site, quantity
        return value

    def rule(self, site: Site, rule: ScoreRule) -> ScoreRule:
        """See the rule by which one layer makes its scores, and say which rule goes on."""
        del site
        return rule


_ACTIVE: ContextVar[tuple[Tap, ...]] = ContextVar("clearhead_active_taps", default=())


@contextmanager
def tapping(*taps: Tap) -> Generator[None]:
    """Make taps active in this context, after those that already are.

    A quantity passes the taps in the order given, so a reading tap behind an editing one sees the
    edited value.
    """
    token = _ACTIVE.set((*_ACTIVE.get(), *taps))
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def tapped() -> bool:
    """Whether a tap is active."""
    return bool(_ACTIVE.get())


def visit(site: Site, quantity: str, value: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Send one quantity of one layer through the active taps.

    Args:
        site: the layer.
        quantity: one of :data:`TAPPED`.
        value: the quantity, in the shape :meth:`Tap.visit` says.

    Returns:
        What goes on: ``value`` itself where nothing was replaced.

    Raises:
        TraceError: a tap returned another shape, dtype or device.
    """
    for tap in _ACTIVE.get():
        replaced = tap.visit(site, quantity, value)
        if replaced is not value:
            _check_replacement(site, quantity, value, replaced)
        value = replaced
    return value


def attend(
    query: Float[Tensor, "batch heads n d_k"],
    key: Float[Tensor, "batch kv_heads m d_k"],
    value: Float[Tensor, "batch kv_heads m d_v"],
    *,
    rule: ScoreRule,
    site: Site,
) -> AttentionResult:
    """Attention of one layer of a model, through the active taps.

    ``C = softmax(S(Q, K)) · V`` with every quantity sent through :func:`visit` on its way.

    Args:
        query: Q after rotation.
        key: K after rotation, not repeated for grouped heads.
        value: V, not repeated for grouped heads.
        rule: how S is made.
        site: the layer.

    Returns:
        The result, whose ``context`` is what the taps let through.

    Raises:
        TraceError: a replacement does not have the shape of what it replaces, or tries to replace
            ``logsumexp``, which is only for reading.
    """
    taps = _ACTIVE.get()
    if not taps:
        return attention_by_rule(query, key, value, rule=rule)
    # a tap sees the Q, K and V that are used: L belongs to the rounded ones
    query, key, value = autocast(query, key, value)
    query = visit(site, "query", query)
    key = visit(site, "key", key)
    value = visit(site, "value", value)
    for tap in taps:
        rule = tap.rule(site, rule)
    result = attention_by_rule(query, key, value, rule=rule)
    if visit(site, "logsumexp", result.logsumexp) is not result.logsumexp:
        raise TraceError(
            f"logsumexp of layer {site.layer} ({site.name}) is only for reading: "
            "replace query, key, value, context or the rule instead"
        )
    context = visit(site, "context", result.context)
    return result if context is result.context else replace(result, context=context)


def _check_replacement(site: Site, quantity: str, old: Tensor, new: Tensor) -> None:
    expected = (tuple(old.shape), old.dtype, old.device)
    got = (tuple(new.shape), new.dtype, new.device)
    if got != expected:
        raise TraceError(
            f"a replacement of {quantity} in layer {site.layer} ({site.name}) must keep shape, "
            f"dtype and device {expected}, got {got}"
        )
