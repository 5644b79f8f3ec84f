"""Shares of an answer's tokens by segment and by depth, out of a survey of their rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clearhead.errors import TraceError
from clearhead.report.documents.parts import (
    Answer,
    AnswerToken,
    Documents,
    Drawn,
    DrawnOnAverage,
    Segment,
)

if TYPE_CHECKING:  # it brings torch, which the command line imports only when it has to
    from clearhead.tracing.survey import Survey

__all__ = ["depth_edges", "documents_of"]

_PARTS = 10

_Numbers = npt.NDArray[np.float64]


def documents_of(
    survey: "Survey", *, segments: Sequence[Segment], answer: Answer, question: str | None
) -> Documents:
    """Sum the shares of every token of an answer.

    Args:
        survey: of the answer's rows.
        segments: the named parts of the prompt.
        answer: the answer.
        question: what was asked, or None.

    Raises:
        TraceError: the shares are not finite.
    """
    edges = depth_edges(answer.start)
    contribution, attention = (
        None
        if measure not in survey.shares
        else _drawn(np.asarray(survey.shares[measure], np.float64), segments, edges)
        for measure in ("contribution", "attention")
    )
    assert attention is not None
    each = zip(
        survey.rows,
        [None] * len(survey.rows) if contribution is None else contribution[1:],
        attention[1:],
        strict=True,
    )
    return Documents(
        prompt_tokens=answer.start,
        question=question,
        answer=answer,
        segments=tuple(segments),
        depth_edges=edges,
        average=DrawnOnAverage(None if contribution is None else contribution[0], attention[0]),
        each=tuple(AnswerToken(*one) for one in each),
    )


def depth_edges(tokens: int) -> tuple[int, ...]:
    """Cut a prompt into ten parts of nearly equal length; fewer where it has fewer tokens.

    Args:
        tokens: how many it has.
    """
    parts = max(1, min(_PARTS, tokens))
    return tuple(round(place * tokens / parts) for place in range(parts + 1))


def _drawn(shares: _Numbers, segments: Sequence[Segment], edges: Sequence[int]) -> list[Drawn]:
    """The average over all rows, then each row."""
    if not np.isfinite(shares).all():
        raise TraceError(
            "the shares of the answer's tokens are not finite: the model's queries, keys or values "
            "hold NaN or Inf; check its weights and precision"
        )
    rows = np.concatenate([shares.mean(0, keepdims=True), shares])
    sums = np.concatenate([np.zeros((len(rows), 1)), rows.cumsum(1)], axis=1)
    prompt = edges[-1]
    starts, stops = [one.start for one in segments], [one.stop for one in segments]
    by_segment = sums[:, stops] - sums[:, starts] if segments else np.zeros((len(rows), 0))
    by_depth = np.diff(sums[:, list(edges)], axis=1)
    outside = np.ones(prompt, dtype=bool)
    for one in segments:
        outside[one.start : one.stop] = False
    elsewhere = rows[:, :prompt][:, outside].sum(1)
    own = rows[:, prompt:].sum(1)
    return [
        Drawn(tuple(named.tolist()), float(rest), float(itself), tuple(depth.tolist()))
        for named, rest, itself, depth in zip(by_segment, elsewhere, own, by_depth, strict=True)
    ]
