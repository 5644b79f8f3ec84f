"""Rows and sentences about an answer, out of which every renderer makes its tables."""

from clearhead.report.documents.rows import (
    EACH_MEANS,
    averaged,
    depth_rows,
    drawn_by,
    gauges,
    measure_of,
    passage_rows,
    question_and_answer,
    strongest,
    token_label,
)
from tests.report.documents.made import documents, drawn, drawn_from


def test_every_part_has_its_share():
    made = documents("a.txt", "b.txt")
    average = drawn_by(made.average, "contribution")
    assert list(passage_rows(made, average)) == [
        (0.5, "a.txt", "1"),
        (0.25, "b.txt", "1"),
        (0.0, "between them (the template)", ""),
        (0.25, "the answer itself, so far", ""),
    ]
    assert list(depth_rows(made.depth_edges, average)) == [(0.375, "0–4"), (0.375, "5–9")]
    assert strongest(made, average) == ("a.txt", 0.5)
    assert gauges(average) == "█▇"
    assert strongest(documents(), drawn()) == ("between them (the template)", 0.75)


def test_what_is_not_known_is_shown_by_attention():
    made = documents("a", known=False)
    strip = drawn_from(made).strip
    assert measure_of(made, strip) == "attention"
    assert measure_of(documents("a"), strip) == "contribution"
    assert drawn_by(made.each[0], "contribution") == made.each[0].attention
    assert averaged(made, "attention") == "The average over the answer's 2 tokens, by attention."


def test_question_answer_and_tokens_are_named():
    made = documents("a", tokens=1)
    assert list(question_and_answer(made)) == ["Question: Who sang?", "Answer: he did"]
    assert list(question_and_answer(documents("a", question=None))) == ["Answer: he did"]
    assert token_label(drawn_from(made).strip, 10) == "␣w10"
    assert EACH_MEANS == (
        "A row is what its token read once it stood there, on the way to the next one; the row "
        "before it wrote it."
    )
