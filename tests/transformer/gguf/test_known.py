"""Which architectures can be read."""

from pathlib import Path

import pytest

from clearhead.errors import CheckpointError
from clearhead.transformer.gguf.header import GgufHeader
from clearhead.transformer.gguf.known import ARCHITECTURES, architecture_of


def test_each_is_found_by_its_name() -> None:
    for name, architecture in ARCHITECTURES.items():
        header = GgufHeader(Path("x.gguf"), {"general.architecture": name}, {})
        assert architecture_of(header) is architecture


@pytest.mark.parametrize("name", [None, "mamba", ["llama"], 7])
def test_another_is_refused_by_name(name: object) -> None:
    with pytest.raises(CheckpointError) as caught:
        architecture_of(GgufHeader(Path("x.gguf"), {"general.architecture": name}, {}))
    assert str(caught.value) == (
        f"x.gguf cannot be read: it holds a model of the architecture {name!r}; "
        "readable are llama, qwen2, qwen3, gemma2, gemma3, phi3, gpt2"
    )
