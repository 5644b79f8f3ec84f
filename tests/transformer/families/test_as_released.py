"""Configurations as they were released, key by key; other families' stand in their own files."""

import pytest

from clearhead.errors import CheckpointError
from clearhead.positions.kinds import Rotary
from clearhead.positions.scaling import LinearScaling, LongRopeScaling, longrope_attention_factor
from clearhead.transformer.config import LayerKind, TransformerConfig
from clearhead.transformer.families.known import from_hugging_face

PHI3_MINI = {
    "architectures": ["Phi3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"},
    "bos_token_id": 1,
    "embd_pdrop": 0.0,
    "eos_token_id": 32000,
    "hidden_act": "silu",
    "hidden_size": 3072,
    "initializer_range": 0.02,
    "intermediate_size": 8192,
    "max_position_embeddings": 4096,
    "model_type": "phi3",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 32,
    "original_max_position_embeddings": 4096,
    "pad_token_id": 32000,
    "resid_pdrop": 0.0,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "sliding_window": 2047,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.40.2",
    "use_cache": True,
    "vocab_size": 32064,
}
GEMMA2_9B = {
    "architectures": ["Gemma2ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attn_logit_softcapping": 50.0,
    "bos_token_id": 2,
    "cache_implementation": "hybrid",
    "eos_token_id": 1,
    "final_logit_softcapping": 30.0,
    "head_dim": 256,
    "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 3584,
    "initializer_range": 0.02,
    "intermediate_size": 14336,
    "max_position_embeddings": 8192,
    "model_type": "gemma2",
    "num_attention_heads": 16,
    "num_hidden_layers": 42,
    "num_key_value_heads": 8,
    "pad_token_id": 0,
    "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-06,
    "rope_theta": 10000.0,
    "sliding_window": 4096,
    "sliding_window_size": 4096,
    "torch_dtype": "float32",
    "transformers_version": "4.42.0.dev0",
    "use_cache": True,
    "vocab_size": 256000,
}
GEMMA3_1B = {
    "architectures": ["Gemma3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attn_logit_softcapping": None,
    "bos_token_id": 2,
    "cache_implementation": "hybrid",
    "eos_token_id": [1, 106],
    "final_logit_softcapping": None,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 1152,
    "initializer_range": 0.02,
    "intermediate_size": 6912,
    "max_position_embeddings": 32768,
    "model_type": "gemma3_text",
    "num_attention_heads": 4,
    "num_hidden_layers": 26,
    "num_key_value_heads": 1,
    "pad_token_id": 0,
    "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-06,
    "rope_local_base_freq": 10000,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.50.0.dev0",
    "use_cache": True,
    "vocab_size": 262144,
}


def read(keys: dict[str, object], **changed: object) -> TransformerConfig:
    return from_hugging_face({**keys, **changed})


def test_phi_3_mini_with_4k_tokens():
    config = read(PHI3_MINI)
    assert (config.layers, config.heads, config.kv_heads, config.d_k) == (32, 32, 32, 96)
    assert (config.pattern, config.positions) == ((LayerKind(window=2047),), Rotary())
    assert not config.input_bias


def test_phi_3_mini_with_128k_tokens_in_both_names_of_its_positions():
    factors = [1.0 + pair for pair in range(48)]
    scaling = {"long_factor": [9.0] * 48, "short_factor": factors, "type": "longrope"}
    longer = {"max_position_embeddings": 131072, "sliding_window": 262144}
    natural = longrope_attention_factor(32.0, original_context=4096)
    expected = Rotary(scaling=LongRopeScaling(tuple(factors), (9.0,) * 48, 4096, natural))
    for name in ("longrope", "su"):
        found = read(PHI3_MINI, **longer, rope_scaling={**scaling, "type": name})
        assert found.positions == expected


def test_a_phi_3_with_biases_is_refused():
    with pytest.raises(CheckpointError) as caught:
        read(PHI3_MINI, attention_bias=True)
    assert str(caught.value) == (
        "the config of this phi3 model: attention_bias is True, only False is known"
    )


def test_gemma_2_9b():
    assert read(GEMMA2_9B) == TransformerConfig(
        vocabulary_size=256000,
        context_length=8192,
        d_model=3584,
        d_ff=14336,
        layers=42,
        heads=16,
        kv_heads=8,
        d_k=256,
        pattern=(LayerKind(window=4096), LayerKind()),
        embedding_scale=3584**0.5,
        norm_offset=1.0,
        norm_place="around",
        scale=1 / 16,
        softcap=50.0,
        activation="gelu_tanh",
        logits_softcap=30.0,
        tied_embeddings=True,
    )


def test_the_first_gemma_2s_name_an_activation_that_was_never_used():
    found = read(GEMMA2_9B, hidden_act="gelu", hidden_activation=None)
    assert found == read(GEMMA2_9B)


def test_a_gemma_2_without_a_head_has_no_cap_for_logits():
    config = read(GEMMA2_9B, architectures=["Gemma2Model"])
    assert (config.predicts, config.logits_softcap, config.softcap) == (False, None, 50.0)


def test_gemma_3_1b_as_it_was_and_as_transformers_writes_it_now():
    config = read(GEMMA3_1B)
    windows = [config.layer_kind(layer).window for layer in range(7)]
    assert windows == [512] * 5 + [None, 512]
    turned = [config.rotary(layer) for layer in (4, 5, 6)]
    assert turned == [Rotary(10_000.0), Rotary(1_000_000.0), Rotary(10_000.0)]
    assert (config.query_key_norm, config.softcap, config.logits_softcap) == ("head", None, None)
    ropes = {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000},
        "full_attention": {"rope_type": "default", "rope_theta": 1_000_000},
    }
    kinds = ["full_attention" if n % 6 == 5 else "sliding_attention" for n in range(26)]
    old = ("rope_local_base_freq", "rope_scaling", "rope_theta", "sliding_window_pattern")
    new = {name: value for name, value in GEMMA3_1B.items() if name not in old}
    written = {"rope_parameters": ropes, "layer_types": kinds, "_sliding_window_pattern": 6}
    assert read(new, **written) == config


def test_larger_gemma_3s_stretch_only_the_layers_without_a_window():
    config = read(GEMMA3_1B, rope_scaling={"rope_type": "linear", "factor": 8.0})
    assert config.rotary(0) == Rotary(10_000.0)
    assert config.rotary(5) == Rotary(1_000_000.0, LinearScaling(8.0))


@pytest.mark.parametrize("keys", [GEMMA2_9B, GEMMA3_1B])
def test_looking_both_ways_is_refused(keys):
    with pytest.raises(CheckpointError, match="use_bidirectional_attention is True, only False"):
        read(keys, use_bidirectional_attention=True)


def test_one_layer_is_no_pattern_of_two():
    assert read(GEMMA2_9B, num_hidden_layers=1).pattern == (LayerKind(window=4096),)
    near = LayerKind(window=512, rotary=Rotary(10_000.0))
    assert read(GEMMA3_1B, num_hidden_layers=3).pattern == (near,)
