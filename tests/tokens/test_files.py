"""The tokenizer files of a folder: read whole, refused by name."""

import json
from pathlib import Path

import pytest

from clearhead.errors import CheckpointError
from clearhead.tokens.files import read_files, special_names
from tests.tokens import tiny


def test_truncation_and_padding_are_left_out(tmp_path: Path) -> None:
    tokenizer = tiny.byte_level()
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=9)
    read = read_files(tiny.saved(tmp_path, tokenizer)).tokenizer
    text = "he said that he did"
    assert read.encode(text).ids == tiny.byte_level().encode(text).ids


def test_a_template_of_its_own_goes_before_the_configuration(tmp_path: Path) -> None:
    tiny.saved(tmp_path, chat_template="config")
    assert read_files(tmp_path).template == "config"
    (tmp_path / "chat_template.jinja").write_text("file", encoding="utf-8")
    assert read_files(tmp_path).template == "file"


def test_special_tokens_in_every_form(tmp_path: Path) -> None:
    tiny.saved(tmp_path, bos_token={"content": "<s>"}, eos_token="</s>", pad_token=None, other=1)
    (tmp_path / "special_tokens_map.json").write_text(
        json.dumps({"eos_token": "old", "unk_token": "<unk>"}), encoding="utf-8"
    )
    assert read_files(tmp_path).special_tokens == {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
    }
    assert special_names({}) == {}


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        read_files(tmp_path)
    assert str(caught.value) == f"{tmp_path} holds no tokenizer.json"


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("chat_template.jinja", b"\xff"),
        ("tokenizer_config.json", b"[1]"),
        ("tokenizer_config.json", b"{" * 5000),
        ("special_tokens_map.json", b"\xff"),
        ("tokenizer.json", b"{}"),
        ("tokenizer.json", b'{"model": '),
    ],
)
def test_a_damaged_file_is_named(name: str, damage: bytes, tmp_path: Path) -> None:
    (tiny.saved(tmp_path) / name).write_bytes(damage)
    with pytest.raises(CheckpointError) as caught:
        read_files(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / name} cannot be read: ")
