"""Llama, Mistral and Qwen: what their keys mean, as transformers writes them and as released."""

import pytest

from clearhead.errors import CheckpointError
from clearhead.positions.kinds import Rotary
from clearhead.positions.scaling import Llama3Scaling
from clearhead.transformer.config import LayerKind, TransformerConfig
from clearhead.transformer.families.keys import ConfigKeys
from clearhead.transformer.families.known import from_hugging_face
from clearhead.transformer.families.llama import LLAMA, MISTRAL, QWEN2, QWEN3, llama_fields
from clearhead.transformer.model import Transformer

SIZES = {
    "vocab_size": 99,
    "max_position_embeddings": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def read(family: str, **keys: object) -> TransformerConfig:
    return from_hugging_face({"model_type": family, **SIZES, **keys})


def ours(**changed: object) -> TransformerConfig:
    sizes = {"vocabulary_size": 99, "context_length": 64, "d_model": 32, "d_ff": 48, "layers": 4}
    return TransformerConfig(**{**sizes, "heads": 4, "kv_heads": 2, **changed})


def windows(config: TransformerConfig) -> list[int | None]:
    return [config.layer_kind(layer).window for layer in range(config.layers)]


def test_a_llama_with_nothing_said_is_the_plainest_decoder():
    assert read("llama") == ours()
    few = {name: value for name, value in SIZES.items() if name != "num_key_value_heads"}
    assert from_hugging_face({"model_type": "llama", **few}) == ours(kv_heads=4)


def test_every_used_key_is_used():
    config = read(
        "llama",
        head_dim=6,
        rms_norm_eps=1e-5,
        rope_theta=500,
        attention_bias=True,
        mlp_bias=True,
        tie_word_embeddings=True,
        hidden_act="gelu",
    )
    assert config == ours(
        d_k=6,
        d_v=6,
        norm_epsilon=1e-5,
        positions=Rotary(500.0),
        input_bias=True,
        output_bias=True,
        feed_forward_bias=True,
        tied_embeddings=True,
        activation="gelu",
    )


def test_a_class_without_a_head_makes_no_logits():
    config = read("llama", architectures=["LlamaModel"], tie_word_embeddings=True)
    assert config == ours(predicts=False)


def test_a_smaller_context_and_other_numbers_may_be_a_familys_own():
    keys = ConfigKeys({name: value for name, value in SIZES.items() if "position" not in name})
    fields = llama_fields(keys, context=7, epsilon=0.5, theta=3.0, d_head=6, interleaved=True)
    assert keys.finish() == []
    assert (fields["context_length"], fields["norm_epsilon"], fields["d_k"]) == (7, 0.5, 6)
    assert fields["positions"] == Rotary(3.0, interleaved=True)


def test_mistral_has_a_window_in_every_layer_unless_it_is_null():
    assert windows(read("mistral")) == [4096] * 4
    assert windows(read("mistral", sliding_window=5)) == [5] * 4
    assert read("mistral", sliding_window=None, head_dim=6) == ours(d_k=6, d_v=6)


def test_qwen2_has_biases_where_it_reads_and_none_where_it_writes():
    assert read("qwen2") == ours(input_bias=True)


def test_qwen3_norms_queries_and_keys():
    assert read("qwen3", head_dim=8) == ours(query_key_norm="head")
    assert read("qwen3") == ours(query_key_norm="head", d_k=128, d_v=128)
    assert read("qwen3", head_dim=8, attention_bias=True) == ours(
        query_key_norm="head", input_bias=True, output_bias=True
    )


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_qwens_windows_begin_at_a_layer_and_only_where_they_are_on(family):
    on = {"use_sliding_window": True, "sliding_window": 5}
    assert windows(read(family, max_window_layers=3, **on)) == [None, None, None, 5]
    assert windows(read(family, max_window_layers=0, **on)) == [5] * 4
    assert windows(read(family, **on)) == [None] * 4  # it is 28 where nothing is said
    assert windows(read(family, sliding_window=5, max_window_layers=0)) == [None] * 4
    kinds = ["sliding_attention", "full_attention"] * 2
    assert windows(read(family, layer_types=kinds, **on)) == [5, None, 5, None]
    assert windows(read(family, layer_types=kinds, sliding_window=5)) == [None] * 4


def test_all_faults_of_a_config_come_at_once():
    with pytest.raises(CheckpointError) as caught:
        read(
            "llama",
            hidden_size="32",
            vocab_size=None,
            rms_norm_eps=-1,
            mlp_bias="yes",
            num_hidden_layers=True,
            hidden_act="mish",
            rope_scaling={"rope_type": "linear", "factor": 0, "beta": 3},
            rope_interleaved=True,
            is_encoder_decoder=True,
            quantization_config={"bits": 4},
            attn_logit_cap=0,
        )
    known = "gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, quick_gelu, relu, silu, swish"
    assert str(caught.value) == (
        "the config of this llama model, 12 faults:\n"
        "  - rope_interleaved is True, only False is known\n"
        "  - hidden_size must be a positive whole number, got '32'\n"
        "  - rope_scaling.factor must be a positive number, got 0\n"
        "  - rope_scaling.beta is not known here, got 3\n"
        "  - vocab_size must be a positive whole number, it is missing\n"
        "  - num_hidden_layers must be a positive whole number, got True\n"
        "  - rms_norm_eps must be a positive number, got -1\n"
        f"  - hidden_act is 'mish', only {known} are known\n"
        "  - mlp_bias must be true or false, got 'yes'\n"
        "  - is_encoder_decoder is True, only False is known\n"
        "  - attn_logit_cap is not known here, got 0\n"
        "  - quantization_config is not known here, got {'bits': 4}"
    )


def test_a_wrong_combination_is_said_where_every_key_alone_is_right():
    with pytest.raises(CheckpointError) as caught:
        read("llama", num_key_value_heads=3)
    assert str(caught.value) == (
        "the config of this llama model: these values make no Transformer: heads (4) must be a "
        "multiple of kv_heads (3)"
    )


@pytest.mark.parametrize("family", [LLAMA, MISTRAL, QWEN2, QWEN3])
def test_layers_of_two_digits_have_their_numbers(family):
    config = read(family.model_type, num_hidden_layers=12, hidden_size=8, head_dim=2)
    stored = family.stored(dict(Transformer(config).named_parameters()), gated=True)
    names = {one.theirs for one in stored}
    assert "model.layers.11.self_attn.q_proj.weight" in names
    assert ("model.layers.11.self_attn.q_proj.bias" in names) == (family is QWEN2)
    assert ("model.layers.11.self_attn.q_norm.weight" in names) == (family is QWEN3)


# ------------------------------------------------------------------------------------ as released


def test_smollm2_135m_as_released():
    config = from_hugging_face(
        {
            "architectures": ["LlamaForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "hidden_act": "silu",
            "hidden_size": 576,
            "initializer_range": 0.041666666666666664,
            "intermediate_size": 1536,
            "is_llama_config": True,
            "max_position_embeddings": 8192,
            "mlp_bias": False,
            "model_type": "llama",
            "num_attention_heads": 9,
            "num_hidden_layers": 30,
            "num_key_value_heads": 3,
            "pad_token_id": 2,
            "pretraining_tp": 1,
            "rms_norm_eps": 1e-05,
            "rope_interleaved": False,
            "rope_scaling": None,
            "rope_theta": 100000,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}},
            "transformers_version": "4.42.3",
            "use_cache": True,
            "vocab_size": 49152,
        }
    )
    assert config == TransformerConfig(
        vocabulary_size=49152,
        context_length=8192,
        d_model=576,
        d_ff=1536,
        layers=30,
        heads=9,
        kv_heads=3,
        d_k=64,
        norm_epsilon=1e-5,
        positions=Rotary(100_000.0),
        tied_embeddings=True,
    )


def test_llama_3_1_s_positions_as_released():
    scaling = {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    }
    config = read(
        "llama", rope_scaling=scaling, rope_theta=500000.0, max_position_embeddings=131072
    )
    assert config.positions == Rotary(500_000.0, Llama3Scaling(8.0, 1.0, 4.0, 8192))


def test_qwen2_5_0_5b_as_released():
    config = from_hugging_face(
        {
            "architectures": ["Qwen2ForCausalLM"],
            "attention_dropout": 0.0,
            "bos_token_id": 151643,
            "eos_token_id": 151643,
            "hidden_act": "silu",
            "hidden_size": 896,
            "initializer_range": 0.02,
            "intermediate_size": 4864,
            "max_position_embeddings": 32768,
            "max_window_layers": 24,
            "model_type": "qwen2",
            "num_attention_heads": 14,
            "num_hidden_layers": 24,
            "num_key_value_heads": 2,
            "rms_norm_eps": 1e-06,
            "rope_theta": 1000000.0,
            "sliding_window": 32768,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.40.1",
            "use_cache": True,
            "use_mrope": False,
            "use_sliding_window": False,
            "vocab_size": 151936,
        }
    )
    assert config.pattern == (LayerKind(),)
    assert (config.d_k, config.kv_heads, config.positions) == (64, 2, Rotary(1_000_000.0))
    with pytest.raises(CheckpointError, match="use_mrope is True, only False is known"):
        read("qwen2", use_mrope=True)
