"""What the settings of GPT-2's files mean."""

from pathlib import Path
from typing import Any

import pytest
from gguf import GGMLQuantizationType

from clearhead.errors import CheckpointError
from clearhead.transformer.gguf.gpt2 import GPT2
from clearhead.transformer.gguf.header import GgufHeader, GgufTensor

SETTINGS = {
    "block_count": 1,
    "context_length": 64,
    "embedding_length": 32,
    "attention.head_count": 4,
    "attention.layer_norm_epsilon": 1e-5,
}


def read(*tensors: str, **changed: Any) -> dict[str, Any]:
    settings = SETTINGS | {name.replace("__", "."): value for name, value in changed.items()}
    named = {f"gpt2.{name}": value for name, value in settings.items()}
    kind = GGMLQuantizationType.F32
    held = {
        name: GgufTensor(name, (99, 32), kind, 0, 99 * 32 * 4)
        for name in ("token_embd.weight", *tensors)
    }
    return GPT2.read(GgufHeader(Path("x.gguf"), named, held))


def test_what_is_not_written_follows_from_what_is() -> None:
    config = read()
    assert (config["n_inner"], config["vocab_size"]) == (128, 99)
    assert config["tie_word_embeddings"]
    assert not read("output.weight")["tie_word_embeddings"]
    assert read(feed_forward_length=40)["n_inner"] == 40


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"attention__head_count_kv": 2},
            "attention.head_count_kv: expected 4, the number of heads, got 2",
        ),
        ({"attention__head_count": 5}, "attention.head_count: expected a divisor of 32, got 5"),
        ({"block_count": 7}, "block_count: expected at most 1, the tensors there, got 7"),
    ],
)
def test_a_faulty_setting_is_named(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        read(**changed)
    assert str(caught.value) == f"x.gguf cannot be read: gpt2.{said}"
