"""The two kinds of tokenizer behave alike behind one face."""

import pytest

from clearhead.tokens.backend import Backend, FileBackend, HostBackend
from tests.tokens import tiny


def hosted() -> Backend:
    from transformers import ByT5Tokenizer

    return HostBackend(ByT5Tokenizer())


def wrapped() -> Backend:
    from transformers import PreTrainedTokenizerFast

    inner = tiny.byte_level()
    return FileBackend(inner, PreTrainedTokenizerFast(tokenizer_object=inner))


@pytest.mark.parametrize("make", [hosted, wrapped, lambda: FileBackend(tiny.byte_level())])
def test_every_backend_keeps_the_same_promises(make) -> None:
    backend = make()
    text = "he é😀"
    ids = backend.encode(text, special=False)
    tokens = [backend.spelled(token_id) for token_id in ids]
    stands_for = [backend.token_bytes(*pair) for pair in zip(ids, tokens, strict=True)]
    assert b"".join(stands_for) == text.encode()
    assert backend.decode(ids) == text
    assert not any(backend.is_special(token_id) for token_id in ids)
    assert [backend.token_id(token) for token in tokens] == ids
    assert backend.spelled(backend.size()) is None
    assert backend.continues() == ""


def test_the_marks_of_a_word_piece_vocabulary() -> None:
    backend = FileBackend(tiny.word_piece())
    assert backend.continues() == "##"
    assert backend.is_special(backend.token_id("[CLS]"))


def test_added_text_stands_for_itself_in_a_byte_alphabet() -> None:
    tokenizer = tiny.byte_level()
    tokenizer.add_tokens(["é"])  # as a byte's character it would stand for one byte
    backend = FileBackend(tokenizer)
    added = backend.token_id("é")
    assert added is not None
    assert backend.encode("é", special=False) == [added]
    assert backend.token_bytes(added, "é") == "é".encode()
