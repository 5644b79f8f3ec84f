"""Small random models of many families, all with 99 tokens, a width of 32 and heads of 8.

``initializer_range`` is ten times the usual one, so that attention is not flat.
"""

import copy
from collections.abc import Callable

import transformers
from transformers import PretrainedConfig, PreTrainedModel

__all__ = ["DECODERS", "ENCODERS", "OURS", "TRACED", "made", "with_attention"]

_COMMON = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
    "pad_token_id": 0,
}
_GROUPED = {**_COMMON, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2}
_NARROW = {**_GROUPED, "head_dim": 8}
_GPT2 = {
    "vocab_size": 99,
    "n_positions": 64,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_WINDOWS = {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}
_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
_LATENT = {
    **_COMMON,
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 12,
    "first_k_dense_replace": 2,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 16,
}
_CAPPED = {"query_pre_attn_scalar": 6, "attn_logit_softcapping": 2.0}

#: Name of the family: class of the model, settings of its configuration.
DECODERS: dict[str, tuple[str, dict[str, object]]] = {
    "llama": ("LlamaForCausalLM", _GROUPED),
    "mistral": ("MistralForCausalLM", {**_GROUPED, "sliding_window": 4}),
    "gpt2": ("GPT2LMHeadModel", _GPT2),
}
ENCODERS: dict[str, tuple[str, dict[str, object]]] = {
    "bert": ("BertForMaskedLM", _COMMON),
    "roberta": (
        "RobertaForMaskedLM",
        {**_COMMON, "pad_token_id": 1, "max_position_embeddings": 66},
    ),
}
#: Every family whose traces are held to its own eager run.
TRACED: dict[str, tuple[str, dict[str, object]]] = {
    **DECODERS,
    **ENCODERS,
    "gpt2 scaled by layer": (
        "GPT2LMHeadModel",
        {**_GPT2, "scale_attn_by_inverse_layer_idx": True},
    ),
    "qwen2 with windows": (
        "Qwen2ForCausalLM",
        {**_GROUPED, **_WINDOWS, "use_sliding_window": True},
    ),
    "qwen3": ("Qwen3ForCausalLM", _NARROW),
    "phi3": ("Phi3ForCausalLM", {**_GROUPED, "sliding_window": 4}),
    "gemma2": ("Gemma2ForCausalLM", {**_NARROW, **_WINDOWS, **_CAPPED}),
    "gemma3": ("Gemma3ForCausalLM", {**_NARROW, **_WINDOWS, "query_pre_attn_scalar": 6}),
    "gpt_oss": ("GptOssForCausalLM", {**_NARROW, **_WINDOWS, **_EXPERTS}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", _LATENT),
    "llama4": (
        "Llama4ForCausalLM",
        {
            **_NARROW,
            **_EXPERTS,
            "attention_chunk_size": 4,
            "layer_types": ["chunked_attention", "full_attention"],
        },
    ),
}
_OTHERS = {"gpt_oss", "deepseek_v3"}
#: Every family that our own Transformer reads.
OURS: dict[str, tuple[str, dict[str, object]]] = {
    **{name: family for name, family in TRACED.items() if name not in _OTHERS},
    "neox": (
        "GPTNeoXForCausalLM",
        {**_COMMON, "rotary_pct": 0.5, "bos_token_id": 1, "eos_token_id": 2},
    ),
    "distilbert": (
        "DistilBertForMaskedLM",
        {
            "vocab_size": 99,
            "dim": 32,
            "hidden_dim": 48,
            "n_layers": 2,
            "n_heads": 4,
            "max_position_embeddings": 64,
            "initializer_range": 0.2,
        },
    ),
    "t5": (
        "T5ForConditionalGeneration",
        {
            "vocab_size": 99,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 48,
            "num_layers": 3,
            "num_decoder_layers": 2,
            "num_heads": 4,
            "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 10,
            "decoder_start_token_id": 0,
        },
    ),
    "bart": (
        "BartForConditionalGeneration",
        {
            "vocab_size": 99,
            "d_model": 32,
            "encoder_layers": 3,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 40,
            "max_position_embeddings": 64,
            "init_std": 0.2,
            "decoder_start_token_id": 2,
        },
    ),
}


def made(family: tuple[str, dict[str, object]], **settings: object) -> PreTrainedModel:
    """A model of a family, in float32 and evaluation mode; draw inside ``seeded_weights``."""
    name, given = family
    build: Callable[..., PreTrainedModel] = getattr(transformers, name)
    config: Callable[..., PretrainedConfig] = build.config_class
    return build(config(**{**given, **settings})).float().eval()


def with_attention(model: PreTrainedModel, name: str) -> PreTrainedModel:
    """The same model with another implementation of attention."""
    other = copy.deepcopy(model)
    other.set_attn_implementation(name)
    return other
