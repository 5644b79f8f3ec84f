"""Random Transformers: every field of a configuration drawn, in combinations nobody thought of.

A law of the Transformer holds in any model that can be built. Lists of models hold what their
author thought of; these are other ones in every run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from clearhead.positions.kinds import Alibi, Learned, Positions, Rotary, Sinusoidal, T5Buckets
from clearhead.positions.scaling import (
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    RotaryScaling,
    YarnScaling,
)
from clearhead.transformer.cache import KVCache
from clearhead.transformer.calls import Encoded
from clearhead.transformer.config import Experts, LayerKind, QueryTemperature, TransformerConfig
from clearhead.transformer.model import Transformer

__all__ = [
    "KINDS",
    "VOCABULARY",
    "Drawing",
    "filled",
    "held",
    "row_of",
    "run",
    "some_ids",
    "source_of",
]

VOCABULARY = 31
KINDS = ("decoder", "encoder", "encoder and decoder")
_Value = TypeVar("_Value")


def some_ids(generator: torch.Generator, *shape: int) -> Tensor:
    """Random tokens."""
    return torch.randint(0, VOCABULARY, shape, generator=generator)


@dataclass(frozen=True)
class Drawing:
    """Draws configurations and models.

    Attributes:
        generator: where the random numbers come from.
        mixing: whether layers may have experts. A product over the tokens that chose an expert
            rounds by how many they are, so laws about the bits of neighbours hold without them.
        local: whether layers may have windows and chunks.
        chunked: whether they may have chunks.
        growing: whether angles may depend on the length of the text.
        placed: whether there are positions of any kind.
    """

    generator: torch.Generator
    mixing: bool = True
    local: bool = True
    chunked: bool = True
    growing: bool = True
    placed: bool = True

    def model(
        self, kind: str, *, dtype: torch.dtype = torch.float64, **changed: object
    ) -> Transformer:
        """A model, some of its fields given, with weights so large that attention is not flat."""
        model = Transformer(replace(self.config(kind), **changed)).eval()
        for parameter in model.parameters():
            drawn = 0.3 * torch.randn(parameter.shape, generator=self.generator)
            with torch.no_grad():
                parameter.copy_(drawn + parameter if parameter.dim() == 1 else drawn)
        return model.to(dtype)

    def config(self, kind: str) -> TransformerConfig:
        """A configuration: a decoder, an encoder, or both."""
        if kind != "encoder and decoder":
            return TransformerConfig(**self._fields("encoder" if kind == "encoder" else "decoder"))
        encoder = {**self._fields("encoder"), "pooler": False, **_SILENT}
        decoder = {**self._fields("decoder"), "d_model": encoder["d_model"], "parallel": False}
        return TransformerConfig(**decoder, encoder=TransformerConfig(**encoder))

    def one(self, *choices: _Value) -> _Value:
        """One of several values."""
        return choices[int(torch.randint(len(choices), (), generator=self.generator))]

    def maybe(self) -> bool:
        """Yes or no."""
        return self.one(True, False)

    def _fields(self, kind: Literal["decoder", "encoder"]) -> dict[str, Any]:
        d_k, rms, place = self.one(4, 6, 8), self.maybe(), self.one("before", "after", "around")
        found: dict[str, Any] = {
            "kind": kind,
            "vocabulary_size": VOCABULARY,
            "context_length": 64,
            "d_model": 16,
            "d_ff": 20,
            "layers": self.one(2, 3),
            "heads": 4,
            "kv_heads": self.one(1, 2, 4),
            "d_k": d_k,
            "d_v": self.one(0, 5),
            "positions": self._positions(d_k) if self.placed else None,
            "pattern": tuple(self._layer() for _ in range(self.one(1, 2))),
            "norm": "rms" if rms else "layer",
            "norm_offset": self.one(0.0, 1.0) if rms else 0.0,
            "norm_place": place,
            "parallel": place == "before" and self.maybe(),
            "scale": self.one(None, None, 0.7),
            "softcap": self.one(None, None, 2.0),
            "query_key_norm": self.one(None, "head", "rotated"),
            "embedding_scale": self.one(1.0, 4.0),
            "activation": self.one("gelu", "gelu_tanh", "quick_gelu", "relu", "silu"),
            "logits_scale": self.one(1.0, 0.25),
            "logits_softcap": self.one(None, 3.0),
            "pooler": kind == "encoder" and self.maybe(),
        }
        return found | {name: self.maybe() for name in _FLAGS}

    def _layer(self) -> LayerKind:
        near = self.one("window", "chunk", None) if self.local else None
        size = self.one(1, 2, 3, 5)
        mixed = self.mixing and self.one(True, False, False)
        return LayerKind(
            window=size if near == "window" else None,
            chunk=size if near == "chunk" and self.chunked else None,
            rotary=self.one("model", "model", "none", Rotary(theta=50.0))
            if self.placed
            else "none",
            scale=self.one(None, 0.4),
            temperature=self.one(None, QueryTemperature(strength=0.6, floor=2.0))
            if self.placed
            else None,
            experts=Experts(count=3, chosen=2, d_ff=6, shared=self.maybe()) if mixed else None,
            d_ff=self.one(None, 12),
        )

    def _positions(self, d_k: int) -> Positions | None:
        width = self.one(None, 4)
        pairs = (width or d_k) // 2
        return self.one(
            None,
            Learned(self.one(0, 2)),
            Sinusoidal(self.one("interleaved", "halves")),
            Alibi(),
            T5Buckets(buckets=4, max_distance=6),
            *2 * [Rotary(theta=99.0, width=width, interleaved=self.maybe())],
            Rotary(theta=99.0, width=width, scaling=self._scaling(pairs)),
        )

    def _scaling(self, pairs: int) -> RotaryScaling:
        short, long = ([start + 0.2 * p for p in range(pairs)] for start in (1.0, 2.0))
        kinds: Sequence[RotaryScaling] = (
            LinearScaling(3.0),
            Llama3Scaling(4.0, 1.0, 4.0, original_context=8),
            YarnScaling(4.0, original_context=8, attention_factor=1.1),
            *2 * [LongRopeScaling(tuple(short), tuple(long), 6, attention_factor=1.2)],
        )
        return self.one(*(kinds if self.growing else kinds[:3]))


_SILENT = {"predicts": False, "logits_transform": False, "logits_bias": False} | {
    "tied_embeddings": False,
    "logits_softcap": None,
}
_FLAGS = (
    *("input_bias", "output_bias", "sinks", "gated", "feed_forward_bias", "final_norm"),
    *("embedding_norm", "logits_transform", "logits_bias", "tied_embeddings"),
)


# ---------------------------------------------------------------------------- what models are given


def filled(
    texts: list[Tensor], *, side: str, width: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Texts as one batch, filled up with random tokens; and which tokens are real."""
    ids = some_ids(generator, len(texts), width)
    real = torch.zeros_like(ids, dtype=torch.bool)
    for row, text in enumerate(texts):
        place = slice(width - len(text), width) if side == "left" else slice(len(text))
        ids[row, place], real[row, place] = text, True
    return ids, real


def source_of(model: Transformer, generator: torch.Generator, *, rows: int) -> Encoded | None:
    """What an encoder made of texts of different length."""
    if model.encoder is None:
        return None
    texts = [some_ids(generator, 3 + 2 * row) for row in range(rows)]
    ids, real = filled(texts, side="right", width=3 + 2 * rows, generator=generator)
    return model.encode(ids, attention_mask=real)


def row_of(source: Encoded | None, row: int) -> Encoded | None:
    """One row of it, without its padding."""
    if source is None:
        return None
    real = slice(None) if source.real is None else source.real[row]
    return Encoded(source.hidden[row : row + 1, real])


def run(model: Transformer, ids: Tensor, **given: object) -> Tensor:
    """Last vectors."""
    return model(ids, **given).hidden


def held(model: Transformer, *, batch: int, capacity: int = 64) -> KVCache:
    """A cache in the dtype of the model."""
    dtype = next(model.parameters()).dtype
    return KVCache(model.config, batch=batch, capacity=capacity, dtype=dtype)
