"""Small random models of our own, as different from one another as a configuration allows."""

from collections.abc import Mapping

import torch

from clearhead.positions.kinds import Alibi, Learned, Rotary, Sinusoidal, T5Buckets
from clearhead.positions.scaling import LinearScaling, LongRopeScaling
from clearhead.transformer.config import Experts, LayerKind, QueryTemperature, TransformerConfig
from clearhead.transformer.model import Transformer

__all__ = ["BOTH", "DECODERS", "ENCODERS", "VOCABULARY", "some_ids", "tiny", "tiny_config"]

VOCABULARY = 29
_POST = {"norm": "layer", "norm_place": "after", "final_norm": False, "embedding_norm": True}
_PLAIN = {"gated": False, "activation": "gelu", "input_bias": True, "output_bias": True}
_LONG = LongRopeScaling((1.0, 1.2), (2.0, 3.0), original_context=9, attention_factor=1.1)
_EXPERTS = Experts(count=3, chosen=2, d_ff=8)
_HEAT = QueryTemperature(strength=0.5, floor=3.0)

#: Models that predict what comes next, by what is particular to them.
DECODERS: Mapping[str, Mapping[str, object]] = {
    "grouped heads": {},
    "learned positions": {"positions": Learned(2), "norm": "layer", **_PLAIN},
    "sinusoids": {"positions": Sinusoidal(), **_POST, **_PLAIN},
    "alibi": {"positions": Alibi(), "kv_heads": 1},
    "buckets": {"positions": T5Buckets(buckets=4, max_distance=6), "scale": 1.0},
    "no positions": {"positions": None, "d_v": 5},
    "windows between": {"pattern": (LayerKind(window=3), LayerKind()), "sinks": True},
    "windows with own angles": {
        "pattern": (LayerKind(window=4, rotary=Rotary(theta=100.0)), LayerKind()),
        "positions": Rotary(scaling=LinearScaling(2.0), width=2),
        "norm_place": "around",
        "norm_offset": 1.0,
        "query_key_norm": "head",
        "softcap": 3.0,
        "logits_softcap": 5.0,
    },
    "chunks and experts": {
        "pattern": (
            LayerKind(chunk=4, experts=_EXPERTS),
            LayerKind(rotary="none", temperature=_HEAT),
        ),
        "positions": Rotary(interleaved=True),
        "query_key_norm": "rotated",
    },
    "side by side": {"parallel": True, "norm": "layer", **_PLAIN},
    "two sets of angles": {"positions": Rotary(scaling=_LONG), "tied_embeddings": True},
}
#: Models that look both ways.
ENCODERS: Mapping[str, Mapping[str, object]] = {
    "masked": {
        "positions": Learned(),
        "token_types": 2,
        "logits_transform": True,
        "logits_bias": True,
        "tied_embeddings": True,
        **_POST,
        **_PLAIN,
    },
    "pooled": {"positions": Learned(), "predicts": False, "pooler": True, **_POST, **_PLAIN},
    "windows": {"pattern": (LayerKind(window=3), LayerKind())},
    "distances": {"positions": T5Buckets(buckets=4, max_distance=6)},
}
#: Decoders that look at an encoded text.
BOTH: Mapping[str, Mapping[str, object]] = {
    "distances alone": {"positions": T5Buckets(buckets=4, max_distance=6), "scale": 1.0},
    "as first published": {"positions": Sinusoidal(), **_POST, **_PLAIN, "tied_embeddings": True},
    "norms around": {"norm_place": "around", "query_key_norm": "head", "kv_heads": 2},
}


def tiny_config(name: str = "grouped heads", **changed: object) -> TransformerConfig:
    """The configuration of a model, with some of its fields changed."""
    sizes: dict[str, object] = {
        "vocabulary_size": VOCABULARY,
        "context_length": 64,
        "d_model": 16,
        "d_ff": 24,
        "layers": 3,
        "heads": 4,
    }
    if name in DECODERS:
        sizes |= {"kv_heads": 2, **DECODERS[name]}
    elif name in ENCODERS:
        sizes |= {"kind": "encoder", **ENCODERS[name]}
    else:
        sizes |= BOTH[name]
        shared = {key: value for key, value in sizes.items() if key != "tied_embeddings"}
        encoder = {**shared, "layers": 2, "heads": 2, "kv_heads": 1, "d_k": 8}
        sizes["encoder"] = TransformerConfig(**encoder, kind="encoder", predicts=False)
    return TransformerConfig(**{**sizes, **changed})


def tiny(
    name: str = "grouped heads", *, dtype: torch.dtype = torch.float64, **changed: object
) -> Transformer:
    """A model with random weights, so large that attention is not flat."""
    model = Transformer(tiny_config(name, **changed)).eval().to(dtype)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def some_ids(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """Random tokens of their vocabulary."""
    return torch.randint(0, VOCABULARY, shape, generator=generator)
