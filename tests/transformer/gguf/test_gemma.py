"""What Gemma's files leave unsaid: scales, and which layers have a window."""

from pathlib import Path
from typing import Any

import pytest
from gguf import GGMLQuantizationType

from clearhead.errors import CheckpointError
from clearhead.transformer.gguf.architecture import Architecture
from clearhead.transformer.gguf.gemma import GEMMA2, GEMMA3
from clearhead.transformer.gguf.header import GgufHeader, GgufTensor

SETTINGS = {
    "block_count": 12,
    "context_length": 64,
    "embedding_length": 32,
    "feed_forward_length": 64,
    "attention.head_count": 2,
    "attention.key_length": 8,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "vocab_size": 99,
}


def read(architecture: Architecture, **changed: Any) -> dict[str, Any]:
    settings = SETTINGS | {name.replace("__", "."): value for name, value in changed.items()}
    named = {f"{architecture.name}.{name}": value for name, value in settings.items()}
    kind = GGMLQuantizationType.F32
    tensors = {str(n): GgufTensor(str(n), (1,), kind, 0, 4) for n in range(100)}
    return architecture.read(GgufHeader(Path("x.gguf"), named, tensors))


def windows(architecture: Architecture, **changed: Any) -> str:
    kinds = read(architecture, **changed)["layer_types"]
    return "".join("w" if kind == "sliding_attention" else "." for kind in kinds)


@pytest.mark.parametrize(("architecture", "largest"), [(GEMMA2, 46), (GEMMA3, 62)])
def test_the_scale_is_that_of_a_head_but_in_the_largest(
    architecture: Architecture, largest: int
) -> None:
    assert read(architecture)["query_pre_attn_scalar"] == 8
    assert read(architecture, block_count=largest)["query_pre_attn_scalar"] == 16
    assert read(architecture, block_count=largest + 1)["query_pre_attn_scalar"] == 8


def test_which_layers_have_a_window() -> None:
    window = {"attention__sliding_window": 4}
    assert windows(GEMMA2) == windows(GEMMA2, **window) == "w.w.w.w.w.w."
    assert windows(GEMMA3) == "............"
    assert windows(GEMMA3, **window) == "wwwww.wwwww."
    told = {"attention__sliding_window_pattern": 3}
    assert windows(GEMMA2, **told) == windows(GEMMA3, **window, **told) == "ww.ww.ww.ww."
    told["attention__sliding_window_pattern"] = [True] * 3 + [False] * 9
    assert windows(GEMMA3, **window, **told) == "www........."
    told["attention__sliding_window_pattern"] = 1
    assert windows(GEMMA3, **window, **told) == "............"


def test_caps_and_bases() -> None:
    second, third = read(GEMMA2), read(GEMMA3)
    assert (second["attn_logit_softcapping"], second["final_logit_softcapping"]) == (50.0, 30.0)
    assert (third["attn_logit_softcapping"], third["final_logit_softcapping"]) == (None, None)
    assert read(GEMMA3, final_logit_softcapping=7.0)["final_logit_softcapping"] == 7.0
    assert second["rope_parameters"] == {"rope_type": "default", "rope_theta": 10_000.0}
    turning = read(GEMMA3, rope__freq_base_swa=3.0)["rope_parameters"]
    assert turning["sliding_attention"]["rope_theta"] == 3.0
    assert turning["full_attention"] == {"rope_type": "default", "rope_theta": 1_000_000.0}


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (0, "a positive whole number, got 0"),
        ("6", "a positive whole number, got '6'"),
        ([True], "12 truth values, got [True]"),
        ([1] * 12, "12 truth values, got [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"),
    ],
)
def test_a_faulty_pattern_is_named(pattern: Any, said: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        read(GEMMA2, attention__sliding_window_pattern=pattern)
    name = "gemma2.attention.sliding_window_pattern"
    assert str(caught.value) == f"x.gguf cannot be read: {name}: expected {said}"
