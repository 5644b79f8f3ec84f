"""Text as it comes: whole characters only, and never past a stop string."""

import random

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from clearhead.tokens.tokenizer import TextTokenizer
from clearhead.transformer.generation.wording import StopStrings, Wording
from tests.tokens import tiny

BYTES = TextTokenizer.wrap(tiny.byte_level())


def pieces(tokenizer: TextTokenizer, ids: list[int], **options) -> list[str]:
    words = Wording(tokenizer, **options)
    found = [words.add(token) for token in ids]
    found.append(words.finish())
    assert "".join(found) == words.text
    return found


def test_a_character_of_several_tokens_appears_at_once() -> None:
    ids = BYTES.encode("a😀b")
    assert len(ids) == 5  # "ðŁ" is one token, so the smiley is three
    assert pieces(BYTES, ids) == ["a", "", "", "😀", "b", ""]


@pytest.mark.parametrize("text", ["naïve 😀👩‍👩‍👧 中文 — ok", "ก็", "\u0000\x7f\n\t", "🇫🇷"])
def test_joined_pieces_are_the_text(text) -> None:
    found = pieces(BYTES, BYTES.encode(text), follows=5)
    assert "".join(found) == text
    assert "\ufffd" not in "".join(found)


def test_bytes_that_are_no_text_are_marked_and_an_unended_character_is_left_out() -> None:
    smiley, letter = BYTES.encode("😀"), BYTES.encode("x")
    assert pieces(BYTES, [*smiley[:2], *letter]) == ["", "", "\ufffdx", ""]
    assert pieces(BYTES, [*letter, *smiley[:2]]) == ["x", "", "", ""]


def test_control_tokens_have_no_text_and_no_character_runs_through_them() -> None:
    smiley, end = BYTES.encode("😀"), BYTES.encode("</s>")
    assert len(end) == 1
    assert pieces(BYTES, [*end, *BYTES.encode("he"), *end]) == ["", "he", "", ""]
    assert pieces(BYTES, [*smiley[:1], *end, *smiley[1:]])[:2] == ["", "\ufffd"]


def test_an_id_that_stands_for_no_token_has_no_text() -> None:
    assert pieces(BYTES, [50_000, *BYTES.encode("he")]) == ["", "he", ""]


def test_a_space_that_begins_a_text_is_left_out_where_it_only_begins_a_word() -> None:
    marked = tiny.sentence_piece()
    marked.decoder = decoders.Metaspace()
    words = TextTokenizer.wrap(marked)
    token = words.encode("a")
    assert words.token_bytes(token[0]) == b" a"
    assert pieces(words, token * 2) == ["a", " a", ""]
    assert pieces(words, token, follows=token[0]) == [" a", ""]
    # these decode a space as a space, wherever it stands
    for kind, text in ((tiny.sentence_piece(), "a"), (tiny.byte_level(), " he")):
        words = TextTokenizer.wrap(kind)
        (token,) = words.encode(text)
        assert pieces(words, [token]) == [words.decode([token]), ""]


def test_words_of_a_vocabulary_of_words_stay_apart() -> None:
    vocabulary = {"the": 0, "cat": 1, "sat": 2, "[end]": 3}
    plain = Tokenizer(models.WordLevel(vocabulary, unk_token="the"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    plain.add_special_tokens(["[end]"])
    words = TextTokenizer.wrap(plain)
    ids = words.encode("the cat sat")
    assert "".join(pieces(words, ids)) == "the cat sat" == words.decode(ids)
    assert pieces(words, ids[1:], follows=ids[0]) == [" cat", " sat", ""]
    assert pieces(words, ids[1:], follows=3) == ["cat", " sat", ""]


def test_pieces_of_words_are_joined() -> None:
    words = TextTokenizer.wrap(tiny.word_piece())
    ids = words.encode("walking walks", special=False)
    assert "".join(pieces(words, ids)) == "walking walks"


def passed(stops: list[str], parts: list[str]) -> tuple[list[str], str | None]:
    strings = StopStrings(stops)
    found = []
    for part in parts:
        found.append(strings.through(part))
        if strings.found is not None:
            return found, strings.found
    return [*found, strings.rest()], None


def test_a_stop_string_is_found_across_parts() -> None:
    assert passed(["\n\n"], ["a\n", "\nb"]) == (["a", ""], "\n\n")
    assert passed(["END"], ["an E", "N", "d EN", "D!"]) == (["an ", "", "ENd ", ""], "END")


def test_what_may_begin_a_stop_string_is_held_back_no_longer_than_it_may() -> None:
    assert passed(["abab"], ["xaba", "c", "ab"]) == (["x", "abac", "", "ab"], None)


def test_the_first_of_several_stop_strings_ends_the_text() -> None:
    assert passed(["cd", "b"], ["abcd"]) == (["a"], "b")
    assert passed(["long one", "o"], ["a lo"]) == (["a l"], "o")


def test_without_stop_strings_all_goes_through() -> None:
    assert passed([], ["a", "b"]) == (["a", "b", ""], None)


def test_any_cut_of_a_text_gives_the_same(seed) -> None:
    draw = random.Random(seed)
    for _ in range(300):
        text = "".join(draw.choices("ab", k=12))
        stops = [
            "".join(draw.choices("ab", k=draw.randint(1, 4))) for _ in range(draw.randint(0, 2))
        ]
        ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
        # letter by letter: the string that is complete first, and before it what stands before it
        first = min(ends, default=None)
        done = [s for s in stops if first is not None and text[:first].endswith(s)]
        expected = text if first is None else text[: first - max(map(len, done))]
        found, stop = passed(stops, list(text))
        assert "".join(found) == expected
        assert stop is None if first is None else stop in done


def test_a_text_stops_at_a_string_across_tokens() -> None:
    ids = BYTES.encode("hello😀 he")
    words = Wording(BYTES, stops=["lo😀"])
    found = []
    for token in ids:
        found.append(words.add(token))
        if words.stopped:
            break
    assert words.text == "".join(found) == "hel"
    assert words.stopped == "lo😀"
