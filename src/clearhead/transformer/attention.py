"""Multi-head attention as a module: X → Q, K, V → C → O, every quantity through the tap.

Shapes: n tokens of width d_model; heads query heads, kv_heads key and value heads, each of width
d_k (values: d_v). A weight W is stored as (out, in), as PyTorch does; formulas write ``x W`` for
the product with its transpose.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.errors import InputError, ShapeError, UnsupportedError, gathered
from clearhead.masks import Mask
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tap import Site, attend, visit
from clearhead.positions.faults import positive, refuse, whole
from clearhead.positions.rotary import Phases, rotate
from clearhead.transformer.hooks import hooked
from clearhead.transformer.linear import Linear
from clearhead.transformer.norms import RMSNorm

__all__ = ["Memory", "MultiHeadAttention"]

_ALONE = Site(layer=0, kind="self", name="attention")


class Memory(Protocol):
    """Keys and values of what one attention layer has read before: its part of a cache."""

    @property
    def complete(self) -> bool:
        """Whether everything is there already, so that no key or value need be made."""
        ...

    @property
    def start(self) -> int:
        """Absolute position of the first key that :meth:`extend` gives."""
        ...

    def extend(
        self,
        key: Float[Tensor, "batch kv_heads n d_k"] | None,
        value: Float[Tensor, "batch kv_heads n d_v"] | None,
    ) -> tuple[Float[Tensor, "batch kv_heads m d_k"], Float[Tensor, "batch kv_heads m d_v"]]:
        """Take in new keys and values, and give all."""
        ...


class MultiHeadAttention(nn.Module):
    """Lets every token gather from the tokens it may look at, several heads side by side.

    ``Q, K, V = X W_Q, Y W_K, Y W_V``;  ``C = softmax(S(Q, K)) V``;  ``O = concat(C) W_O + b_O``

    X and O are (batch, n, d_model); Y is X, or for cross-attention the source (batch, m, d_source);
    Q is (batch, heads, n, d_k), K (batch, kv_heads, m, d_k), V (batch, kv_heads, m, d_v) and C
    (batch, heads, n, d_v). With fewer key heads than query heads, query head h reads key head
    h // (heads / kv_heads), and nothing is repeated in memory.

    Args:
        d_model: width of a token's vector.
        heads: number of query heads.
        kv_heads: number of key and value heads; None is as many as query heads.
        d_k: width of a query and of a key; None is d_model / heads.
        d_v: width of a value; None is d_k.
        d_source: width of a source token's vector; None is d_model.
        input_bias: whether W_Q, W_K and W_V have biases.
        output_bias: whether W_O has one.
        scale: factor on Q Kᵀ; None is 1/√d_k.
        softcap: scores are bent into (−softcap, softcap).
        sinks: whether each head has a learned logit that takes part of each row.
        query_key_norm: RMS norm of each head's queries and keys, with weights before rotation
            (``"head"``) or without weights after it (``"rotated"``).
        norm_epsilon: ε of that norm.
        norm_offset: what is added to its weights.
        site: where in a model this attention stands, for the tap.

    Raises:
        InputError: the numbers do not fit together.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2; grouped heads: Ainslie
    et al. 2023, "GQA", section 2.2; query-key norm: Henry et al. 2020.
    """

    def __init__(
        self,
        d_model: int,
        *,
        heads: int,
        kv_heads: int | None = None,
        d_k: int | None = None,
        d_v: int | None = None,
        d_source: int | None = None,
        input_bias: bool = False,
        output_bias: bool = False,
        scale: float | None = None,
        softcap: float | None = None,
        sinks: bool = False,
        query_key_norm: Literal["head", "rotated"] | None = None,
        norm_epsilon: float = 1e-6,
        norm_offset: float = 0.0,
        site: Site = _ALONE,
    ) -> None:
        super().__init__()
        faults = [
            *_width_faults(d_model, heads, kv_heads, d_k=d_k, d_v=d_v, d_source=d_source),
            *_number_faults(scale=scale, softcap=softcap, epsilon=norm_epsilon, offset=norm_offset),
        ]
        if query_key_norm not in (None, "head", "rotated"):
            faults.append(
                f"query_key_norm must be 'head', 'rotated' or None, got {query_key_norm!r}"
            )
        refuse(self, faults)
        self.heads = heads
        self.kv_heads = heads if kv_heads is None else kv_heads
        d_k = d_model // heads if d_k is None else d_k
        d_v = d_k if d_v is None else d_v
        d_source = d_model if d_source is None else d_source
        self.rule = ScoreRule(scale=scale, softcap=softcap)
        self.site = site
        self.to_query = Linear(d_model, heads * d_k, bias=input_bias)
        self.to_key = Linear(d_source, self.kv_heads * d_k, bias=input_bias)
        self.to_value = Linear(d_source, self.kv_heads * d_v, bias=input_bias)
        self.to_output = Linear(heads * d_v, d_model, bias=output_bias)
        self.sinks = nn.Parameter(torch.zeros(heads)) if sinks else None
        self.norms_rotated = query_key_norm == "rotated"
        if query_key_norm is not None:
            learned = query_key_norm == "head"
            self.query_norm, self.key_norm = (
                RMSNorm(d_k, epsilon=norm_epsilon, offset=norm_offset, learned=learned)
                for _ in range(2)
            )
        else:
            self.query_norm, self.key_norm = None, None

    def forward(
        self,
        x: Float[Tensor, "batch n d_model"],
        source: Float[Tensor, "batch m d_source"] | None = None,
        *,
        mask: Mask | None = None,
        rule: ScoreRule | None = None,
        phases: Phases | None = None,
        temperature: Float[Tensor, "#batch 1 n 1"] | None = None,
        memory: Memory | None = None,
    ) -> Float[Tensor, "batch n d_model"]:
        """Attend from every token of x to every token that may be seen.

        Args:
            x: what the layer reads.
            source: what keys and values are made of; None is x itself.
            mask: who may look at whom; or give ``rule``.
            rule: mask, bias and positions as one value; this layer fills in its own scale, soft-cap
                and sinks.
            phases: angles that turn queries and keys; None leaves the layer blind to order.
            temperature: factor on each query.
            memory: keys and values read before.

        Returns:
            O, to be added to the residual stream.

        Raises:
            InputError: both mask and rule are given.
            ShapeError, MaskError: as for :func:`clearhead.attention`.

        Cost: n · m · heads · (d_k + d_v) operations; memory grows with n and m.
        """
        self._check_inputs(x, source)
        x = visit(self.site, "attention_input", x)
        query = self._query(x, phases, temperature)
        key, value = self._key_value(x if source is None else source, phases, memory)
        rule = self._whole(mask, rule, memory)
        context = attend(query, key, value, rule=rule, site=self.site).context
        output = self.to_output(_join(context))
        return visit(self.site, "output", output)

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> "MultiHeadAttention":
        """Take over PyTorch's own attention, with equal outputs.

        Its masks mean the opposite of ours: True there hides a key, so give ``~mask``.

        Args:
            module: PyTorch's.

        Raises:
            UnsupportedError: it adds keys of its own, or its sources have different widths.
        """
        from clearhead.transformer.from_torch import attention_from_torch

        return attention_from_torch(module)

    def output_projection(
        self,
    ) -> tuple[Float[Tensor, "d_model width"], Float[Tensor, "d_model"] | None]:
        """W_O as (d_model, heads · d_v), and its bias or None.

        Raises:
            UnsupportedError: the layer was replaced or hooked, so that O is not C · W_O + b_O.
        """
        layer = self.to_output
        if type(layer).forward is not Linear.forward or hooked(layer):
            raise UnsupportedError(
                f"W_O of {self.site.name}: its layer has a forward or hooks of its own, so that "
                "the output is not C · W_O + b_O"
            )
        return layer.weight, layer.bias

    def _check_inputs(self, x: Tensor, source: Tensor | None) -> None:
        widths = {"x": (x, self.to_query.in_features)}
        if source is not None:
            widths["source"] = (source, self.to_key.in_features)
        elif self.to_key.in_features != self.to_query.in_features:
            raise InputError("source: this attention reads a text of another width; give it")
        faults = [
            f"{name} must be (batch, n, {width}), got {tuple(tensor.shape)}"
            for name, (tensor, width) in widths.items()
            if tensor.dim() != 3 or tensor.shape[-1] != width
        ]
        if faults:
            raise ShapeError(gathered("attention cannot read this", faults))

    def _query(self, x: Tensor, phases: Phases | None, temperature: Tensor | None) -> Tensor:
        query = self._placed(_split(self.to_query(x), self.heads), self.query_norm, phases)
        return query if temperature is None else (query * temperature).to(query.dtype)

    def _key_value(
        self, source: Tensor, phases: Phases | None, memory: Memory | None
    ) -> tuple[Tensor, Tensor]:
        if memory is not None and memory.complete:
            return memory.extend(None, None)
        key = self._placed(_split(self.to_key(source), self.kv_heads), self.key_norm, phases)
        value = _split(self.to_value(source), self.kv_heads)
        return (key, value) if memory is None else memory.extend(key, value)

    def _placed(self, x: Tensor, norm: RMSNorm | None, phases: Phases | None) -> Tensor:
        """Queries or keys with their norm and their positions."""
        if norm is None:
            return rotate(x, phases)
        if self.norms_rotated:
            return x if phases is None else norm(rotate(x, phases))
        return rotate(norm(x), phases)

    def _whole(self, mask: Mask | None, rule: ScoreRule | None, memory: Memory | None) -> ScoreRule:
        """The rule of a call with this layer's own scale, soft-cap and sinks."""
        if mask is not None and rule is not None:
            raise InputError("give either mask= or rule=, not both: a rule has a mask of its own")
        rule = ScoreRule(mask=mask) if rule is None else rule
        own = {"scale": self.rule.scale, "softcap": self.rule.softcap, "sinks": self.sinks}
        filled: dict[str, Any] = {
            name: value
            for name, value in own.items()
            if value is not None and getattr(rule, name) is None
        }
        if memory is not None and memory.start != rule.key_start:
            filled["key_start"] = memory.start
        # one rule for all layers that add nothing to it is checked and planned once
        return replace(rule, **filled) if filled else rule


def _width_faults(
    d_model: int, heads: int, kv_heads: int | None, **widths: int | None
) -> Iterator[str]:
    given = {"d_model": d_model, "heads": heads, "kv_heads": kv_heads, **widths}
    wrong = [
        fault for name, size in given.items() if size is not None for fault in whole(name, size)
    ]
    yield from wrong
    if wrong:
        return
    if kv_heads is not None and heads % kv_heads:
        yield f"heads ({heads}) must be a multiple of kv_heads ({kv_heads})"
    if widths["d_k"] is None and d_model % heads:
        yield f"d_model ({d_model}) must be a multiple of heads ({heads}), or give d_k"


def _number_faults(
    *, scale: float | None, softcap: float | None, epsilon: float, offset: float
) -> Iterator[str]:
    if scale is not None:
        yield from positive("scale", scale)
    if softcap is not None:
        yield from positive("softcap", softcap)
    yield from positive("norm_epsilon", epsilon)
    if offset:
        yield from positive("norm_offset", offset)


def _split(x: Float[Tensor, "batch n width"], heads: int) -> Float[Tensor, "batch heads n d"]:
    """Cut each token's vector into one piece a head."""
    batch, n, width = x.shape
    return x.view(batch, n, heads, width // heads).transpose(1, 2)


def _join(context: Float[Tensor, "batch heads n d"]) -> Float[Tensor, "batch n width"]:
    """Lay all heads' pieces of a token side by side again."""
    return context.transpose(1, 2).flatten(2)
