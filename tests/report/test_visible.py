"""Whatever a text holds, what is shown of it prints, on one line, and acts on nothing."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.report.visible import cells, label, one_line, shortened, visible

ANY_TEXT = st.text(st.characters(exclude_categories=()))
SHOWN_NOT = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


@given(ANY_TEXT)
def test_nothing_unseen_is_left(text):
    for shown in (visible(text), label(text), one_line(text)):
        assert not {unicodedata.category(character) for character in shown} & SHOWN_NOT
        assert not {character for character in shown if character.isspace()} - {" "}


@given(st.text(st.characters(categories=["Ll", "Lu", "Nd", "Po"], exclude_characters="\uffa0")))
def test_ordinary_text_stays_as_it_is(text):
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a b", "a b"),
        ("\n\t\r", "↵⇥␍"),
        ("\x1b[31m", "␛[31m"),
        ("\x9b\x7f", "‹U+009B›␡"),
        ("\u202eabc\u2066", "‹U+202E›abc‹U+2066›"),
        ("\ud800", "‹U+D800›"),
        ("\xa0\u3000", "‹U+00A0›‹U+3000›"),
        ("❤\ufe0f", "❤‹U+FE0F›"),
        ("\U000e0041", "‹U+E0041›"),
        ("e\u0301", "e\u0301"),
        ("\u0301e", "◌\u0301e"),
        (" \u0301", " ◌\u0301"),
        ("a" + "\u0301" * 6 + "b", "a" + "\u0301" * 4 + "‹+2 marks›b"),
        ("漢字", "漢字"),
    ],
)
def test_signs(text, shown):
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [(" Paris", "␣Paris"), ("a b", "a b"), ("a  b ", "a␣␣b␣"), ("", ""), ("   ", "␣␣␣")],
)
def test_label_shows_outer_and_doubled_spaces(text, shown):
    assert label(text) == shown


def test_label_marks_a_part_of_a_character():
    assert label("😀", part=2, parts=4) == "😀[2/4]"


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("plain", "plain"),
        ("reading x, 2 faults:\n  - a\n  - b", "reading x, 2 faults: a; b"),
        ("a\n\nb\n", "a; b"),
        ("token '\x1b[2J' is\nnot there", "token '␛[2J' is; not there"),
    ],
)
def test_one_line(message, line):
    assert one_line(message) == line


@given(ANY_TEXT, st.integers(2, 30))
def test_shortened_fits(text, most):
    assert cells(shortened(visible(text), most)) <= most


def test_shortened_by_cells_and_not_by_characters():
    assert shortened("漢字漢字", 5) == "漢字…"
    assert shortened("abcd", 4) == "abcd"
