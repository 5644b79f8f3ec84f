"""How a configuration is told in the keys of a released family: reading, the other way round.

A writer tells what its family has keys for and leaves the rest to chance; whether the keys mean the
configuration is decided by reading them again, so a writer cannot lie.
"""

from collections.abc import Callable, Mapping
from typing import Any

from clearhead.positions.kinds import Learned, Rotary, T5Buckets
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.families.telling import (
    ACTIVATION_NAMES,
    NO_TOKENS,
    kinds,
    layer_types,
    rotary,
    scalar,
    sizes,
    turning_part,
)

__all__ = ["WRITERS"]


def _llama(config: TransformerConfig) -> dict[str, Any]:
    biases = {"attention_bias": config.output_bias, "mlp_bias": config.feed_forward_bias}
    return {**_llama_like(config), **biases}


def _mistral(config: TransformerConfig) -> dict[str, Any]:
    return {**_llama_like(config), "sliding_window": config.pattern[0].window}


def _phi3(config: TransformerConfig) -> dict[str, Any]:
    told = _llama_like(config)
    ropes = told["rope_parameters"] | turning_part(config)
    original = ropes.get("original_max_position_embeddings", config.context_length)
    return {
        **told,
        "original_max_position_embeddings": original,
        "rope_parameters": ropes,
        "sliding_window": config.pattern[0].window,
    }


def _qwen2(config: TransformerConfig) -> dict[str, Any]:
    window = _window(config)
    if window is None:
        return {**_llama_like(config), "use_sliding_window": False}
    return {
        **_llama_like(config),
        "use_sliding_window": True,
        "sliding_window": window,
        "layer_types": layer_types(config),
    }


def _qwen3(config: TransformerConfig) -> dict[str, Any]:
    return {**_qwen2(config), "attention_bias": config.output_bias}


def _llama_like(config: TransformerConfig) -> dict[str, Any]:
    return {
        **sizes(config),
        "max_position_embeddings": config.context_length,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.d_k,
        "rms_norm_eps": config.norm_epsilon,
        "hidden_act": ACTIVATION_NAMES[config.activation],
        "tie_word_embeddings": config.tied_embeddings,
        "rope_parameters": rotary(config.positions, config),
    }


def _window(config: TransformerConfig) -> int | None:
    """The first layer's window that has one: these families know one size of windows."""
    return next((kind.window for kind in kinds(config) if kind.window is not None), None)


def _gemma(config: TransformerConfig) -> dict[str, Any]:
    told = _llama_like(config)
    return {
        **{name: value for name, value in told.items() if name != "hidden_act"},
        "hidden_activation": ACTIVATION_NAMES[config.activation],
        "attention_bias": config.output_bias,
        "query_pre_attn_scalar": scalar(config),
        "attn_logit_softcapping": config.softcap,
        "final_logit_softcapping": config.logits_softcap,
        "sliding_window": _window(config),
        "layer_types": layer_types(config),
    }


def _gemma3(config: TransformerConfig) -> dict[str, Any]:
    near = next((kind.rotary for kind in config.pattern if isinstance(kind.rotary, Rotary)), None)
    ropes = {
        "full_attention": rotary(config.positions, config),
        "sliding_attention": rotary(near, config),
    }
    return {**_gemma(config), "rope_parameters": ropes}


def _gpt2(config: TransformerConfig) -> dict[str, Any]:
    return {
        **NO_TOKENS,
        "vocab_size": config.vocabulary_size,
        "n_positions": config.context_length,
        "n_embd": config.d_model,
        "n_inner": config.d_ff,
        "n_layer": config.layers,
        "n_head": config.heads,
        "layer_norm_epsilon": config.norm_epsilon,
        "activation_function": _gpt2_activation(config),
        "scale_attn_weights": config.scale is None,
        "scale_attn_by_inverse_layer_idx": config.pattern[0].scale is not None,
        "tie_word_embeddings": config.tied_embeddings,
    }


def _gpt2_activation(config: TransformerConfig) -> str:
    return "gelu_new" if config.activation == "gelu_tanh" else ACTIVATION_NAMES[config.activation]


def _gpt_neox(config: TransformerConfig) -> dict[str, Any]:
    return {
        **sizes(config),
        "max_position_embeddings": config.context_length,
        "layer_norm_eps": config.norm_epsilon,
        "hidden_act": ACTIVATION_NAMES[config.activation],
        "use_parallel_residual": config.parallel,
        "attention_bias": config.output_bias,
        "tie_word_embeddings": config.tied_embeddings,
        "rope_parameters": rotary(config.positions, config) | turning_part(config),
    }


def _bert(config: TransformerConfig) -> dict[str, Any]:
    return {
        **sizes(config),
        "max_position_embeddings": config.context_length,
        "type_vocab_size": config.token_types,
        "layer_norm_eps": config.norm_epsilon,
        "hidden_act": ACTIVATION_NAMES[config.activation],
        "tie_word_embeddings": config.tied_embeddings,
    }


def _roberta(config: TransformerConfig) -> dict[str, Any]:
    offset = config.positions.offset if isinstance(config.positions, Learned) else 0
    return {
        **_bert(config),
        "max_position_embeddings": (config.context_length or 0) + offset,
        "pad_token_id": offset - 1,
    }


def _distilbert(config: TransformerConfig) -> dict[str, Any]:
    return {
        "vocab_size": config.vocabulary_size,
        "max_position_embeddings": config.context_length,
        "dim": config.d_model,
        "hidden_dim": config.d_ff,
        "n_layers": config.layers,
        "n_heads": config.heads,
        "activation": ACTIVATION_NAMES[config.activation],
        "tie_word_embeddings": config.tied_embeddings,
    }


def _t5(config: TransformerConfig) -> dict[str, Any]:
    positions, encoder = config.positions, config.encoder
    if not isinstance(positions, T5Buckets) or encoder is None:
        return {}
    gate = "gated-" if config.gated else ""
    act = "gelu" if config.gated and config.activation == "gelu_tanh" else config.activation
    return {
        "vocab_size": config.vocabulary_size,
        "d_model": config.d_model,
        "d_kv": config.d_k,
        "d_ff": config.d_ff,
        "num_layers": encoder.layers,
        "num_decoder_layers": config.layers,
        "num_heads": config.heads,
        "relative_attention_num_buckets": positions.buckets,
        "relative_attention_max_distance": positions.max_distance,
        "layer_norm_epsilon": config.norm_epsilon,
        "feed_forward_proj": gate + act,
        "is_encoder_decoder": True,
        "scale_decoder_outputs": config.logits_scale != 1.0,
        "tie_word_embeddings": config.tied_embeddings,
    }


def _bart(config: TransformerConfig) -> dict[str, Any]:
    encoder = config.encoder
    if encoder is None:
        return {}
    return {
        "vocab_size": config.vocabulary_size,
        "max_position_embeddings": config.context_length,
        "d_model": config.d_model,
        "scale_embedding": config.embedding_scale != 1.0,
        "activation_function": ACTIVATION_NAMES[config.activation],
        "encoder_layers": encoder.layers,
        "encoder_attention_heads": encoder.heads,
        "encoder_ffn_dim": encoder.d_ff,
        "decoder_layers": config.layers,
        "decoder_attention_heads": config.heads,
        "decoder_ffn_dim": config.d_ff,
        "is_encoder_decoder": True,
        "tie_word_embeddings": config.tied_embeddings,
    }


#: The writer of each family that has one, by its ``model_type``; the first that fits is used.
WRITERS: Mapping[str, Callable[[TransformerConfig], dict[str, Any]]] = {
    "llama": _llama,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "phi3": _phi3,
    "gemma2": _gemma,
    "gemma3_text": _gemma3,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "bert": _bert,
    "roberta": _roberta,
    "distilbert": _distilbert,
    "t5": _t5,
    "bart": _bart,
}
