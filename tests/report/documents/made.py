"""An answer and where it drew from, made without a model."""

from dataclasses import replace

from clearhead.report.build import build_report
from clearhead.report.documents.parts import (
    Answer,
    AnswerToken,
    Documents,
    Drawn,
    DrawnOnAverage,
    Segment,
)
from clearhead.report.parts import LookReport
from tests.report.fakes import FakeTrace

__all__ = ["documents", "drawn", "drawn_from"]


def drawn(*segments: float, answer: float = 0.25) -> Drawn:
    """Shares of the passages; the rest is the template's."""
    rest = 1 - answer - sum(segments)
    return Drawn(segments, rest, answer, ((1 - answer) / 2,) * 2)


def documents(*names: str, tokens: int = 2, known: bool = True, **different) -> Documents:
    """A prompt of ten tokens, and an answer that draws most from the first passage."""
    segments = tuple(Segment(name, "passage", place, place + 1) for place, name in enumerate(names))
    each = [drawn(*(0.5 / 2**place for place in range(len(names)))) for _ in range(tokens)]
    made = Documents(
        prompt_tokens=10,
        question="Who sang?",
        answer=Answer("he did", 10, 10 + tokens, generated=True, ended_by="end_token"),
        segments=segments,
        depth_edges=(0, 5, 10),
        average=DrawnOnAverage(each[0] if known else None, each[0]),
        each=tuple(
            AnswerToken(10 + place, one if known else None, one) for place, one in enumerate(each)
        ),
    )
    return replace(made, **different)


def drawn_from(made: Documents) -> LookReport:
    """A report that holds them."""
    trace = FakeTrace.of(*(f" w{place}" for place in range(made.answer.stop)))
    return replace(build_report(trace, token=made.answer.start), documents=made)
