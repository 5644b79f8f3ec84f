"""What the settings of Phi-3's files mean."""

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType

from clearhead.errors import CheckpointError
from clearhead.transformer.gguf.header import GgufHeader, GgufTensor
from clearhead.transformer.gguf.phi3 import PHI3

SETTINGS = {
    "block_count": 2,
    "context_length": 64,
    "embedding_length": 32,
    "feed_forward_length": 64,
    "attention.head_count": 4,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "vocab_size": 99,
}


def read(tmp_path: Path, factors: int = 0, **changed: Any) -> dict[str, Any]:
    settings = SETTINGS | {name.replace("__", "."): value for name, value in changed.items()}
    named = {f"phi3.{name}": value for name, value in settings.items()}
    file, kind = tmp_path / "x.gguf", GGMLQuantizationType.F32
    file.write_bytes(struct.pack("<4f", 1.0, 1.5, 2.0, 2.5))
    tensors = {name: GgufTensor(name, (1,), kind, 0, 4) for name in "ab"}
    for place, name in enumerate(["rope_factors_short.weight", "rope_factors_long.weight"]):
        if factors:
            tensors[name] = GgufTensor(name, (factors,), kind, 8 * place, 4 * factors)
    return PHI3.read(GgufHeader(file, named, tensors))


def test_windows(tmp_path: Path) -> None:
    assert read(tmp_path)["sliding_window"] is None
    assert read(tmp_path, attention__sliding_window=0)["sliding_window"] is None
    assert read(tmp_path, attention__sliding_window=5)["sliding_window"] == 5
    with pytest.raises(CheckpointError) as caught:
        read(tmp_path, attention__sliding_window=-1)
    assert str(caught.value) == (
        f"{tmp_path / 'x.gguf'} cannot be read: phi3.attention.sliding_window: "
        "expected a whole number, 0 for none, got -1"
    )


def test_positions(tmp_path: Path) -> None:
    plain = {"rope_type": "default", "rope_theta": 10_000.0}
    assert read(tmp_path)["rope_parameters"] == plain | {"partial_rotary_factor": 1.0}
    half = read(tmp_path, rope__dimension_count=4)
    assert half["rope_parameters"] == plain | {"partial_rotary_factor": 0.5}
    with pytest.raises(CheckpointError) as caught:
        read(tmp_path, rope__dimension_count=16)
    assert str(caught.value) == (
        f"{tmp_path / 'x.gguf'} cannot be read: phi3.rope.dimension_count: "
        "expected at most 8, the width of a head, got 16"
    )


def test_factors(tmp_path: Path) -> None:
    natural = math.sqrt(1 + math.log(64 / 16) / math.log(16))
    told = {"rope__scaling__original_context_length": 16, "rope__dimension_count": 4}
    near = read(tmp_path, 2, **told, rope__scaling__attn_factor=float(np.float32(natural)))
    assert near["original_max_position_embeddings"] == 16
    assert near["rope_parameters"] == {
        "rope_type": "longrope",
        "rope_theta": 10_000.0,
        "partial_rotary_factor": 0.5,
        "short_factor": [1.0, 1.5],
        "long_factor": [2.0, 2.5],
        "factor": 4.0,
        "original_max_position_embeddings": 16,
        "attention_factor": natural,
    }
    other = read(tmp_path, 2, **told, rope__scaling__attn_factor=1.25)
    assert other["rope_parameters"]["attention_factor"] == 1.25


def test_factors_of_another_shape(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        read(tmp_path, 5000)
    assert str(caught.value) == (
        f"{tmp_path / 'x.gguf'} cannot be read: rope_factors_short.weight has the shape (5000,) in "
        "F32, expected one row of at most 4096 numbers in F32"
    )
