"""Gemma 2 and Gemma 3 (text): norms around each part, and layers with windows between others."""

from typing import Any

from clearhead.positions.kinds import Rotary
from clearhead.transformer.config import LayerKind
from clearhead.transformer.families.family import Family
from clearhead.transformer.families.keys import ConfigKeys
from clearhead.transformer.families.llama import LLAMA_MODULES
from clearhead.transformer.families.reading import (
    layer_windows,
    read_rotary,
    shortest,
    turning,
)

__all__ = ["GEMMA2", "GEMMA3"]

_MODULES = {
    **LLAMA_MODULES,
    "model.layers.{layer}.post_attention_layernorm": "layers.{layer}.attention_out_norm",
    "model.layers.{layer}.pre_feedforward_layernorm": "layers.{layer}.feed_forward_norm",
    "model.layers.{layer}.post_feedforward_layernorm": "layers.{layer}.feed_forward_out_norm",
}
_TWINS = {"lm_head.weight": "model.embed_tokens.weight"}


def _gemma(keys: ConfigKeys, *, context: int) -> dict[str, Any]:
    d_model, biases = keys.size("hidden_size"), keys.flag("attention_bias", default=False)
    d_head = keys.size("head_dim", default=256)
    keys.only("use_bidirectional_attention", known=False)
    return {
        "vocabulary_size": keys.size("vocab_size"),
        "context_length": context,
        "d_model": d_model,
        "d_ff": keys.size("intermediate_size"),
        "layers": keys.size("num_hidden_layers"),
        "heads": keys.size("num_attention_heads"),
        "kv_heads": keys.size("num_key_value_heads", default=4),
        "d_k": d_head,
        "d_v": d_head,
        "embedding_scale": d_model**0.5,
        "norm_epsilon": keys.number("rms_norm_eps", default=1e-6),
        "norm_offset": 1.0,
        "norm_place": "around",
        "scale": keys.number("query_pre_attn_scalar", default=256) ** -0.5,
        "input_bias": biases,
        "output_bias": biases,
        "activation": _activation(keys),
        "tied_embeddings": keys.flag("tie_word_embeddings", default=True),
    }


def _activation(keys: ConfigKeys) -> str:
    # older files name the first one wrongly beside it: the models never used "gelu"
    keys.value("hidden_act")
    return keys.activation("hidden_activation", default="gelu_pytorch_tanh")


def _gemma2(keys: ConfigKeys) -> dict[str, Any]:
    context = keys.size("max_position_embeddings", default=8192)
    fields = _gemma(keys, context=context)
    layers, kinds = fields["layers"], ["sliding_attention", "full_attention"]
    windows = layer_windows(keys, layers=layers, kinds=kinds, window=4096)
    return {
        **fields,
        "pattern": shortest(_all(windows, layers)),
        "positions": read_rotary(keys, d_k=fields["d_k"], context=context),
        "softcap": keys.maybe_number("attn_logit_softcapping", default=50.0),
        "logits_softcap": keys.maybe_number("final_logit_softcapping", default=30.0),
    }


def _gemma3(keys: ConfigKeys) -> dict[str, Any]:
    context = keys.size("max_position_embeddings", default=131_072)
    fields = _gemma(keys, context=context)
    every = keys.size(
        "sliding_window_pattern", default=keys.size("_sliding_window_pattern", default=6)
    )
    layers = fields["layers"]
    kinds = ["sliding_attention" if n % every else "full_attention" for n in range(1, layers + 1)]
    near, far = _rotaries(keys, d_k=fields["d_k"], context=context)
    windows = _all(layer_windows(keys, layers=layers, kinds=kinds, window=4096), layers)
    return {
        **fields,
        "pattern": shortest(
            [
                LayerKind(window=kind.window, rotary="model" if kind.window is None else near)
                for kind in windows
            ]
        ),
        "positions": far,
        "query_key_norm": "head",
        "softcap": keys.maybe_number("attn_logit_softcapping", default=None),
        "logits_softcap": keys.maybe_number("final_logit_softcapping", default=None),
    }


def _rotaries(keys: ConfigKeys, *, d_k: int, context: int) -> tuple[Rotary, Rotary]:
    """Positions of the layers with a window and of those without, in both spellings."""
    theta = keys.number("rope_theta", default=1_000_000.0)
    local = keys.number("rope_local_base_freq", default=10_000.0)
    new, old = keys.within("rope_parameters"), keys.within("rope_scaling")
    keys.value("original_max_position_embeddings")  # where there are two groups, only these count
    near, far = new.within("sliding_attention"), new.within("full_attention")
    theta = far.number("rope_theta", default=theta)
    local = near.number("rope_theta", default=local)
    found = (
        turning(keys, near, theta=local, d_k=d_k, context=context),
        turning(keys, old or far, theta=theta, d_k=d_k, context=context),
    )
    for group in (near, far, new, old):
        keys.faults += group.finish()
    return found


def _all(pattern: tuple[LayerKind, ...], layers: int) -> list[LayerKind]:
    return [pattern[n % len(pattern)] for n in range(layers)]


_HEADLESS = {"predicts": False, "tied_embeddings": False}

GEMMA2 = Family(
    model_type="gemma2",
    architectures={"Gemma2ForCausalLM": {}, "Gemma2Model": {**_HEADLESS, "logits_softcap": None}},
    fields=_gemma2,
    modules=_MODULES,
    prefix="model.",
    twins=_TWINS,
    harmless=frozenset({"cache_implementation", "sliding_window_size"}),
)
GEMMA3 = Family(
    model_type="gemma3_text",
    architectures={
        "Gemma3ForCausalLM": {},
        "Gemma3TextModel": {**_HEADLESS, "logits_softcap": None},
    },
    fields=_gemma3,
    modules={
        **_MODULES,
        "model.layers.{layer}.self_attn.q_norm": "layers.{layer}.attention.query_norm",
        "model.layers.{layer}.self_attn.k_norm": "layers.{layer}.attention.key_norm",
    },
    prefix="model.",
    twins=_TWINS,
    harmless=frozenset({"cache_implementation"}),
)
