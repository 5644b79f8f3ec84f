"""Tells what many families spell alike: sizes, rotary positions, and which layers have a window."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

from clearhead.positions.kinds import Positions, Rotary
from clearhead.positions.scaling import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    RotaryScaling,
    YarnScaling,
)
from clearhead.transformer.config import LayerKind, TransformerConfig

__all__ = [
    "ACTIVATION_NAMES",
    "NO_TOKENS",
    "kinds",
    "layer_types",
    "rotary",
    "scalar",
    "sizes",
    "turning_part",
]

#: What configs call our activations.
ACTIVATION_NAMES: Mapping[str, str] = {
    "gelu": "gelu",
    "gelu_tanh": "gelu_pytorch_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "silu": "silu",
}
#: Tokens are the tokenizer's to tell: the classes' own guesses may not even be in the vocabulary.
NO_TOKENS = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
_SCALINGS: Mapping[type, str] = {
    LinearScaling: "linear",
    DynamicScaling: "dynamic",
    YarnScaling: "yarn",
    LongRopeScaling: "longrope",
    Llama3Scaling: "llama3",
}
#: What configs call the numbers of a scaling.
_SPELLINGS = {
    "original_context": "original_max_position_embeddings",
    "low_frequency_factor": "low_freq_factor",
    "high_frequency_factor": "high_freq_factor",
    "short_factors": "short_factor",
    "long_factors": "long_factor",
}


def sizes(config: TransformerConfig) -> dict[str, Any]:
    """How large a model is, and that it names no tokens.

    Args:
        config: the configuration.
    """
    return {
        **NO_TOKENS,
        "vocab_size": config.vocabulary_size,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
    }


def scalar(config: TransformerConfig) -> float:
    """What the scale is one over the root of; a whole number where it is meant to be one.

    Args:
        config: the configuration.
    """
    given = float(config.d_k) if config.scale is None else config.scale**-2
    whole = round(given)
    return whole if whole and whole**-0.5 == config.scale else given


def kinds(config: TransformerConfig) -> list[LayerKind]:
    """The kind of every layer, from the first to the last.

    Args:
        config: the configuration.
    """
    return [config.layer_kind(layer) for layer in range(config.layers)]


def layer_types(config: TransformerConfig) -> list[str]:
    """Which layers have a window, in the words of configs.

    Args:
        config: the configuration.
    """
    return [
        "full_attention" if kind.window is None else "sliding_attention" for kind in kinds(config)
    ]


def rotary(positions: Positions | None, config: TransformerConfig) -> dict[str, Any]:
    """Base and scaling; what part of a head turns only some families can tell.

    Args:
        positions: the positions; others than rotary ones are not told.
        config: the configuration they belong to.
    """
    if not isinstance(positions, Rotary):
        return {}
    return {"rope_theta": positions.theta, **_scaling(positions.scaling, config)}


def turning_part(config: TransformerConfig) -> dict[str, float]:
    """What part of a head turns.

    Args:
        config: the configuration.
    """
    width = config.positions.width if isinstance(config.positions, Rotary) else None
    return {"partial_rotary_factor": 1.0 if width is None else width / config.d_k}


def _scaling(scaling: RotaryScaling | None, config: TransformerConfig) -> dict[str, Any]:
    if scaling is None:
        return {"rope_type": "default"}
    told = {
        _SPELLINGS.get(one.name, one.name): _plain(getattr(scaling, one.name))
        for one in fields(scaling)
    }
    if isinstance(scaling, DynamicScaling):
        del told["original_max_position_embeddings"]  # its models go by the whole context
    if isinstance(scaling, LongRopeScaling):
        told["factor"] = (config.context_length or 1) / scaling.original_context
    return {"rope_type": _SCALINGS[type(scaling)], **told}


def _plain(value: Any) -> Any:
    return list(cast("tuple[float, ...]", value)) if isinstance(value, tuple) else value
