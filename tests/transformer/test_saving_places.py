"""Where a model is saved to: what is no path of a folder is refused before anything is written."""

from pathlib import Path

import pytest

from clearhead.errors import CheckpointError, InputError
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.model import Transformer

SIZES = {"vocabulary_size": 30, "context_length": 64, "d_model": 16, "heads": 2}


def model_of() -> Transformer:
    return Transformer(TransformerConfig(**SIZES, d_ff=24, layers=1))


@pytest.mark.parametrize("given", ["a\0b", "\0", "\ud800", None, 3, b"a", ["a"], object()])
def test_what_is_no_path(given: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        model_of().save_pretrained(given)
    assert str(caught.value) == f"folder: expected the path of a folder, got {given!r}"
    assert not list(tmp_path.iterdir())


def test_an_empty_name_is_not_the_folder_one_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        model_of().save_pretrained("")
    assert str(caught.value) == (
        "folder: expected the path of a folder, got ''; '.' is the one you are in"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["x" * 300, "a/" + "x" * 300, "x" * 300 + "/a"])
def test_a_name_that_no_disk_holds(place: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        model_of().save_pretrained(tmp_path / place)
    assert str(caught.value) == (
        f"{tmp_path / place} cannot be written: File name too long; what stood there is as it was"
    )
    assert not list(tmp_path.iterdir())


def test_a_file_stands_where_the_folder_should(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    with pytest.raises(InputError) as caught:
        model_of().save_pretrained(tmp_path / "a")
    assert str(caught.value) == f"folder: expected a folder, and {tmp_path / 'a'} is a file"
    with pytest.raises(CheckpointError) as refused:
        model_of().save_pretrained(tmp_path / "a" / "b")
    assert str(refused.value) == (
        f"{tmp_path / 'a' / 'b'} cannot be written: Not a directory; what stood there is as it was"
    )
