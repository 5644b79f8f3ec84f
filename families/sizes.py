"""The sizes of tiny models: by the name of a configuration's field, and by family where that fails.

Windows and chunks are 5, so that a text of 12 tokens crosses them; there are fewer heads of keys
and values than of queries wherever a family allows that.
"""

from collections.abc import Mapping

__all__ = ["FILLED", "LATENT", "LAYERS", "OVERRIDES", "SIZES"]

#: Fields that count layers.
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "depth")

_WIDTHS = (
    "hidden_size d_model n_embd dim embed_dim model_dim word_embed_proj_dim embedding_size emb_dim "
    "hidden_size_global audio_hidden_size adapter_in_dim adapter_out_dim adapter_input_size "
    "entity_emb_size pronunciation_embed_dim shape_embed_dim"
)
_INNER = (
    "intermediate_size ffn_dim d_ff n_inner encoder_ffn_dim decoder_ffn_dim ffn_hidden_size "
    "intermediate_size_mlp hidden_dim feed_forward_size shared_intermediate_size"
)
_EXPERT_WIDTHS = (
    "moe_intermediate_size shared_expert_intermediate_size expert_ffn_hidden_size "
    "moe_shared_expert_intermediate_size shared_experts_intermediate_size"
)
_HEADS = (
    "num_attention_heads n_head num_heads n_heads encoder_attention_heads decoder_attention_heads"
)
_KV_HEADS = "num_key_value_heads num_kv_heads n_head_kv multi_query_group_num kv_n_heads"
_HEAD_WIDTHS = (
    "head_dim d_kv kv_channels attention_head_size global_head_dim swa_head_dim v_head_dim "
    "mamba_d_head mamba_head_dim linear_head_dim linear_key_head_dim linear_value_head_dim "
    "index_head_dim"
)
_LENGTHS = (
    "max_position_embeddings n_positions max_target_positions max_source_positions max_seq_len "
    "n_ctx"
)
_EXPERTS = "num_experts num_local_experts n_routed_experts moe_num_experts zero_expert_num"
_PER_TOKEN = "num_experts_per_tok num_experts_per_token moe_topk moe_k moe_top_k top_k_experts"
_WINDOWS = "sliding_window attention_chunk_size sliding_window_size local_attention_window_len"


def _each(names: str, size: int) -> dict[str, int]:
    return dict.fromkeys(names.split(), size)


#: A field's largest value: a smaller default stays.
SIZES: Mapping[str, int] = {
    **_each(" ".join(LAYERS), 4),
    **_each(_WIDTHS, 32),
    **_each(_INNER, 48),
    **_each(_EXPERT_WIDTHS, 32),
    **_each("encoder_layers decoder_layers num_decoder_layers num_encoder_layers", 2),
    **_each(_HEADS, 4),
    **_each(_KV_HEADS, 2),
    **_each(_HEAD_WIDTHS, 8),
    **_each("vocab_size vocab_size_per_layer_input audio_vocab_size entity_vocab_size", 99),
    **_each("pronunciation_vocab_size shape_vocab_size encoder_hash_byte_group_vocab", 99),
    **_each(_LENGTHS, 64),
    **_each(_EXPERTS, 4),
    **_each(_PER_TOKEN, 2),
    **_each("n_group topk_group num_expert_group", 1),
    **_each(_WINDOWS, 5),
    **_each("linear_num_heads linear_num_key_heads linear_num_value_heads index_n_heads", 4),
    **_each("hidden_size_per_layer_input index_topk mamba_d_state mamba_dt_rank", 8),
    **_each("image_size", 32),
}

#: Fields that a default leaves empty and a tiny model fills.
FILLED = frozenset(
    {
        "audio_vocab_size",
        "head_dim",
        "n_inner",
        "n_routed_experts",
        "num_experts_per_tok",
        "num_key_value_heads",
        "vocab_size",
    }
)

#: Latent attention (DeepSeek's) has these widths, and as many heads of keys as of queries.
LATENT: Mapping[str, int] = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "head_dim": 4,
}

_ROPE = {"rope_type": "default", "rope_theta": 10000.0}

_HYBRID = ["linear_attention", "full_attention"] * 2

#: What a family needs besides, by its model type (or the
#: configuration's class, where that has none), as a whole model or as a part of one.
OVERRIDES: Mapping[str, Mapping[str, object]] = {
    "codegen": {"rotary_dim": 4},
    "gptj": {"rotary_dim": 4},
    "beam": {"n_group": 2},
    "xmod": {"default_language": "en_XX"},
    "bamba": {"mamba_n_heads": 8, "mamba_d_head": 8, "attn_layer_indices": [1, 3]},
    "granitemoehybrid": {"mamba_n_heads": 8, "mamba_d_head": 8, "layer_types": _HYBRID},
    "kimi_linear": {"layer_types": _HYBRID},
    "bailing_hybrid": {"layer_types": _HYBRID},
    "mamba2": {"num_heads": 8, "head_dim": 8, "n_groups": 1},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv", "full_attention"]},
    "dots3_note_text": {"head_dim": 12},
    "esm": {"vocab_size": 99, "mask_token_id": 4, "pad_token_id": 1},
    "dots1": {"n_shared_experts": 1},
    "DbrxAttentionConfig": {"rope_theta": 10000.0, "clip_qkv": 8.0},
    "musicgen_decoder": {"num_codebooks": 1},
    "musicgen_melody_decoder": {"num_codebooks": 1},
    "esmc": {"num_key_value_heads": 4},
    "neomme": {"head_dim": 16},
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": _ROPE, "sliding_attention": _ROPE},
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "gemma3n_text": {
        "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "intermediate_size": [48] * 4,
        "activation_sparsity_pattern": [0.0] * 4,
    },
    "qwen4_exp_text": {
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 8,
        "indexer_budget": 8,
        "indexer_compress_ratio": 2,
    },
    "perceiver": {
        "num_latents": 8,
        "d_latents": 32,
        "num_self_attends_per_block": 2,
        "num_self_attention_heads": 4,
        "num_cross_attention_heads": 4,
        "qk_channels": 32,
        "v_channels": 32,
        "vocab_size": 262,
    },
    "vibevoice_acoustic_tokenizer_encoder": {"num_filters": 2, "depths": [1] * 7},
    "reformer": {
        "num_hidden_layers": 2,
        "axial_pos_shape": (8, 8),
        "axial_pos_embds_dim": (16, 16),
        "local_attn_chunk_length": 4,
        "lsh_attn_chunk_length": 4,
        "attn_layers": ["local", "lsh"],
    },
}
