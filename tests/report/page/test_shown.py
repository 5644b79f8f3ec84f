"""What the module shows but must not make: names written by ``visible``, once for each word."""

from dataclasses import replace

import pytest

from clearhead.report.build import build_report
from clearhead.report.page.shown import piece, shown
from clearhead.tokens.pieces import Piece
from tests.report.fakes import FakeTrace

PLAIN = {"look": {"documents": None}}


def words(*texts, values=PLAIN):
    found = shown(build_report(FakeTrace.of(*texts)), values)
    return [found["words"][place] for place in found["token"]]


def test_a_word_has_a_label_a_name_and_a_piece():
    assert words("The", " cat", "\n", " ") == [
        ["The", "The", "The"],
        ["␣cat", "cat", "cat"],
        ["↵", "↵", "↵"],
        ["␣", "␣", "␣"],
    ]


def test_equal_words_are_told_once():
    found = shown(build_report(FakeTrace.of(" a", " b", " a")), PLAIN)
    assert (len(found["words"]), found["token"]) == (2, [0, 1, 0])


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\u202e", "‹U+202E›"),
        ("\ud800", "‹U+D800›"),
        ("", "‹empty›"),
        ("x" * 60, "x" * 60),
        (" " * 9 + "x", "␣×8x"),
        (" " * 9, "␣×9"),
    ],
)
def test_pieces_are_plain_to_see(text, seen):
    assert words("The", text)[1][2] == seen


def test_a_part_of_a_character_says_which():
    parts = FakeTrace.of("a", Piece("😀", 1, 4), Piece("😀", 2, 4))
    tokens = build_report(parts).strip.tokens
    assert [piece(token) for token in tokens] == ["a", "😀[1/4]", "😀[2/4]"]
    assert piece(replace(tokens[2], text="      ")) == "␣×6[2/4]"


def test_passages_layers_notes_and_next_tokens():
    segments = {"segments": [{"name": "a\u202eb"}], "answer": {"start": 1, "stop": 2}}
    report = build_report(FakeTrace.of("a", " b", layers=(0, 1, 4)), token="b")
    found = shown(report, {"look": {"documents": segments}})
    assert found["segments"] == ["a‹U+202E›b", "The answer"]
    assert found["layers"] == "Layers 0–1, 4, all heads."
    assert found["likeliest"][:2] == ["␣Paris", "␣a"]
    assert [len(found["notes"][by]) for by in ("contribution", "attention")] == [3, 3]
    assert found["notes"]["contribution"] != found["notes"]["attention"]
    assert found["paragraphs"] == []
    assert found["notes"]["attention"][0]["text"]


def paragraphs(*texts):
    found = shown(build_report(FakeTrace.of(*texts)), PLAIN)
    return found["paragraphs"], found["segments"]


def test_a_long_text_has_its_paragraphs():
    words = [" a"] * 60
    names = ["paragraph 1", "paragraph 2", "paragraph 3"]
    ends = [[0, 61], [61, 123], [123, 183]]
    assert paragraphs(*words, ".\n\n", *words, "\n", "\n", *words) == (ends, names)
    assert paragraphs(*words, "\n\n", *words, "\n", *words) == ([], [])
    assert paragraphs("a\n\n", "b\n\n", "c") == ([], [])
    assert paragraphs(*words, "\n\n", "\n", *words, ".\n", "\n", *words, "\n\n")[0] == [
        [0, 62],
        [62, 124],
        [124, 185],
    ]
