"""Llama 1 to 3.x, and every model that says it is one (SmolLM2 among them)."""

from typing import Any

from clearhead.transformer.families.family import Family
from clearhead.transformer.families.keys import ConfigKeys, rotary_fields

__all__ = ["LLAMA"]

_MODULES = {
    "token_embedding": "model.embed_tokens",
    "layers.{layer}.attention_norm": "model.layers.{layer}.input_layernorm",
    "layers.{layer}.attention.to_query": "model.layers.{layer}.self_attn.q_proj",
    "layers.{layer}.attention.to_key": "model.layers.{layer}.self_attn.k_proj",
    "layers.{layer}.attention.to_value": "model.layers.{layer}.self_attn.v_proj",
    "layers.{layer}.attention.to_output": "model.layers.{layer}.self_attn.o_proj",
    "layers.{layer}.feed_forward_norm": "model.layers.{layer}.post_attention_layernorm",
    "layers.{layer}.feed_forward.gate": "model.layers.{layer}.mlp.gate_proj",
    "layers.{layer}.feed_forward.up": "model.layers.{layer}.mlp.up_proj",
    "layers.{layer}.feed_forward.down": "model.layers.{layer}.mlp.down_proj",
    "final_norm": "model.norm",
    "to_logits": "lm_head",
}


def _fields(keys: ConfigKeys) -> dict[str, Any]:
    d_model = keys.size("hidden_size")
    heads = keys.size("num_attention_heads")
    context = keys.size("max_position_embeddings", default=2048)
    d_head = keys.size("head_dim", default=d_model // heads)
    keys.only("hidden_act", "silu")
    keys.only("rope_interleaved", known=False)
    return {
        "vocabulary_size": keys.size("vocab_size"),
        "context_length": context,
        "d_model": d_model,
        "d_ff": keys.size("intermediate_size"),
        "layers": keys.size("num_hidden_layers"),
        "heads": heads,
        "kv_heads": keys.size("num_key_value_heads", default=heads),
        "d_k": d_head,
        "d_v": d_head,
        "norm_epsilon": keys.number("rms_norm_eps", default=1e-6),
        **rotary_fields(keys, context=context),
        "attention_bias": keys.flag("attention_bias", default=False),
        "feed_forward_bias": keys.flag("mlp_bias", default=False),
        "tied_embeddings": keys.flag("tie_word_embeddings", default=False),
    }


LLAMA = Family(
    model_type="llama",
    fields=_fields,
    modules=_MODULES,
    harmless=frozenset({"is_llama_config"}),
)
