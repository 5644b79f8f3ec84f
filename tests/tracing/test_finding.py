"""Which token a word means: whole words, several tokens, cut characters, word pieces."""

import re

import numpy as np
import pytest
import torch

from clearhead.errors import InputError, TokenError
from clearhead.tokens.pieces import Piece, pieces
from clearhead.tracing.finding import occurrences


def tokens(*texts: str) -> list[Piece]:
    return [Piece(text) for text in texts]


SENTENCE = tokens("The", " animal", " was", " tired", ":", " it", " is", " it", "'s", " own", ".")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("animal", [1]),
        (" animal", [1]),
        ("animal ", [1]),
        ("it", [5, 7]),
        ("it's", [8]),
        ("'s", [8]),
        ("The animal was", [2]),
        (".", [10]),
        (":", [4]),
        ("tired: it", [5]),
    ],
)
def test_words_and_runs_of_words(word, expected):
    assert occurrences(word, SENTENCE) == expected


def test_a_word_is_not_found_inside_another():
    assert occurrences("he", tokens("the", " she", " he", " here", "he")) == [2]
    assert occurrences("re", tokens(" we", " are", " re", "-", "re")) == [2, 4]


def test_a_word_of_several_tokens_means_its_last():
    found = tokens("The", " unbel", "iev", "able", " un", " unbel", "iev", "able", "!")
    assert occurrences("unbelievable", found) == [3, 7]
    assert occurrences("un", found) == [4]
    # no word, but a token or a run of tokens inside one
    assert occurrences("unbel", found) == [1, 5]
    assert occurrences("ievable", found) == [3, 7]


def test_punctuation_is_found_beside_letters():
    found = tokens("what", "?!", " Well", "...", " 3", ".", "5", " (", "a", ")")
    assert occurrences("?!", found) == [1]
    assert occurrences("!", found) == [1]
    assert occurrences("3.5", found) == [6]
    assert occurrences("(a)", found) == [9]
    assert occurrences(".", found) == [3, 5]
    assert occurrences("what?!", found) == [1]


def test_signs_of_regular_expressions_are_letters_like_others():
    found = tokens("a", " .*", " (b", "+", ")", " [x]", " \\d")
    for word, place in ((".*", 1), ("(b+)", 4), ("[x]", 5), ("\\d", 6)):
        assert occurrences(word, found) == [place]
    with pytest.raises(TokenError):
        occurrences(".+", found)


def test_a_character_cut_over_tokens_means_the_one_that_ends_it():
    found = pieces([b"a", b" \xf0\x9f", b"\x98", b"\x80", b"!", b" \xf0\x9f\x98", b"\x80b"])
    assert [piece.label for piece in found[1:4]] == [" 😀[1/3]", "😀[2/3]", "😀[3/3]"]
    assert occurrences("😀", found) == [3, 6]
    assert occurrences("😀!", found) == [4]
    assert occurrences("😀b", found) == [6]
    assert occurrences("b", found) == [6]
    assert occurrences("😀[2/3]", found) == [2]
    assert occurrences(" 😀[1/3]", found) == [1]


def test_a_token_may_end_one_character_and_begin_the_next():
    parts = "é".encode()
    found = pieces([b"x " + parts[:1], parts[1:] + b"mid" + parts[:1], parts[1:], b" y"])
    assert [piece.part for piece in found] == [1, 2, 3, 1]
    assert occurrences("émidé", found) == [2]
    assert occurrences("x", found) == [0]
    assert occurrences("y", found) == [3]


def test_bytes_of_no_character_are_found_as_they_are_shown():
    found = pieces([b"a ", b"\xff", b"\xfe"])
    assert occurrences("\\xff", found) == [1]
    assert occurrences("\\xfe", found) == [2]


def test_languages_without_spaces():
    found = tokens("日", "本", "語", "は", "日本")
    assert occurrences("日本", found) == [1, 4]
    assert occurrences("本語", found) == [2]


WORD_PIECES = [
    Piece("[CLS]", special=True),
    *tokens("the", "un", "##want", "##ed", ",", "the", "want", "the", "un", "##it", "3", ".", "5"),
    Piece("[SEP]", special=True),
]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("the", [1, 6, 8]),
        ("unwanted", [4]),
        ("unit", [10]),
        ("want", [7]),
        ("3.5", [13]),
        ("the want", [7]),
        ("##ed", [4]),
        ("[SEP]", [14]),
        ("un", [2, 9]),
    ],
)
def test_word_pieces(word, expected):
    assert occurrences(word, WORD_PIECES) == expected


@pytest.mark.parametrize("word", ["wanted", "ted", "unwant", "thee"])
def test_parts_of_word_pieces_are_no_words(word):
    with pytest.raises(TokenError):
        occurrences(word, WORD_PIECES)


def test_a_heading_is_no_word_piece():
    assert occurrences("##", tokens("##", " Title", "##")) == [0, 2]
    assert occurrences("Title", tokens("##", " Title", "##")) == [1]


def test_white_space_is_found_where_it_is_a_token():
    found = tokens("a", "\n", "b", " ", " c")
    assert occurrences("\n", found) == [1]
    assert occurrences(" ", found) == [3]
    for word in ("", "\t", "  "):
        with pytest.raises(TokenError):
            occurrences(word, found)


@pytest.mark.parametrize("place", [0, 10, -1, -11, np.int64(3), torch.tensor(3)])
def test_an_index_counts_from_either_end(place):
    assert occurrences(place, SENTENCE) == [int(place) % 11]


@pytest.mark.parametrize("place", [11, -12, 10**9])
def test_an_index_outside_lists_the_tokens(place):
    with pytest.raises(TokenError) as caught:
        occurrences(place, tokens("a", "b"))
    assert str(caught.value) == (
        f"token must be an index in [-2, 2), got {place}; the tokens are 0 'a', 1 'b'"
    )


@pytest.mark.parametrize("token", [None, 1.5, ["it"], torch.tensor([1, 2])])
def test_what_is_neither_is_an_error(token):
    with pytest.raises(InputError, match=re.escape(f"an index or a word, got {token!r}")):
        occurrences(token, SENTENCE)


def test_a_word_that_is_not_there_lists_the_tokens_up_to_a_number():
    with pytest.raises(TokenError) as caught:
        occurrences("cat", tokens("a", " dog"))
    assert str(caught.value) == "token 'cat' is not in the text; the tokens are 0 'a', 1 ' dog'"
    with pytest.raises(TokenError) as caught:
        occurrences("cat", tokens(*["x"] * 75))
    assert str(caught.value).endswith(", 59 'x' and 15 more")
