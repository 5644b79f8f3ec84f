"""A configuration: every key of a config.json is used, harmless or refused by name."""

import subprocess
import sys

import pytest

from clearhead.errors import CheckpointError, InputError
from clearhead.positions.scaling import Llama3Scaling
from clearhead.transformer.config import TransformerConfig, from_hugging_face, readable_families

SIZES = {
    "vocabulary_size": 99,
    "context_length": 64,
    "d_model": 32,
    "d_ff": 48,
    "layers": 2,
    "heads": 4,
    "kv_heads": 2,
    "d_k": 8,
    "d_v": 8,
}
LLAMA = {
    "model_type": "llama",
    "vocab_size": 99,
    "max_position_embeddings": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def refusal(**keys: object) -> str:
    """What is said about a Llama config with some keys changed."""
    with pytest.raises(CheckpointError) as caught:
        from_hugging_face({**LLAMA, **keys})
    return str(caught.value)


def test_a_config_is_read_and_asked_for_without_torch():
    code = (
        "import sys; from clearhead.transformer.config import from_hugging_face; "
        f"print(from_hugging_face({LLAMA!r}).d_k, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["8", "False"]


def test_readable_families():
    assert readable_families() == ("llama",)


def test_every_fault_of_the_sizes_is_named_at_once():
    with pytest.raises(InputError) as caught:
        TransformerConfig(**{**SIZES, "layers": 0, "d_k": 2.5, "norm_epsilon": float("nan")})
    assert str(caught.value) == (
        "these numbers make no Transformer, 3 faults:\n"
        "  - layers must be a positive whole number, got 0\n"
        "  - d_k must be a positive whole number, got 2.5\n"
        "  - norm_epsilon must be a positive finite number, got nan"
    )


def test_every_wrong_combination_is_named_at_once():
    scaling = Llama3Scaling(
        0.0, low_frequency_factor=4.0, high_frequency_factor=1.0, original_context=8
    )
    with pytest.raises(InputError) as caught:
        TransformerConfig(**{**SIZES, "kv_heads": 3, "d_k": 7, "rotary_scaling": scaling})
    assert str(caught.value) == (
        "these numbers make no Transformer, 4 faults:\n"
        "  - heads (4) must be a multiple of kv_heads (3)\n"
        "  - d_k must be even for rotary positions, got 7\n"
        "  - low_frequency_factor (4.0) must be below high_frequency_factor (1.0)\n"
        "  - rotary_scaling must have a positive factor, got 0.0"
    )


def test_defaults_are_those_of_the_family():
    config = from_hugging_face({k: v for k, v in LLAMA.items() if k != "num_key_value_heads"})
    assert config == TransformerConfig(**{**SIZES, "kv_heads": 4})


def test_every_used_key_is_used():
    config = from_hugging_face(
        {
            **LLAMA,
            "head_dim": 6,
            "rms_norm_eps": 1e-5,
            "rope_theta": 500,
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
        }
    )
    assert (config.d_k, config.d_v, config.norm_epsilon, config.rotary_theta) == (6, 6, 1e-5, 500.0)
    assert config.attention_bias
    assert config.feed_forward_bias
    assert config.tied_embeddings


def test_the_default_models_config_is_read():
    # What SmolLM2-135M-Instruct is released with.
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
        d_v=64,
        norm_epsilon=1e-5,
        rotary_theta=100_000.0,
        tied_embeddings=True,
    )


def test_all_faults_of_a_config_come_at_once():
    assert refusal(
        hidden_size="32",
        vocab_size=None,
        rms_norm_eps=-1,
        mlp_bias="yes",
        num_hidden_layers=True,
        hidden_act="gelu",
        rope_scaling={"rope_type": "linear", "factor": 0, "beta": 3},
        partial_rotary_factor=0.5,
        is_encoder_decoder=True,
        quantization_config={"bits": 4},
        attn_logit_cap=0,
    ) == (
        "the config of this llama model, 12 faults:\n"
        "  - hidden_size must be a positive whole number, got '32'\n"
        "  - hidden_act is 'gelu', only 'silu' is known\n"
        "  - vocab_size must be a positive whole number, it is missing\n"
        "  - num_hidden_layers must be a positive whole number, got True\n"
        "  - rms_norm_eps must be a positive number, got -1\n"
        "  - partial_rotary_factor is 0.5, only 1.0 is known\n"
        "  - rope_scaling.factor must be a positive number, got 0\n"
        "  - rope_scaling.beta is not known here, got 3\n"
        "  - mlp_bias must be true or false, got 'yes'\n"
        "  - is_encoder_decoder is True, only False is known\n"
        "  - attn_logit_cap is not known here, got 0\n"
        "  - quantization_config is not known here, got {'bits': 4}"
    )


def test_a_wrong_combination_in_a_config_is_refused_beside_unknown_keys():
    assert refusal(num_key_value_heads=3, future_setting=1) == (
        "the config of this llama model, 2 faults:\n"
        "  - heads (4) must be a multiple of kv_heads (3)\n"
        "  - future_setting is not known here, got 1"
    )


def test_a_null_setting_is_no_setting():
    assert from_hugging_face({**LLAMA, "sliding_window": None}) == from_hugging_face(LLAMA)


@pytest.mark.parametrize("model_type", ["gpt2", None, 3])
def test_another_family_is_refused_by_name(model_type):
    with pytest.raises(CheckpointError) as caught:
        from_hugging_face({"model_type": model_type})
    assert str(caught.value) == (
        f"model_type is {model_type!r}, this Transformer reads llama; "
        'engine="transformers" may load the model'
    )
