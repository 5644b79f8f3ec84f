"""The tokenizer is saved with its model."""

from pathlib import Path
from typing import Any

import transformers

from clearhead.tokens import TextTokenizer
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.loading import load
from clearhead.transformer.model import Transformer
from clearhead.transformer.model_folder import read_folder
from tests.tokens import tiny
from tests.transformer.released_families import made, saved

SIZES: dict[str, Any] = {"vocabulary_size": 30, "context_length": 64, "d_model": 32, "d_ff": 48}


def test_the_tokenizer_is_copied(seeded_weights: None, tmp_path: Path) -> None:
    folder = tiny.saved(saved(made("llama"), tmp_path / "theirs"), bos_token="<s>")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    (folder / "notes.txt").write_text("mine")
    ours = load(read_folder(folder), engine="clearhead", dtype=None, device=None, name="tiny")
    told = ours.save_pretrained(tmp_path / "ours")
    beside = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}
    beside |= {"generation_config.json"}
    assert set(told.files) == {"config.json", "model.safetensors", *beside}
    for name in beside:
        assert (tmp_path / "ours" / name).read_bytes() == (folder / name).read_bytes()


def test_another_tokenizer_is_written_out(seeded_weights: None, tmp_path: Path) -> None:
    ours = load(
        read_folder(tiny.saved(saved(made("llama"), tmp_path / "theirs"))),
        engine="clearhead",
        dtype=None,
        device=None,
        name="tiny",
    )
    host = transformers.PreTrainedTokenizerFast(tokenizer_object=tiny.word_piece())
    for tokenizer in (tiny.byte_level(), tiny.sentence_piece(), host):
        ours.clearhead_tokenizer = TextTokenizer.wrap(tokenizer)
        ours.save_pretrained(tmp_path / "ours")
        again = TextTokenizer.from_folder(tmp_path / "ours")
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
        for text in ("he walks", "the  a"):
            expected = ours.clearhead_tokenizer.encode(text)
            assert again.encode(text) == theirs.encode(text) == expected


def test_names_and_template_of_a_tokenizer_are_written_out(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    tiny.saved(folder, bos_token="<s>", chat_template="{{ bos_token }}{{ messages[0].content }}")
    model = Transformer(TransformerConfig(**SIZES, layers=1, heads=4))
    model.clearhead_tokenizer = TextTokenizer.from_folder(folder)
    model.save_pretrained(tmp_path / "b")
    again = TextTokenizer.from_folder(tmp_path / "b")
    chat = [{"role": "user", "content": "he"}]
    assert again.chat(chat) == model.clearhead_tokenizer.chat(chat)


def test_the_tokenizer_is_saved_although_its_folder_is_gone(
    seeded_weights: None, tmp_path: Path
) -> None:
    folder = tiny.saved(saved(made("llama"), tmp_path / "theirs"))
    ours = load(read_folder(folder), engine="clearhead", dtype=None, device=None, name="tiny")
    folder.rename(tmp_path / "elsewhere")
    ours.save_pretrained(tmp_path / "ours")
    again = TextTokenizer.from_folder(tmp_path / "ours")
    assert again.encode("he walks") == ours.clearhead_tokenizer.encode("he walks")
