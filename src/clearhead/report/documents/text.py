"""Where an answer drew from, in a terminal: by passage, by depth, and token by token."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from clearhead.report.documents.parts import Documents, Drawn
from clearhead.report.figures import percent
from clearhead.report.parts import Measure, Strip
from clearhead.report.scale import level_of
from clearhead.report.strip import GAUGES
from clearhead.report.tables import bar, bar_cells, table, text_cells, title
from clearhead.report.visible import cells, label, shortened, visible

__all__ = ["documents_sections"]

_TEMPLATE, _ITSELF = "between them (the template)", "the answer itself, so far"
_LISTED = 64  # rows of an answer's tokens; --json has all


def documents_sections(documents: Documents, strip: Strip, width: int) -> Iterator[RenderableType]:
    """Write an answer's shares by passage, by depth and by token.

    Args:
        documents: the answer, and where its tokens drew from.
        strip: the text, by whose measure shares are shown.
        width: cells a line.
    """
    by: Measure = strip.by if documents.average.contribution is not None else "attention"
    average = documents.average.contribution if by == "contribution" else None
    average = documents.average.attention if average is None else average
    count = documents.answer.stop - documents.answer.start
    yield title("Where the answer drew from, passage by passage")
    if documents.question is not None:
        yield Text(f"Question: {visible(documents.question)}")
    yield Text(f"Answer: {visible(documents.answer.text.strip())}")
    tokens = "1 token" if count == 1 else f"{count:,} tokens"
    yield Text(f"The average over the answer's {tokens}, by {by}.", "dim")
    yield ""
    yield _by_passage(documents, average, width)
    yield ""
    yield _by_depth(documents.depth_edges, average.depth, width)
    yield ""
    yield title("Each token of the answer")
    yield from _each(documents, strip, by, width)


def _by_passage(documents: Documents, average: Drawn, width: int) -> Table:
    rows = [
        (label(one.name), f"{one.stop - one.start:,}", share)
        for one, share in zip(documents.segments, average.segments, strict=True)
    ]
    rows += [(_TEMPLATE, "", average.elsewhere), (_ITSELF, "", average.answer)]
    most = max(8, min(40, width - 7 - 8 - 6))
    shown = table()
    shown.add_column("share", justify="right", no_wrap=True)
    shown.add_column("passage", no_wrap=True)
    shown.add_column("tokens", justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    named = [shortened(name, most) for name, _, _ in rows]
    room = bar_cells(width, 7 + max(map(cells, named)) + 2 + 8)
    for name, (_, tokens, share) in zip(named, rows, strict=True):
        shown.add_row(percent(share), name, tokens, bar(share, room))
    return shown


def _by_depth(edges: Sequence[int], shares: Sequence[float], width: int) -> Table:
    shown = table()
    shown.add_column("share", justify="right", no_wrap=True)
    shown.add_column("by depth: positions", justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    room = bar_cells(width, 7 + 19 + 2)
    for start, stop, share in zip(edges, edges[1:], shares, strict=False):
        shown.add_row(percent(share), f"{start:,}–{stop - 1:,}", bar(share, room))
    return shown


def _each(documents: Documents, strip: Strip, by: Measure, width: int) -> Iterator[RenderableType]:
    """One line a token: the segment it drew most from, and a gauge for every segment."""
    gauges = len(documents.segments) if width - len(documents.segments) > 56 else 0
    shown = table()
    shown.add_column("position", justify="right", no_wrap=True)
    shown.add_column("token", no_wrap=True)
    shown.add_column("share", justify="right", no_wrap=True)
    shown.add_column("most, of these, from", no_wrap=True)
    if gauges:
        shown.add_column("in order", no_wrap=True)
    most = text_cells(width, taken=8 + 2 + 12 + 2 + 7 + 2 + (gauges + 2 if gauges else 0))
    for entry in documents.each[:_LISTED]:
        drawn = entry.contribution if by == "contribution" else None
        drawn = entry.attention if drawn is None else drawn
        name, share = _strongest(documents, drawn)
        token = strip.tokens[entry.position]
        row = [
            str(entry.position),
            shortened(label(token.text, part=token.part, parts=token.parts), 12),
            percent(share),
            shortened(name, most),
        ]
        if gauges:
            row.append("".join(GAUGES[level_of(one)] for one in drawn.segments))
        shown.add_row(*row)
    yield shown
    more = len(documents.each) - _LISTED
    if more > 0:
        yield Text(f"… and {more:,} more; --json has every token.", "dim")


def _strongest(documents: Documents, drawn: Drawn) -> tuple[str, float]:
    """The segment that most came from, and its share; the template where there are none."""
    if not drawn.segments:
        return _TEMPLATE, drawn.elsewhere
    place = max(range(len(drawn.segments)), key=lambda at: drawn.segments[at])
    return label(documents.segments[place].name), drawn.segments[place]
