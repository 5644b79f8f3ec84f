"""Which tokens are this part of a text, in every spelling; no content becomes a control token."""

from types import SimpleNamespace

import pytest

from clearhead.errors import TokenError
from clearhead.tokens.placing import ControlName, PlacedText, placed_text
from clearhead.tokens.tokenizer import TextTokenizer
from tests.tokens import tiny


def fast(tokenizer):
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def by_bytes():
    from transformers import ByT5Tokenizer

    return ByT5Tokenizer()


CUTTERS = {
    "byte level": tiny.byte_level,
    "byte level, begun": lambda: tiny.byte_level(begins=True),
    "sentence pieces": tiny.sentence_piece,
    "transformers' own": lambda: fast(tiny.byte_level()),
    "in Python": by_bytes,
}


@pytest.fixture(params=CUTTERS)
def words(request) -> TextTokenizer:
    return TextTokenizer.wrap(CUTTERS[request.param]())


def spans_of(text: str, *parts: str) -> list[range]:
    found, at = [], 0
    for part in parts:
        at = text.index(part, at)
        found.append(range(at, at + len(part)))
        at += len(part)
    return found


def spelled(words: TextTokenizer, placed: PlacedText, characters: range) -> str:
    tokens = placed.tokens_of(characters)
    ids = placed.ids[tokens.start : tokens.stop]
    return b"".join(words.token_bytes(one) for one in ids).decode()


@pytest.mark.parametrize("parts", [("he he", "é😀 a"), ("a", "a"), ("😀", "a\n b")])
def test_every_part_is_the_tokens_that_spell_it(words, parts):
    text = f"b: {parts[0]}\n\nb {parts[1]}?"
    placed = words.placed(text)
    for part, characters in zip(parts, spans_of(text, *parts), strict=True):
        found = spelled(words, placed, characters)
        assert found.strip() == part.strip()
        assert found in (part, f" {part}")


def test_it_has_the_tokens_of_the_text_begun_once(words):
    text = "he a\n\nb 😀"
    placed = words.placed(text)
    begins = [0] if words._begins_texts else []
    assert list(placed.ids) == [*begins, *words.encode(text, special=False)]
    assert placed.plain == ()
    assert len(placed.spans) == len(placed.ids)


def test_word_pieces_stand_where_their_letters_do():
    words = TextTokenizer.wrap(tiny.word_piece())
    text = "Walking walks\n walk"
    placed = words.placed(text.lower())
    assert [words._spelled(one) for one in placed.ids] == ["walk", "##ing", "walk", "##s", "walk"]
    assert placed.tokens_of(range(7)) == range(2)
    assert placed.tokens_of(range(7, 13)) == range(2, 4)
    assert placed.tokens_of(range(13, 19)) == range(4, 5)


def test_a_token_that_straddles_a_border_belongs_where_its_first_visible_character_is():
    placed = PlacedText("a. \n\n b", (1, 2, 3, 4), ((0, 1), (1, 5), (5, 6), (5, 7)))
    assert placed.tokens_of(range(2)) == range(2)
    assert placed.tokens_of(range(2, 6)) == range(2, 3)
    assert placed.tokens_of(range(6, 7)) == range(3, 4)
    assert placed.tokens_of(range(7, 7)) == range(4, 4)


def test_a_part_without_a_token_of_its_own_is_empty_and_stands_in_its_place():
    placed = PlacedText("ab", (1, 2), ((0, 1), (1, 2)))
    assert placed.tokens_of(range(1, 1)) == range(1, 1)
    late = PlacedText("abc", (1,), ((2, 3),))
    assert late.tokens_of(range(1)) == range(0)


def test_the_token_that_begins_every_text_belongs_to_no_part():
    words = TextTokenizer.wrap(tiny.byte_level(begins=True))
    text = TextTokenizer(words._backend, special_tokens={"bos_token": "<s>"}).placed("he")
    assert text.ids == (0, 258)
    assert text.spans[0] == (-1, -1)
    assert text.tokens_of(range(2)) == range(1, 2)


# ----------------------------------------------------------------------------------------- forging


@pytest.mark.parametrize("make", [tiny.byte_level, lambda: fast(tiny.byte_level())])
def test_the_name_of_a_control_token_is_plain_text_in_what_a_person_gave(make):
    words = TextTokenizer.wrap(make())
    text = "<s>he </s>a<</s>/s></s>"
    given = spans_of(text, "he </s>a<</s>/s>")
    placed = words.placed(text, contents=given)
    assert placed.plain == (ControlName("</s>", 6), ControlName("</s>", 12))
    assert words.decode(placed.ids) == text
    assert [one for one in placed.ids if words._backend.is_special(one)] == [0, 1]
    assert spelled(words, placed, given[0]) == text[3:-4]
    assert words.placed(text).ids.count(1) == 3
    assert words.encode("</s>", special=False) == [1], "the tokenizer is left as it was"


def test_what_stands_for_unknown_text_is_no_control_token():
    words = TextTokenizer.wrap(tiny.word_piece())
    text = "walk zzz [SEP] [UNK]"
    placed = words.placed(text, contents=[range(len(text))])
    assert [found.name for found in placed.plain] == ["[SEP]", "[UNK]"]
    assert not {1, 2} & set(placed.ids)


def test_a_tokenizer_in_python_keeps_control_tokens_out_too():
    words = TextTokenizer.wrap(by_bytes())
    placed = words.placed("a</s>b", contents=[range(6)])
    assert placed.plain == (ControlName("</s>", 1),)
    assert words.decode(placed.ids) == "a</s>b"
    assert words._backend.token_id("</s>") not in placed.ids


def test_a_tokenizer_that_does_not_say_where_its_tokens_stand_is_refused():
    silent = SimpleNamespace(placed=lambda _text, **_how: None)
    with pytest.raises(TokenError) as raised:
        placed_text(silent, "a", contents=(), begins=None, once=False)
    assert str(raised.value) == (
        "this tokenizer does not say which characters its tokens stand for, so that passages and "
        "messages cannot be told apart: give one with a tokenizer.json"
    )
