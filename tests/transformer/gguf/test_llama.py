"""Settings of a Llama in a GGUF file: all read, none guessed, every fault told."""

from pathlib import Path
from typing import Any

import pytest
from gguf import GGMLQuantizationType

from clearhead.errors import CheckpointError
from clearhead.transformer.gguf.architecture import Dealt
from clearhead.transformer.gguf.header import GgufHeader, GgufTensor
from clearhead.transformer.gguf.llama import LLAMA
from tests.transformer.gguf.tiny_gguf import random_tensors

FILE = Path("x.gguf")
SETTINGS = {
    "block_count": 2,
    "context_length": 64,
    "embedding_length": 32,
    "feed_forward_length": 64,
    "attention.head_count": 4,
    "attention.layer_norm_rms_epsilon": 9.999999747378752e-06,  # what 32 bits make of 1e-5
}


def header(**changed: Any) -> GgufHeader:
    """A header with changed settings (`__` for a dot); None leaves one out."""
    settings = SETTINGS | {name.replace("__", "."): value for name, value in changed.items()}
    tensors = {
        name: GgufTensor(name, weights.shape, GGMLQuantizationType.F32, 0, 0)
        for name, weights in random_tensors(0).items()
    }
    named = {f"llama.{name}": value for name, value in settings.items() if value is not None}
    return GgufHeader(FILE, named, tensors)


def test_what_is_not_written_follows_from_what_is() -> None:
    config = LLAMA.read(header())
    assert config["num_key_value_heads"] == 4
    assert config["head_dim"] == 8
    assert config["rope_parameters"] == {"rope_type": "default", "rope_theta": 10_000.0}
    assert config["rms_norm_eps"] == 1e-5
    assert config["vocab_size"] == 261
    assert config["tie_word_embeddings"]


def test_what_is_written_is_used() -> None:
    config = LLAMA.read(
        header(
            attention__head_count_kv=2,
            attention__key_length=16,
            attention__value_length=16,
            rope__dimension_count=16,
            rope__freq_base=5e5,
            rope__scaling__type="none",
            vocab_size=300,
            expert_count=0,
        )
    )
    assert config["num_key_value_heads"] == 2
    assert config["head_dim"] == 16
    assert config["rope_parameters"]["rope_theta"] == 5e5
    assert config["vocab_size"] == 300


def test_it_is_a_configuration_transformers_and_ours_understand() -> None:
    from transformers import LlamaConfig

    from clearhead.transformer.families.known import from_hugging_face

    config = LLAMA.read(header(attention__head_count_kv=2))
    theirs = LlamaConfig(**config)
    assert {name: getattr(theirs, name) for name in config if name != "dtype"} == {
        name: value for name, value in config.items() if name != "dtype"
    }
    ours = from_hugging_face(config)
    assert (ours.layers, ours.heads, ours.kv_heads, ours.d_k) == (2, 4, 2, 8)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"context_length": None}, "context_length: expected a positive whole number, got nothing"),
        ({"context_length": 0}, "context_length: expected a positive whole number, got 0"),
        (
            {"context_length": 2**31},
            f"context_length: expected a positive whole number, got {2**31}",
        ),
        ({"context_length": True}, "context_length: expected a positive whole number, got True"),
        (
            {"attention__head_count": [4, 4]},
            "attention.head_count: expected a positive whole number, got [4, 4]",
        ),
        (
            {"rope__freq_base": float("nan")},
            "rope.freq_base: expected a positive number, got nan",
        ),
        (
            {"rope__freq_base": float("inf")},
            "rope.freq_base: expected a positive number, got inf",
        ),
        (
            {"rope__dimension_count": 4},
            "rope.dimension_count: expected 8, the width of a head, got 4",
        ),
        (
            {"attention__value_length": 4},
            "attention.value_length: expected 8, the width of a head, got 4",
        ),
        (
            {"attention__head_count_kv": 3},
            "attention.head_count_kv: expected a divisor of 4, got 3",
        ),
        (
            {"attention__key_length": 7},
            "attention.key_length: expected an even number, for rotations turn pairs, got 7",
        ),
        (
            {"block_count": 2**31 - 1},
            "block_count: expected at most 20, the tensors there, got 2147483647",
        ),
        (
            {"rope__scaling__type": "dynamic"},
            "rope.scaling.type: expected 'none', 'linear' or 'yarn', got 'dynamic'",
        ),
        ({"expert_count": 8}, "expert_count: expected 0, got 8"),
        (
            {"rope__scaling__type": "linear"},
            "rope.scaling.factor: expected a positive number, got nothing",
        ),
        ({"novelty": 1}, "novelty: expected no such setting, got 1"),
    ],
)
def test_a_faulty_setting_is_named(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        LLAMA.read(header(**changed))
    assert str(caught.value) == f"x.gguf cannot be read: llama.{said}"


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(CheckpointError) as caught:
        LLAMA.read(header(context_length=None, expert_count=8))
    assert str(caught.value) == (
        "x.gguf cannot be read, 2 faults:\n"
        "  - llama.context_length: expected a positive whole number, got nothing\n"
        "  - llama.expert_count: expected 0, got 8"
    )


def test_every_tensor_has_its_place() -> None:
    head = header(attention__head_count_kv=2)
    places = LLAMA.places(LLAMA.read(head), head)
    assert {name: tensor.shape for name, tensor in head.tensors.items()} == {
        name: place.in_file for name, place in places.items()
    }
    dealt = {name for name, place in places.items() if isinstance(place.stored, Dealt)}
    assert dealt == {f"blk.{layer}.attn_{part}.weight" for layer in (0, 1) for part in "qk"}
    assert places["blk.1.ffn_norm.weight"].name == "model.layers.1.post_attention_layernorm.weight"


def test_scalings_are_read() -> None:
    stretched = {"rope__scaling__factor": 4.0, "rope__scaling__original_context_length": 16}
    base = {"rope_theta": 10_000.0, "factor": 4.0}
    linear = LLAMA.read(header(**stretched))  # what a factor means where nothing else is said
    assert linear["rope_parameters"] == {"rope_type": "linear", **base}
    assert linear == LLAMA.read(header(**stretched, rope__scaling__type="linear"))
    yarn = LLAMA.read(
        header(**stretched, rope__scaling__type="yarn", rope__scaling__finetuned=True)
    )
    assert yarn["rope_parameters"] == {
        "rope_type": "yarn",
        "original_max_position_embeddings": 16,
        **base,
    }
