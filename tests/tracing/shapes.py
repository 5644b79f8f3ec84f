"""Our own Transformer in many shapes, small and random, all with 99 tokens and a width of 32.

Weights are drawn large, so that attention is not flat.
"""

from dataclasses import replace

import torch
from torch import Tensor

from clearhead.pipeline.rule import ScoreRule
from clearhead.positions.kinds import Alibi, Learned, Rotary, Sinusoidal, T5Buckets
from clearhead.positions.position_bias import PositionBias
from clearhead.transformer.config import (
    Experts,
    LayerKind,
    QueryTemperature,
    TransformerConfig,
)
from clearhead.transformer.model import Transformer

__all__ = ["ACROSS", "ALONE", "dense_bias", "drawn"]

_LLAMA = TransformerConfig(
    vocabulary_size=99,
    context_length=64,
    d_model=32,
    d_ff=48,
    layers=2,
    heads=4,
    kv_heads=2,
)
_GPT2 = replace(
    _LLAMA,
    kv_heads=4,
    positions=Learned(),
    norm="layer",
    activation="gelu_tanh",
    gated=False,
    input_bias=True,
    output_bias=True,
    feed_forward_bias=True,
    tied_embeddings=True,
)
_BERT = replace(
    _GPT2,
    kind="encoder",
    norm_place="after",
    embedding_norm=True,
    final_norm=False,
    token_types=2,
    logits_transform=True,
    logits_bias=True,
)
_T5 = replace(
    _LLAMA,
    kv_heads=4,
    d_k=6,
    context_length=None,
    positions=T5Buckets(buckets=8, max_distance=10),
    scale=1.0,
    gated=False,
    activation="relu",
    tied_embeddings=True,
)

#: Models of one stack, by what they are like.
ALONE: dict[str, TransformerConfig] = {
    "Llama": _LLAMA,
    "GPT-2": _GPT2,
    "GPT-2 post-norm": replace(_GPT2, norm_place="after", final_norm=False, heads=2, kv_heads=1),
    "Gemma": replace(
        _LLAMA,
        d_k=8,
        d_v=12,
        pattern=(LayerKind(window=4, rotary=Rotary(theta=100.0)), LayerKind(scale=0.3)),
        norm_place="around",
        norm_offset=1.0,
        softcap=2.0,
        query_key_norm="head",
        logits_softcap=8.0,
        embedding_scale=5.0,
        activation="gelu_tanh",
    ),
    "Llama 4": replace(
        _LLAMA,
        positions=Rotary(interleaved=True),
        query_key_norm="rotated",
        pattern=(
            LayerKind(chunk=5, experts=Experts(count=4, chosen=2, d_ff=24)),
            LayerKind(rotary="none", temperature=QueryTemperature(strength=0.5, floor=3.0)),
        ),
    ),
    "NeoX": replace(_GPT2, parallel=True, positions=Rotary(width=4)),
    "ALiBi": replace(_GPT2, heads=6, kv_heads=3, d_k=8, positions=Alibi(), context_length=None),
    "T5's decoder": _T5,
    "sinks": replace(_LLAMA, sinks=True),
    "no positions": replace(_LLAMA, positions=None),
    "BERT": _BERT,
    "an encoder with windows": replace(
        _BERT, positions=Sinusoidal(), pattern=(LayerKind(window=3), LayerKind())
    ),
    "an encoder with distances": replace(_T5, kind="encoder", tied_embeddings=False),
}


def _with_encoder(config: TransformerConfig, **different: object) -> TransformerConfig:
    encoder = {
        "kind": "encoder",
        "predicts": False,
        "tied_embeddings": False,
        "logits_bias": False,
        "layers": 3,
    }
    return replace(config, encoder=replace(config, **{**encoder, **different}))


#: Encoder-decoders, by what they are like: three encoder and two decoder layers.
ACROSS: dict[str, TransformerConfig] = {
    "T5": _with_encoder(_T5),
    "BART": _with_encoder(
        replace(_BERT, kind="decoder", token_types=0, logits_transform=False),
        heads=2,
        kv_heads=2,
        d_k=16,
        d_v=16,
        context_length=40,
    ),
    "turned": _with_encoder(_LLAMA, heads=3, kv_heads=3, d_k=6, d_v=4),
}


def drawn(config: TransformerConfig) -> Transformer:
    """A model of random weights, in evaluation mode; draw inside ``seeded_weights``."""
    model = Transformer(config)
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, std=0.3)
        if config.scale == 1.0 and "to_query" in name:  # as T5 draws them
            parameter.data /= config.d_k**0.5
        if "norm" in name and name.endswith("weight") and not config.norm_offset:
            parameter.data += 1
    return model.eval()


def dense_bias(rule: ScoreRule, shape: tuple[int, int]) -> Tensor | None:
    """The bias of a rule written out, in float64 where it is made by positions."""
    if not isinstance(rule.bias, PositionBias):
        return rule.bias
    n, m = shape
    return rule.bias.tile(range(n), range(m), dtype=torch.float64).detach()
