"""GGUF files of Phi-3 (and Phi-4, which says it is one): fused products, two sets of factors."""

from typing import Any

import numpy as np

from clearhead.positions.scaling import longrope_attention_factor
from clearhead.transformer.gguf.architecture import Architecture
from clearhead.transformer.gguf.llama import LLAMA_MODULES, llama_like
from clearhead.transformer.gguf.settings import Settings

__all__ = ["PHI3"]

_APART = ("attn_q", "attn_k", "attn_v", "ffn_gate")


def _phi3(settings: Settings) -> dict[str, Any]:
    config = llama_like(settings)
    context = config["max_position_embeddings"]
    original = settings.whole("rope.scaling.original_context_length", context)
    window = settings.value("attention.sliding_window")
    if window is not None and (type(window) is not int or not 0 <= window < 2**31):
        settings.fault("attention.sliding_window", "a whole number, 0 for none", window)
    return {
        "architectures": ["Phi3ForCausalLM"],
        "model_type": "phi3",
        "hidden_act": "silu",
        **config,
        "original_max_position_embeddings": original,
        "rope_parameters": _rotary(settings, config, original=original),
        "sliding_window": window or None,
        "pad_token_id": None,
    }


def _rotary(settings: Settings, config: dict[str, Any], *, original: int) -> dict[str, Any]:
    width = config["head_dim"]
    turning = settings.whole("rope.dimension_count", width)
    if turning > width:
        settings.fault("rope.dimension_count", f"at most {width}, the width of a head", turning)
    told: dict[str, Any] = {
        "rope_type": "default",
        "rope_theta": settings.real("rope.freq_base", 10_000.0),
        "partial_rotary_factor": turning / width,
    }
    short = settings.factors("rope_factors_short.weight")
    long = settings.factors("rope_factors_long.weight")
    if short is None or long is None:
        return told
    attention = settings.real("rope.scaling.attn_factor", 1.0)
    factor = config["max_position_embeddings"] / original
    if original > 1:
        natural = longrope_attention_factor(factor, original_context=original)
        # 32 bits of what follows from the lengths; with all its bits it is what was meant
        attention = natural if np.float32(natural) == np.float32(attention) else attention
    return told | {
        "rope_type": "longrope",
        "short_factor": short,
        "long_factor": long,
        "factor": factor,
        "original_max_position_embeddings": original,
        "attention_factor": attention,
    }


PHI3 = Architecture(
    name="phi3",
    config=_phi3,
    modules={
        **{name: one for name, one in LLAMA_MODULES.items() if not name.endswith(_APART)},
        "blk.{layer}.attn_qkv": "model.layers.{layer}.self_attn.qkv_proj",
        "blk.{layer}.ffn_up": "model.layers.{layer}.mlp.gate_up_proj",
    },
    settings_as_tensors=frozenset({"rope_factors_long.weight", "rope_factors_short.weight"}),
)
