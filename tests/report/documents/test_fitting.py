"""What does not fit is said by name and by how much."""

import pytest

from clearhead.errors import TokenError
from clearhead.report.documents.fitting import check_bytes, check_fits
from clearhead.report.documents.parts import Segment
from clearhead.report.documents.prompt import Prompt
from clearhead.tokens.placing import PlacedText


def prompt(*lengths: int, kind: str = "passage") -> Prompt:
    """Passages of these lengths, ten tokens between and a question of twenty."""
    segments, at = [], 10
    for number, length in enumerate(lengths):
        segments.append(Segment(f"{'abcdef'[number]}.txt", kind, at, at + length))
        at += length + 10
    segments.append(Segment("question", "question", at, at + 20))
    return Prompt(PlacedText("", (7,) * (at + 20), ()), (), tuple(segments), "?")


def refused(made: Prompt, *, most: int, answer: int = 64, given: bool = False) -> str:
    with pytest.raises(TokenError) as raised:
        check_fits(made, answer=answer, most=most, model="tiny", given=given)
    return str(raised.value)


def test_what_fits_fits():
    made = prompt(100, 200)
    assert len(made.ids) == 350
    check_fits(made, answer=64, most=414, model="tiny", given=False)
    check_fits(made, answer=10**6, most=None, model="tiny", given=False)


def test_the_last_passage_is_named_first():
    assert refused(prompt(100, 200), most=350) == (
        "the prompt takes 350 tokens and the answer up to 64; tiny reads 350: 64 too many. What "
        "does not fit: 'b.txt' (200 tokens, 64 too many)"
    )


@pytest.mark.parametrize(("most", "over", "room"), [(413, 1, 63), (351, 63, 1)])
def test_where_only_the_answer_is_too_long_the_largest_that_fits_is_said(most, over, room):
    assert refused(prompt(100, 200), most=most) == (
        f"the prompt takes 350 tokens and the answer up to 64; tiny reads {most}: {over} too many. "
        f"Give max_new_tokens of at most {room}, or shorten the prompt"
    )


def test_what_cannot_fit_by_its_size_is_named_before_it_is_cut():
    texts = {"small": "he", "large": "é" * 640, "larger": "x" * 3000}
    with pytest.raises(TokenError) as raised:
        check_bytes(texts, most=5, model="tiny")
    assert str(raised.value) == (
        "the prompt is too large: tiny reads 5 tokens. What does not fit: 'larger' (3,000 bytes); "
        "'large' (1,280 bytes)"
    )
    check_bytes({"large": "é" * 640}, most=5, model="tiny")
    check_bytes(texts, most=None, model="tiny")


def test_every_passage_beyond_the_room_is_named():
    assert refused(prompt(3000, 4000, 2000), most=4000, answer=5, given=True) == (
        "the prompt takes 9,060 tokens and the answer 5; tiny reads 4,000: 5,065 too many. What "
        "does not fit: 'b.txt' (4,000 tokens, 3,065 too many); 'c.txt' (2,000 tokens, all of it)"
    )


def test_where_there_are_no_passages_the_prompt_is_too_long():
    told = (
        "the prompt takes 330 tokens and the answer up to 64; tiny reads 40: 354 too many. Shorten "
        "the prompt, or the answer"
    )
    assert refused(prompt(290, kind="message"), most=40) == told
