"""Weights that memory cannot hold are refused before they are read, by every engine."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from clearhead.errors import InputError
from clearhead.transformer import loading
from clearhead.transformer.available_memory import gigabytes
from clearhead.transformer.checkpoint import from_pretrained
from clearhead.transformer.gguf import kept
from tests.transformer.gguf.tiny_gguf import random_tensors, write_gguf
from tests.transformer.tiny_llama import make


def available(monkeypatch: pytest.MonkeyPatch, size: int | None) -> None:
    monkeypatch.setattr(loading, "available_bytes", lambda: size)


def numbers(model: nn.Module) -> int:
    return sum(one.numel() for one in model.parameters())


@pytest.fixture
def folder(tiny_llama: nn.Module, tmp_path: Path) -> Path:
    tiny_llama.half().save_pretrained(tmp_path)
    return tmp_path


SMALLER = "load it in a smaller dtype, such as bfloat16, or take a smaller model"


@pytest.mark.parametrize("engine", ["clearhead", "transformers"])
@pytest.mark.parametrize(
    ("dtype", "width", "advice"),
    [
        (None, 4, SMALLER),
        ("float64", 8, SMALLER),
        ("float16", 2, "take a smaller model"),  # as they are stored: mapped, and read all the same
        (torch.bfloat16, 2, "take a smaller model"),
    ],
)
def test_what_is_needed_and_what_there_is(
    dtype: Any,
    width: int,
    advice: str,
    engine: str,
    folder: Path,
    tiny_llama: nn.Module,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = width * numbers(tiny_llama)
    available(monkeypatch, size - 1)
    name = str(dtype or "float32").removeprefix("torch.")
    with pytest.raises(InputError) as caught:
        from_pretrained(folder, engine=engine, dtype=dtype)
    assert str(caught.value) == (
        f"not enough memory: this takes {gigabytes(size)} for the weights in {folder} as {name}, "
        f"and {gigabytes(size - 1)} are available; {advice}"
    )
    for enough in (size, None):
        available(monkeypatch, enough)
        from_pretrained(folder, engine=engine, dtype=dtype)


@pytest.mark.parametrize("tied", [True, False])
def test_a_tensor_that_stands_twice_is_once_in_memory(
    tied: bool, seeded_weights: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = make(tie_word_embeddings=tied)
    theirs.save_pretrained(tmp_path)
    torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")  # with a head of its own
    (tmp_path / "model.safetensors").unlink()
    available(monkeypatch, 4 * numbers(theirs))
    from_pretrained(tmp_path, weights="pickle")
    available(monkeypatch, 4 * numbers(theirs) - 1)
    with pytest.raises(InputError, match="not enough memory"):
        from_pretrained(tmp_path, weights="pickle")


def test_a_gguf_file_is_kept_and_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing it out takes the memory of one tensor; it is there when there is room."""
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    file = write_gguf(tmp_path / "x.gguf", random_tensors(0))
    available(monkeypatch, 1000)
    with pytest.raises(InputError) as caught:
        from_pretrained(file)
    said = f"for the weights in {kept.folder_of(file)} as float32, and 0.001 MB are available"
    assert said in str(caught.value)
    available(monkeypatch, None)
    from_pretrained(file)


def test_another_devices_memory_is_not_this_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    available(monkeypatch, 1)
    from_pretrained(folder, device="meta")
