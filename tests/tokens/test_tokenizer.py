"""One tokenizer type: text, ids, bytes, pieces."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import TokenError
from clearhead.tokens import TextTokenizer
from tests.tokens import tiny

BYTES = TextTokenizer.wrap(tiny.byte_level())


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_bytes_of_the_tokens_are_the_bytes_of_the_text(text: str) -> None:
    ids = BYTES.encode(text)
    stands_for = b"".join(BYTES.token_bytes(token_id) for token_id in ids)
    assert stands_for == text.encode()


def test_one_emoji_over_its_bytes() -> None:
    ids = BYTES.encode("he 😀")
    assert [piece.label for piece in BYTES.pieces(ids)] == [
        "he",
        " ",
        "😀[1/3]",
        "😀[2/3]",
        "😀[3/3]",
    ]


def test_special_tokens_stand_for_their_names() -> None:
    ids = BYTES.encode("<s>he")
    assert ids[0] == 0
    assert BYTES.token_bytes(0) == b"<s>"
    assert [(piece.text, piece.special) for piece in BYTES.pieces(ids)] == [
        ("<s>", True),
        ("he", False),
    ]


def test_special_tokens_around_the_text_are_asked_for() -> None:
    tokenizer = TextTokenizer.wrap(tiny.byte_level(begins=True))
    assert tokenizer.encode("he") == [0, *tokenizer.encode("he", special=False)]
    assert tokenizer.decode(tokenizer.encode("he")) == "<s>he"


def test_sentence_piece_bytes_and_added_spaces() -> None:
    tokenizer = TextTokenizer.wrap(tiny.sentence_piece())
    raw = tiny.sentence_piece()
    assert tokenizer.token_bytes(raw.token_to_id("▁a")) == b" a"
    assert tokenizer.token_bytes(raw.token_to_id("▁▁")) == b"  "
    assert tokenizer.token_bytes(raw.token_to_id("<unk>")) == b"<unk>"
    shown = tokenizer.pieces(tokenizer.encode("a😀", special=False))
    assert [piece.label for piece in shown] == [
        " a",
        "😀[1/4]",
        "😀[2/4]",
        "😀[3/4]",
        "😀[4/4]",
    ]


def test_word_pieces_keep_their_mark_when_shown() -> None:
    tokenizer = TextTokenizer.wrap(tiny.word_piece())
    ids = tokenizer.encode("walking")
    assert [piece.label for piece in tokenizer.pieces(ids)] == ["[CLS]", "walk", "##ing", "[SEP]"]
    assert [tokenizer.token_bytes(token_id) for token_id in ids[1:3]] == [b"walk", b"ing"]


def test_an_id_without_a_token_is_shown_as_its_number() -> None:
    size = BYTES.vocabulary_size
    piece = BYTES.pieces([size])[0]
    assert (piece.label, piece.special) == (f"<{size}>", True)
    for wrong in (size, -1, 2**40):
        with pytest.raises(TokenError) as caught:
            BYTES.token_bytes(wrong)
        assert str(caught.value) == (
            f"ids: no token has the id {wrong} (the vocabulary has {size} tokens)"
        )
    with pytest.raises(TokenError, match=f"no token has the id -2, {size} "):
        BYTES.decode([0, size, -2])


def test_text_that_is_no_unicode() -> None:
    with pytest.raises(TokenError) as caught:
        BYTES.encode("ab\udce9")
    assert str(caught.value) == (
        "text: expected valid Unicode, got the lone surrogate U+DCE9 at character 2; "
        "was it read from bytes that are no UTF-8?"
    )


def test_a_folder_gives_the_same_and_no_truncation(tmp_path: Path) -> None:
    tokenizer = tiny.byte_level()
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=9)
    read = TextTokenizer.from_folder(tiny.saved(tmp_path, tokenizer))
    text = "he said that he did"
    assert read.encode(text) == BYTES.encode(text)
    assert TextTokenizer.wrap(tokenizer).encode(text) == BYTES.encode(text)
    assert tokenizer.truncation is not None  # the caller's own is left as it was


def test_what_cannot_be_wrapped() -> None:
    with pytest.raises(TokenError) as caught:
        TextTokenizer.wrap("gpt2")
    assert str(caught.value) == (
        "tokenizer: expected a TextTokenizer, a tokenizers.Tokenizer or a transformers tokenizer, "
        "got str"
    )
    assert TextTokenizer.wrap(BYTES) is BYTES


def test_a_transformers_tokenizer_gives_what_it_gives_itself() -> None:
    from transformers import PreTrainedTokenizerFast

    names = {"bos_token": "<s>", "eos_token": "</s>"}
    host = PreTrainedTokenizerFast(tokenizer_object=tiny.byte_level(begins=True), **names)
    host.chat_template = "{{ bos_token }}{{ messages[0].content }}"
    wrapped = TextTokenizer.wrap(host)
    assert wrapped.encode("he 😀") == host.encode("he 😀")
    assert wrapped.decode([0, 1]) == host.decode([0, 1])
    assert wrapped.vocabulary_size == len(host)
    assert wrapped.chat([{"role": "user", "content": "he"}]) == wrapped.encode("he")
    assert wrapped.pieces(wrapped.encode("he"))[0].special


def test_a_transformers_tokenizer_written_in_python() -> None:
    from transformers import ByT5Tokenizer

    wrapped = TextTokenizer.wrap(ByT5Tokenizer())
    assert [piece.label for piece in wrapped.pieces(wrapped.encode("é"))] == [
        "é[1/2]",
        "é[2/2]",
        "</s>",
    ]


@pytest.mark.real_model
def test_smollm2_gives_back_every_byte(smollm2_folder: Path, seed: int) -> None:
    tokenizer = TextTokenizer.from_folder(smollm2_folder)
    chance = random.Random(seed)
    kinds = [range(32, 127), range(48, 58), range(0x20, 0x2FFF), range(0x1F300, 0x1F700)]
    text = "".join(chr(chance.choice(chance.choice(kinds))) for _ in range(2000))
    ids = tokenizer.encode(text)
    assert b"".join(map(tokenizer.token_bytes, ids)) == text.encode()
    assert tokenizer.decode(ids) == text
    chat = tokenizer.chat([{"role": "user", "content": "hello"}])
    assert tokenizer.decode(chat).startswith("<|im_start|>system\nYou are")
    assert tokenizer.decode(chat).endswith(
        "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    )


def test_reading_a_folder_imports_neither_torch_nor_transformers(tmp_path: Path) -> None:
    code = (
        "import sys; from clearhead.tokens import TextTokenizer; "
        f"TextTokenizer.from_folder({str(tiny.saved(tmp_path))!r}).encode('he'); "
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_special_tokens_by_what_they_are_for() -> None:
    backend = TextTokenizer.wrap(tiny.byte_level())._backend
    words = TextTokenizer(backend, special_tokens={"eos_token": "</s>", "pad_token": "not there"})
    assert words.special_id("eos_token") == 1
    assert words.special_id("pad_token") is None
    assert words.special_id("bos_token") is None
