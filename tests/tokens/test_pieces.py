"""Characters stay whole, however they were cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.tokens import Piece, pieces


def labels(*tokens: bytes) -> list[str]:
    return [piece.label for piece in pieces(tokens)]


def test_a_character_over_four_tokens_shows_whole_in_each() -> None:
    cut = [bytes([byte]) for byte in "😀".encode()]
    assert labels(*cut) == ["😀[1/4]", "😀[2/4]", "😀[3/4]", "😀[4/4]"]


def test_a_token_with_whole_characters_and_a_piece_of_the_next() -> None:
    assert labels(b"ab\xf0\x9f", b"\x98\x80!", b"c") == ["ab😀[1/2]", "😀![2/2]", "c"]


def test_characters_chained_by_one_token_are_counted_together() -> None:
    grin, beam = "😀".encode(), "😁".encode()
    shown = pieces([grin[:2], grin[2:] + beam[:2], beam[2:]])
    assert shown == [Piece("😀", 1, 3), Piece("😀😁", 2, 3), Piece("😁", 3, 3)]


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [
        ([b"\xff"], ["\\xff"]),
        ([b"a\x80b"], ["a\\x80b"]),
        ([b"\xf0\x9f"], ["\\xf0\\x9f"]),  # cut short by the end
        ([b"\xe2", b"x"], ["\\xe2", "x"]),  # cut short by another character
        ([b"\xed\xa0\x80"], ["\\xed\\xa0\\x80"]),  # a surrogate is no character
        ([b"\xc0\x80"], ["\\xc0\\x80"]),  # nor is an overlong zero
        ([b"\xf8\x88\x80\x80\x80"], ["\\xf8\\x88\\x80\\x80\\x80"]),
        ([b"", b"a", b""], ["", "a", ""]),
        ([], []),
    ],
)
def test_bytes_that_are_no_character_show_their_value(
    tokens: list[bytes], shown: list[str]
) -> None:
    assert labels(*tokens) == shown


def test_no_character_runs_through_a_control_token() -> None:
    grin = "😀".encode()
    shown = pieces([grin[:2], b"</s>", grin[2:]], special=[1])
    assert [piece.label for piece in shown] == ["\\xf0\\x9f", "</s>", "\\x98\\x80"]
    assert [piece.special for piece in shown] == [False, True, False]


@given(st.text(), st.lists(st.integers(0, 200)))
def test_however_text_is_cut_every_token_shows_the_characters_it_touches(
    text: str, cuts: list[int]
) -> None:
    data = text.encode(errors="ignore")
    text = data.decode()
    # An empty token touches nothing; it has its own test above.
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    tokens = [data[a:b] for a, b in pairwise(places)]
    shown = pieces(tokens)
    for piece, token in zip(shown, tokens, strict=True):
        if piece.parts == 1:
            assert piece.text.encode() == token
        else:
            assert token in piece.text.encode()
    starts = "".join(piece.text[1:] if piece.part > 1 else piece.text for piece in shown)
    assert starts == text


@given(st.lists(st.binary(max_size=6)))
def test_any_bytes_at_all_give_one_piece_a_token(tokens: list[bytes]) -> None:
    shown = pieces(tokens)
    assert len(shown) == len(tokens)
    assert all(1 <= piece.part <= piece.parts for piece in shown)
