"""Shares by segment and by depth are sums of the survey's shares, and nothing is lost."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

from clearhead.errors import TraceError
from clearhead.report.documents.parts import Answer, Segment
from clearhead.report.documents.shares import depth_edges, documents_of

PROMPT, ROWS, TOKENS = 23, 3, 26
ANSWER = Answer("abc", PROMPT, TOKENS, generated=False, ended_by=None)
SEGMENTS = (
    Segment("a", "passage", 2, 9),
    Segment("empty", "passage", 11, 11),
    Segment("b", "passage", 12, 13),
    Segment("question", "question", 14, 20),
)


def shares(generator) -> torch.Tensor:
    raw = torch.rand(ROWS, TOKENS, generator=generator)
    raw = raw.tril(PROMPT)  # no token draws from a later one
    return raw / raw.sum(1, keepdim=True)


def surveyed(**by) -> SimpleNamespace:
    return SimpleNamespace(rows=tuple(range(PROMPT, TOKENS)), shares=by)


def documents(**by):
    return documents_of(surveyed(**by), segments=SEGMENTS, answer=ANSWER, question="?")


def test_every_share_is_counted_once(generator):
    both = {"contribution": shares(generator), "attention": shares(generator)}
    found = documents(**both)
    assert [one.position for one in found.each] == [23, 24, 25]
    for measure, given in both.items():
        rows = [given.mean(0), *given]
        drawn = [getattr(one, measure) for one in (found.average, *found.each)]
        for one, row in zip(drawn, rows, strict=True):
            expected = [float(row[part.start : part.stop].sum()) for part in SEGMENTS]
            assert one.segments == pytest.approx(expected, abs=1e-6)
            assert one.answer == pytest.approx(float(row[PROMPT:].sum()), abs=1e-6)
            assert sum(one.segments) + one.elsewhere + one.answer == pytest.approx(1, abs=1e-6)
            assert sum(one.depth) == pytest.approx(1 - one.answer, abs=1e-6)
            edges = found.depth_edges
            by_hand = [float(row[a:b].sum()) for a, b in pairwise(edges)]
            assert one.depth == pytest.approx(by_hand, abs=1e-6)
    assert (found.prompt_tokens, found.question, found.segments) == (PROMPT, "?", SEGMENTS)


def test_without_w_o_there_is_attention_alone(generator):
    found = documents(attention=shares(generator))
    assert found.average.contribution is None
    assert {one.contribution for one in found.each} == {None}
    assert len(found.average.attention.segments) == 4


def test_without_segments_all_is_elsewhere(generator):
    given = shares(generator)
    found = documents_of(surveyed(attention=given), segments=(), answer=ANSWER, question=None)
    drawn = found.average.attention
    assert drawn.segments == ()
    assert drawn.elsewhere == pytest.approx(1 - drawn.answer, abs=1e-6)


@pytest.mark.parametrize(
    ("tokens", "edges"),
    [
        (1, (0, 1)),
        (4, (0, 1, 2, 3, 4)),
        (10, tuple(range(11))),
        (8000, tuple(range(0, 8001, 800))),
    ],
)
def test_a_prompt_is_cut_into_ten_parts_or_fewer(tokens, edges):
    assert depth_edges(tokens) == edges


@pytest.mark.parametrize("tokens", [11, 23, 99, 8191])
def test_parts_are_nearly_equal_and_cover_all(tokens):
    edges = depth_edges(tokens)
    widths = [b - a for a, b in pairwise(edges)]
    assert (edges[0], edges[-1], len(widths)) == (0, tokens, 10)
    assert max(widths) - min(widths) <= 1


def test_shares_that_are_not_finite_are_refused(generator):
    with pytest.raises(TraceError) as raised:
        documents(attention=shares(generator) * torch.nan)
    assert str(raised.value) == (
        "the shares of the answer's tokens are not finite: the model's queries, keys or values "
        "hold NaN or Inf; check its weights and precision"
    )
