"""``clearhead generate`` says where only a bound ended a text that nobody bounded."""

import json

import pytest

from clearhead.cli import run
from tests.tokens import tiny as tokenizers
from tests.transformer.tiny_llama import make


@pytest.fixture
def folder(seeded_weights, tmp_path, monkeypatch) -> str:
    """A small Llama with a token for every byte, whose texts have no end of their own."""
    monkeypatch.setenv("COLUMNS", "80")
    return saved(tmp_path, max_position_embeddings=512)


def saved(path, **settings) -> str:
    model = make(vocab_size=300, eos_token_id=None, bos_token_id=None, **settings)
    model.save_pretrained(path)
    tokenizers.saved(path)
    return str(path)


DRAWN = ["--temperature", "1", "--seed", "3"]


def said(capsys, *arguments: str) -> str:
    assert run(["generate", "he", *DRAWN, *arguments]) == 0
    return capsys.readouterr().err


def test_the_default_and_what_changes_it(folder, capsys) -> None:
    assert said(capsys, "--model", folder) == (
        "clearhead: cut at 256 new tokens: the default; --max-new-tokens N changes it\n"
    )


def test_a_context_that_is_full(folder, capsys, tmp_path) -> None:
    small = saved(tmp_path / "small", max_position_embeddings=64)
    capsys.readouterr()  # transformers shows a bar while it saves
    count = len(json.loads(generated(capsys, "--model", small, "--json"))["token_ids"])
    assert said(capsys, "--model", small) == (
        f"clearhead: cut at {count} new tokens: the model reads no more; shorten the prompt\n"
    )


def generated(capsys, *arguments: str) -> str:
    assert run(["generate", "he", *DRAWN, *arguments]) == 0
    shown, err = capsys.readouterr()
    assert err == ""  # JSON tells it
    return shown


def test_a_bound_that_was_asked_for_is_known(folder, capsys) -> None:
    assert said(capsys, "--model", folder, "--max-new-tokens", "9") == ""


def test_a_text_that_ends_by_itself_was_not_cut(folder, capsys) -> None:
    whole = generated(capsys, "--model", folder, "--max-new-tokens", "200")
    letter = next(one for one in whole if one.isascii() and one.isalnum())
    assert said(capsys, "--model", folder, "--stop", letter) == ""
