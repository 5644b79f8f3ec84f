"""The strip wraps like prose, and shade never stands alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.report.build import build_report
from clearhead.report.strip import GAUGES, level_styles, strip_lines
from clearhead.report.visible import cells
from clearhead.tokens.pieces import Piece
from tests.report.fakes import FakeTrace

ANY_TOKEN = st.text(st.characters(exclude_categories=()), max_size=40)


def _lines(trace, width=78, **options):
    return [line.plain for line in strip_lines(build_report(trace, **options).strip, width)]


def test_prose_with_gauges_a_frame_and_a_line_before_what_came_later(animal):
    assert _lines(animal, token=" it") == [
        "▄The ▇animal ▂did ▃not ▅cross ▁the ▆street ▅because ⟦▇it⟧┊ was tired."
    ]
    assert _lines(animal, 38, token=" it") == [
        "▄The ▇animal ▂did ▃not ▅cross ▁the",
        "▆street ▅because ⟦▇it⟧┊ was tired.",
    ]


@given(st.lists(ANY_TOKEN, min_size=1, max_size=12), st.integers(18, 50), st.booleans())
def test_lines_fit_and_hold_every_token(texts, width, causal):
    trace = FakeTrace.of(*texts, causal=causal)
    lines = _lines(trace, width, token=len(texts) // 2)
    assert all(cells(line) <= width for line in lines)
    assert all(line.isprintable() for line in lines if not _has_unassigned(line))
    assert sum(line.count("⟦") for line in lines) >= 1
    assert len([line for line in lines if not line]) <= (lines == [""])


def _has_unassigned(line):
    return any(not character.isprintable() and ord(character) > 0x2FF for character in line)


def test_words_of_several_tokens_are_not_torn():
    trace = FakeTrace.of("aaaa", " un", "believ", "able", " end", contribution=(1, 0, 0, 0, 0))
    assert _lines(trace, 14) == ["█aaaa", "unbelievable", "⟦end⟧"]


def test_a_word_longer_than_the_line_breaks_between_tokens_then_inside():
    trace = FakeTrace.of("abcdef", "ghijkl", "m" * 25, contribution=(0, 0, 1))
    assert _lines(trace, 10) == ["abcdef", "ghijkl⟦", "█mmmmmmmmm", "mmmmmmmmmm", "mmmmmm⟧"]


def test_wide_characters_count_two_cells_and_may_break_anywhere():
    trace = FakeTrace.of("漢字", "かな", "交じ", "り文", contribution=(0, 0, 0, 1))
    assert _lines(trace, 9) == ["漢字かな", "交じ", "⟦█り文⟧"]


def test_new_lines_are_shown_and_break_once():
    trace = FakeTrace.of("a", "\n", "\n", "  ", "b", " c", contribution=(0,) * 5 + (1,))
    assert _lines(trace) == ["a↵↵", "␣␣b ⟦█c⟧"]


def test_a_lone_space_is_a_space_unless_it_brings_something():
    trace = FakeTrace.of("item", " ", "7", contribution=(0, 0, 1))
    assert _lines(trace) == ["item ⟦█7⟧"]
    trace = FakeTrace.of("item", " ", "7", contribution=(0, 0.3, 0.7))
    assert _lines(trace) == ["item▇␣⟦█7⟧"]
    assert _lines(FakeTrace.of("item", " ", contribution=(1, 0))) == ["█item⟦␣⟧"]


def test_a_vocabulary_of_words_is_spaced():
    control = (Piece(text, special=True) for text in ("[CLS]", "[SEP]"))
    first, last = control
    trace = FakeTrace.of(first, "play", "##ing", "cards", ".", last, contribution=(0,) * 5 + (1,))
    assert _lines(trace) == ["[CLS] play##ing cards . ⟦█[SEP]⟧"]
    assert _lines(FakeTrace.of("anti", "dis", contribution=(0, 1))) == ["anti⟦█dis⟧"]


def test_white_space_is_counted_where_it_is_long():
    trace = FakeTrace.of("a", " ", " " * 12, "  b", "c ", "", contribution=(0,) * 5 + (1,))
    assert _lines(trace) == ["a ␣×12 ␣bc␣⟦█‹empty›⟧"]


def test_a_split_character_is_whole_and_marked():
    emoji = (Piece("😀", part, 4) for part in range(1, 5))
    trace = FakeTrace.of("a ", *emoji, contribution=(0, 0, 0, 0, 1))
    assert _lines(trace) == ["a␣😀[1/4]😀[2/4]😀[3/4]⟦█😀[4/4]⟧"]


def test_a_fold_keeps_its_distance():
    texts = [*("a" for _ in range(300)), " ", *("b" for _ in range(300))]
    trace = FakeTrace.of(*texts, contribution=(0,) * 299 + (0.5, 0, 0.5) + (0,) * 299)
    (text,) = _lines(trace, 400)
    assert text == (
        "a … 292 tokens, 0.0% together, none above 0.0% … aaaaaa█a █bbbbbbb"
        " … 286 tokens, 0.0% together, none above 0.0% … bbbbbb⟦b⟧"
    )


def test_folds_say_how_many_and_how_much(thousand):
    text = " ".join(_lines(thousand, token=700))
    assert "▇Once w1 w2 w3 w4 w5 w6 … 288 tokens, 15.1% together, none above 0.1% … w295" in text
    assert "⟦w700⟧┊ w701 w702 w703 w704 w705 w706 … 293 later tokens …" in text


@pytest.mark.parametrize("share", [2.0**-power for power in range(10)])
def test_the_gauge_says_the_band_without_colour(share):
    trace = FakeTrace.of("a", " b", contribution=(share, 1 - share) if share < 1 else (1, 0))
    report = build_report(trace)
    gauge = GAUGES[report.strip.tokens[0].level].strip()
    assert _lines(trace)[0].startswith(f"{gauge}a")


@pytest.mark.parametrize("few", [True, False])
def test_every_band_has_a_style(few):
    assert len(level_styles(few_colours=few)) == len(GAUGES)


def test_special_and_later_tokens_are_styled():
    trace = FakeTrace.of(Piece("<s>", special=True), "a", " b", contribution=(0, 1))
    (line,) = strip_lines(build_report(trace, token=1).strip, 40)
    styles = {line.plain[span.start : span.end]: str(span.style) for span in line.spans}
    assert styles["<s>"] == "italic dim"
    assert styles["b"] == "dim"
