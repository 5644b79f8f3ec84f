"""What one call of a stack tells its layers: who may look at whom, and where the tokens stand.

Layers of one kind are told the same, so each mask, angle and bias is made once a call.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.errors import InputError
from clearhead.masks import (
    Mask,
    causal_mask,
    chunked_mask,
    document_mask,
    full_mask,
    padding_mask,
    sliding_window_mask,
)
from clearhead.pipeline.rule import ScoreRule
from clearhead.positions.bias import AlibiBias
from clearhead.positions.kinds import Alibi, Rotary, T5Buckets
from clearhead.positions.position_bias import PositionBias
from clearhead.positions.rotary import Phases, RotaryEmbedding
from clearhead.transformer.cache_step import CacheStep
from clearhead.transformer.config import LayerKind, QueryTemperature, TransformerConfig
from clearhead.transformer.layers import LayerCall

__all__ = ["Call", "Encoded"]

_Made = TypeVar("_Made")


@dataclass(frozen=True, eq=False)
class Encoded:
    """What an encoder made of a text, for a decoder to look at.

    Attributes:
        hidden: a vector for each of its tokens.
        real: which of them are real; None is all.
    """

    hidden: Float[Tensor, "batch m d_source"]
    real: Bool[Tensor, "batch m"] | None = None


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a stack.

    Attributes:
        config: of the stack.
        ids: its tokens.
        real: which are real; None is all.
        documents: which text of several packed in a row each token belongs to; None is one text.
        step: the tokens' way into a cache, or None.
        source: what an encoder made of another text, or None.
        relative_bias: the stack's bias by distance, where it has one that is learned.
    """

    config: TransformerConfig
    ids: Int[Tensor, "batch n"]
    real: Bool[Tensor, "batch n"] | None = None
    documents: Int[Tensor, "batch n"] | None = None
    step: CacheStep | None = None
    source: Encoded | None = None
    relative_bias: PositionBias | None = None
    _made: dict[object, object] = field(default_factory=dict[object, object])

    def positions(self) -> Int[Tensor, "#batch n"]:
        """Where each token stands in its text: real ones are counted from 0 on."""
        return self._once("positions", self._positions)

    def layer(self, index: int, *, dtype: torch.dtype) -> LayerCall:
        """What one layer is told.

        Args:
            index: its number.
            dtype: of the residual stream.
        """
        place = index % len(self.config.pattern)
        rule, phases, temperature = self._once(place, lambda: self._shared(index, dtype))
        step, device = self.step, self.ids.device
        memory = None if step is None else step.enter(index, dtype=dtype, device=device)
        call = LayerCall(rule, phases, temperature, memory)
        return call if self.config.encoder is None else self._across(call, index)

    def _shared(
        self, index: int, dtype: torch.dtype
    ) -> tuple[ScoreRule, Phases | None, Float[Tensor, "#batch 1 n 1"] | None]:
        """What all layers at one place of the pattern are told."""
        kind, rotary = self.config.layer_kind(index), self.config.rotary(index)
        heat = kind.temperature
        return (
            self._once(("rule", kind.window, kind.chunk), lambda: self._rule(kind)),
            None if rotary is None else self._once(rotary, lambda: self._phases(rotary, dtype)),
            None
            if heat is None
            else self._once(("temperature", heat), lambda: self._temperature(heat)),
        )

    def _across(self, call: LayerCall, index: int) -> LayerCall:
        source = self.source
        assert source is not None
        mask = None if source.real is None else padding_mask(source.real)
        return replace(
            call,
            source=source.hidden,
            cross_rule=self._once("cross", lambda: ScoreRule(mask=mask)),
            cross_memory=None if self.step is None else self.step.cache.cross[index],
        )

    def _once(self, name: object, make: Callable[[], _Made]) -> _Made:
        if name not in self._made:
            self._made[name] = make()
        return cast("_Made", self._made[name])

    def _positions(self) -> Int[Tensor, "#batch n"]:
        device = self.ids.device
        if self.step is not None:
            return self.step.positions(device)
        steps = torch.arange(self.ids.shape[1], device=device)[None]
        if self.documents is not None:
            return steps - self._document_starts()
        if self.real is None:
            return steps
        return (self.real.long().cumsum(-1) - 1).clamp(min=0)

    def _document_starts(self) -> Int[Tensor, "batch n"]:
        """Where in its row the document of each token begins."""
        assert self.documents is not None
        steps = torch.arange(self.ids.shape[1], device=self.ids.device).expand_as(self.documents)
        begins = torch.ones_like(self.documents, dtype=torch.bool)
        begins[:, 1:] = self.documents[:, 1:] != self.documents[:, :-1]
        return torch.where(begins, steps, 0).cummax(-1).values

    def _rule(self, kind: LayerKind) -> ScoreRule:
        self._refuse_holes(kind)
        mask: Mask = causal_mask() if self.config.kind == "decoder" else full_mask()
        if kind.window is not None:
            mask = mask & sliding_window_mask(kind.window)
        if kind.chunk is not None:
            mask = mask & chunked_mask(kind.chunk, start=self._first())
        if self.documents is not None:
            mask = mask & document_mask(self.documents)
        if self.step is not None:
            return ScoreRule(mask=mask, bias=self._bias(), query_start=self.step.query_start)
        if self.real is not None:
            mask = mask & padding_mask(self.real)
        return ScoreRule(mask=mask, bias=self._bias())

    def _bias(self) -> PositionBias | None:
        match self.config.positions:
            case Alibi():
                return AlibiBias(self.config.heads)
            case T5Buckets():
                return self.relative_bias
            case _:
                return None

    def _first(self) -> int | Int[Tensor, "batch"]:
        """Slot of the first real token of each row, from which chunks are counted."""
        if self.step is not None or self.real is None:
            return 0  # a cache has no padding
        return self.real.int().argmax(-1)

    def _refuse_holes(self, kind: LayerKind) -> None:
        """Distances are counted in slots, so padding between real tokens would stretch them."""
        measured = kind.window or kind.chunk or isinstance(self.config.positions, Alibi | T5Buckets)
        if self.real is not None and (measured or self.step is not None):
            switches = (self.real[:, 1:] != self.real[:, :-1]).sum(-1)
            ends = self.real[:, -1:].int().sum(-1) + self.real[:, :1].int().sum(-1)
            holes = (switches > 2 - ends) & self.real.any(-1)
            if bool(holes.any()):
                row = int(holes.int().argmax())
                raise InputError(
                    f"attention_mask has padding between real tokens in row {row}: with windows, "
                    "chunks, a bias by distance or a cache, padding may stand only at either end"
                )
        if self.documents is not None and kind.chunk is not None:
            raise InputError("documents= cannot be packed where layers look at chunks of a row")

    def _phases(self, rotary: Rotary, dtype: torch.dtype) -> Phases:
        embedding, positions = RotaryEmbedding(self.config.d_k, rotary), self.positions()
        if not rotary.depends_on_length:
            return embedding.phases(positions, dtype=dtype)
        if self.documents is not None:
            raise InputError(
                "documents= cannot be packed where rotary positions depend on a text's length"
            )
        return embedding.phases(positions, dtype=dtype, lengths=self._lengths())

    def _lengths(self) -> Int[Tensor, "batch"]:
        """Real tokens of each row's text, those of the past included."""
        device, (batch, n) = self.ids.device, self.ids.shape
        if self.step is not None:
            return torch.tensor(self.step.ends, device=device)
        if self.real is None:
            return torch.full((batch,), n, device=device)
        return self.real.sum(-1)

    def _temperature(self, heat: QueryTemperature) -> Float[Tensor, "#batch 1 n 1"]:
        places = ((self.positions().float() + 1.0) / heat.floor).floor()
        return (places.log1p() * heat.strength + 1.0)[:, None, :, None]
