"""The bytes each token stands for, by every spelling in use."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from clearhead.tokens.spelling import Spelling, spelling_of
from tests.tokens import tiny


def test_byte_level_gives_every_byte_once() -> None:
    spelled = [Spelling(byte_level=True).to_bytes(character) for character in tiny.ALPHABET]
    assert sorted(spelled) == [bytes([byte]) for byte in range(256)]


def test_byte_level_agrees_with_what_the_library_encodes() -> None:
    tokenizer = tiny.byte_level()
    text = "".join(chr(code) for code in range(1, 0x2FF)) + "😀"
    tokens = tokenizer.encode(text, add_special_tokens=False).tokens
    spelling = spelling_of(tokenizer)
    assert b"".join(spelling.to_bytes(token) for token in tokens) == text.encode()


def test_a_character_outside_the_byte_alphabet_stands_for_itself() -> None:
    assert Spelling(byte_level=True).to_bytes("中") == "中".encode()


@pytest.mark.parametrize(
    ("token", "stands_for"),
    [("▁the", b" the"), ("<0xE2>", b"\xe2"), ("<0x0a>", b"\n"), ("<0xE2>x", b"<0xE2>x")],
)
def test_sentence_piece(token: str, stands_for: bytes) -> None:
    assert spelling_of(tiny.sentence_piece()).to_bytes(token) == stands_for


def test_word_piece_marks_stand_for_nothing() -> None:
    spelling = spelling_of(tiny.word_piece())
    assert (spelling.to_bytes("##ing"), spelling.to_bytes("walk")) == (b"ing", b"walk")


def test_an_end_of_word_mark_stands_for_a_space() -> None:
    tokenizer = Tokenizer(
        models.BPE(vocab={"a": 0, "a</w>": 1}, merges=[], end_of_word_suffix="</w>")
    )
    tokenizer.decoder = decoders.BPEDecoder()
    spelling = spelling_of(tokenizer)
    assert (spelling.to_bytes("a</w>"), spelling.to_bytes("a")) == (b"a ", b"a")


def test_a_step_is_found_inside_nested_sequences() -> None:
    tokenizer = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel()]
    )
    assert spelling_of(tokenizer) == Spelling(byte_level=True)


def test_a_vocabulary_of_whole_words_is_spelled_as_it_stands() -> None:
    assert spelling_of(Tokenizer(models.WordLevel({"▁a": 0}, "▁a"))).to_bytes("▁a") == "▁a".encode()
