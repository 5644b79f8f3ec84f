"""GGUF files of Gemma 2 and Gemma 3 (text)."""

from typing import Any, cast

from clearhead.transformer.gguf.architecture import Architecture, Raised
from clearhead.transformer.gguf.llama import LLAMA_MODULES, llama_like, rotary
from clearhead.transformer.gguf.settings import Settings

__all__ = ["GEMMA2", "GEMMA3"]

_MODULES = {
    **LLAMA_MODULES,
    "blk.{layer}.attn_norm": Raised("model.layers.{layer}.input_layernorm"),
    "blk.{layer}.post_attention_norm": Raised("model.layers.{layer}.post_attention_layernorm"),
    "blk.{layer}.ffn_norm": Raised("model.layers.{layer}.pre_feedforward_layernorm"),
    "blk.{layer}.post_ffw_norm": Raised("model.layers.{layer}.post_feedforward_layernorm"),
    "output_norm": Raised("model.norm"),
}


def _gemma(settings: Settings, *, largest: int) -> dict[str, Any]:
    """What both have in common; the one model of so many layers has a scale of its own.

    Files do not tell the scale: it is 1/√width, but for the 27B models, where it is
    1/√(d_model/heads).
    """
    config = llama_like(settings)
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    is_largest = config["num_hidden_layers"] == largest
    return {
        **config,
        "query_pre_attn_scalar": hidden // heads if is_largest else config["head_dim"],
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": False,
    }


def _layer_types(settings: Settings, layers: int, *, every: int) -> list[str]:
    """Which layers have a window: all but each so-manieth, or as the file lists them."""
    told = settings.value("attention.sliding_window_pattern")
    slides = [(layer + 1) % every != 0 for layer in range(layers)]
    if isinstance(told, list):
        listed = cast("list[object]", told)
        slides = [bool(one) for one in listed]
        if len(listed) != layers or not all(type(one) is bool for one in listed):
            settings.fault("attention.sliding_window_pattern", f"{layers} truth values", listed)
    elif type(told) is int and told > 0:
        slides = [told > 1 and (layer + 1) % told != 0 for layer in range(layers)]
    elif told is not None:
        settings.fault("attention.sliding_window_pattern", "a positive whole number", told)
    return ["sliding_attention" if one else "full_attention" for one in slides]


def _gemma2(settings: Settings) -> dict[str, Any]:
    config = _gemma(settings, largest=46)
    context, width = config["max_position_embeddings"], config["head_dim"]
    return {
        "architectures": ["Gemma2ForCausalLM"],
        "model_type": "gemma2",
        **config,
        "rope_parameters": rotary(settings, context=context, width=width),
        "sliding_window": settings.whole("attention.sliding_window", 4096),
        "layer_types": _layer_types(settings, config["num_hidden_layers"], every=2),
        "attn_logit_softcapping": settings.real("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": settings.real("final_logit_softcapping", 30.0),
    }


def _gemma3(settings: Settings) -> dict[str, Any]:
    config = _gemma(settings, largest=62)
    context, width = config["max_position_embeddings"], config["head_dim"]
    # a file without a window has none in any layer
    every = 6 if "attention.sliding_window" in settings else 1
    kinds = _layer_types(settings, config["num_hidden_layers"], every=every)
    near = {"rope_type": "default", "rope_theta": settings.real("rope.freq_base_swa", 10_000.0)}
    far = rotary(settings, context=context, width=width, theta=1_000_000.0)
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        **config,
        "rope_parameters": {"sliding_attention": near, "full_attention": far},
        "sliding_window": settings.whole("attention.sliding_window", 4096),
        "layer_types": kinds,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": settings.maybe_real("final_logit_softcapping"),
    }


GEMMA2 = Architecture(name="gemma2", config=_gemma2, modules=_MODULES)
GEMMA3 = Architecture(
    name="gemma3",
    config=_gemma3,
    modules={
        **_MODULES,
        "blk.{layer}.attn_q_norm": Raised("model.layers.{layer}.self_attn.q_norm"),
        "blk.{layer}.attn_k_norm": Raised("model.layers.{layer}.self_attn.k_norm"),
    },
)
