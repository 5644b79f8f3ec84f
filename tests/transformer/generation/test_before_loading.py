"""A model folder alone tells whether a prompt fits."""

import pytest

from clearhead.errors import InputError, TokenError
from clearhead.transformer.generation import before_loading
from clearhead.transformer.generation.before_loading import check_fits
from clearhead.transformer.model_folder import ModelFolder
from clearhead.transformer.safetensors_file import Outline
from tests.transformer.tiny_models import tiny_config


def folder(tmp_path, kind: str = "F32") -> ModelFolder:
    """A folder with a megabyte of weights."""
    each = {"F32": 4, "BF16": 2}[kind]
    tensors = {"weight": Outline(kind, (1_000_000 // each,), 0, 1_000_000)}
    return ModelFolder(tmp_path, {}, (), (), None, tensors=tensors)


def test_both_numbers_of_a_prompt_that_is_too_long(tmp_path) -> None:
    with pytest.raises(TokenError, match=r"has 65 tokens, and the model reads at most 64, new"):
        check_fits(folder(tmp_path), tiny_config(), [1] * 65, asked=None)
    with pytest.raises(TokenError, match=r"has 65 tokens, and the encoder reads at most 64"):
        check_fits(folder(tmp_path), tiny_config("norms around"), [1] * 65, asked=None)
    check_fits(folder(tmp_path), tiny_config("norms around"), [1] * 64, asked=10)


@pytest.mark.parametrize(("kind", "size"), [("F32", "1 MB"), ("BF16", "2 MB")])
def test_weights_and_cache_together(kind, size, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(before_loading, "available_bytes", lambda: 1_000_000)
    with pytest.raises(InputError) as caught:
        check_fits(folder(tmp_path, kind), tiny_config(), [1] * 4, asked=60)
    total = {"1 MB": "1.01 MB", "2 MB": "2.01 MB"}[size]
    # 3 layers · 2 heads · (4 + 4) · 64 slots · 4 bytes
    assert str(caught.value) == (
        f"not enough memory: this takes {size} for the weights and 0.0123 MB for a cache of 64 "
        f"tokens, {total} together, and 1 MB are available; ask for fewer tokens or rows, or load "
        "the model in a smaller dtype"
    )
    monkeypatch.setattr(before_loading, "available_bytes", lambda: 2_100_000)
    check_fits(folder(tmp_path, kind), tiny_config(), [1] * 4, asked=60)
