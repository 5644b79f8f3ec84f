"""The rows and sentences about an answer, the same for every renderer: plain text, made visible."""

from collections.abc import Iterator, Sequence

from clearhead.report.documents.parts import AnswerToken, Documents, Drawn, DrawnOnAverage
from clearhead.report.figures import counted
from clearhead.report.parts import Measure, Strip
from clearhead.report.scale import level_of
from clearhead.report.sentences import ITSELF, TEMPLATE
from clearhead.report.strip import GAUGES
from clearhead.report.visible import label, visible

__all__ = [
    "BY_PASSAGE",
    "EACH",
    "EACH_MEANS",
    "averaged",
    "depth_rows",
    "drawn_by",
    "gauges",
    "measure_of",
    "passage_rows",
    "question_and_answer",
    "strongest",
    "token_label",
]

BY_PASSAGE = "Where the answer drew from, passage by passage"
EACH = "Each token of the answer"
EACH_MEANS = (
    "A row is what its token read once it stood there, on the way to the next one; the row before"
    " it wrote it."
)


def measure_of(documents: Documents, strip: Strip) -> Measure:
    """The measure shares are shown by: the strip's, where it is known of the answer."""
    return strip.by if documents.average.contribution is not None else "attention"


def drawn_by(entry: AnswerToken | DrawnOnAverage, by: Measure) -> Drawn:
    """What was drawn by a measure; by attention where the contribution is not known."""
    drawn = entry.contribution if by == "contribution" else None
    return entry.attention if drawn is None else drawn


def question_and_answer(documents: Documents) -> Iterator[str]:
    """Say what was asked, where anything was, and what was answered."""
    if documents.question is not None:
        yield f"Question: {visible(documents.question)}"
    yield f"Answer: {visible(documents.answer.text.strip())}"


def averaged(documents: Documents, by: Measure) -> str:
    """Say over what the shares by passage are the average."""
    tokens = counted(documents.answer.stop - documents.answer.start, "token")
    return f"The average over the answer's {tokens}, by {by}."


def passage_rows(documents: Documents, drawn: Drawn) -> Iterator[tuple[float, str, str]]:
    """Each passage, the template and the answer itself: share, name and number of tokens."""
    for one, share in zip(documents.segments, drawn.segments, strict=True):
        yield share, label(one.name), f"{one.stop - one.start:,}"
    yield drawn.elsewhere, TEMPLATE, ""
    yield drawn.answer, ITSELF, ""


def depth_rows(edges: Sequence[int], drawn: Drawn) -> Iterator[tuple[float, str]]:
    """Each part of the prompt by position: share, and its positions."""
    for start, stop, share in zip(edges, edges[1:], drawn.depth, strict=False):
        yield share, f"{start:,}–{stop - 1:,}"


def token_label(strip: Strip, position: int) -> str:
    """A token of the answer, as it is shown."""
    token = strip.tokens[position]
    return label(token.text, part=token.part, parts=token.parts)


def strongest(documents: Documents, drawn: Drawn) -> tuple[str, float]:
    """The segment that most came from, and its share; the template where there are none."""
    if not drawn.segments:
        return TEMPLATE, drawn.elsewhere
    place = max(range(len(drawn.segments)), key=lambda at: drawn.segments[at])
    return label(documents.segments[place].name), drawn.segments[place]


def gauges(drawn: Drawn) -> str:
    """A gauge for every segment, in order."""
    return "".join(GAUGES[level_of(one)] for one in drawn.segments)
