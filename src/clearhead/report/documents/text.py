"""Where an answer drew from, in a terminal: by passage, by depth, and token by token."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from clearhead.report.documents.parts import Documents, Drawn
from clearhead.report.documents.rows import (
    BY_PASSAGE,
    EACH,
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
from clearhead.report.figures import percent
from clearhead.report.parts import Measure, Strip
from clearhead.report.tables import bar, bar_cells, table, text_cells, title
from clearhead.report.visible import cells, shortened

__all__ = ["documents_sections"]

_LISTED = 64  # rows of an answer's tokens; --json has all


def documents_sections(documents: Documents, strip: Strip, width: int) -> Iterator[RenderableType]:
    """Write an answer's shares by passage, by depth and by token.

    Args:
        documents: the answer, and where its tokens drew from.
        strip: the text, by whose measure shares are shown.
        width: cells a line.
    """
    by = measure_of(documents, strip)
    average = drawn_by(documents.average, by)
    yield title(BY_PASSAGE)
    yield from map(Text, question_and_answer(documents))
    yield Text(averaged(documents, by), "dim")
    yield ""
    yield _by_passage(documents, average, width)
    yield ""
    yield _by_depth(documents.depth_edges, average, width)
    yield ""
    yield title(EACH)
    yield Text(EACH_MEANS, "dim")
    yield from _each(documents, strip, by, width)


def _by_passage(documents: Documents, average: Drawn, width: int) -> Table:
    rows = list(passage_rows(documents, average))
    most = max(8, min(40, width - 7 - 8 - 6))
    shown = table()
    shown.add_column("share", justify="right", no_wrap=True)
    shown.add_column("passage", no_wrap=True)
    shown.add_column("tokens", justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    named = [shortened(name, most) for _, name, _ in rows]
    room = bar_cells(width, 7 + max(map(cells, named)) + 2 + 8)
    for name, (share, _, tokens) in zip(named, rows, strict=True):
        shown.add_row(percent(share), name, tokens, bar(share, room))
    return shown


def _by_depth(edges: Sequence[int], average: Drawn, width: int) -> Table:
    shown = table()
    shown.add_column("share", justify="right", no_wrap=True)
    shown.add_column("by depth: positions", justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    room = bar_cells(width, 7 + 19 + 2)
    for share, positions in depth_rows(edges, average):
        shown.add_row(percent(share), positions, bar(share, room))
    return shown


def _each(documents: Documents, strip: Strip, by: Measure, width: int) -> Iterator[RenderableType]:
    """One line a token: the segment it drew most from, and a gauge for every segment."""
    gauged = len(documents.segments) if width - len(documents.segments) > 56 else 0
    shown = table()
    shown.add_column("position", justify="right", no_wrap=True)
    shown.add_column("token", no_wrap=True)
    shown.add_column("share", justify="right", no_wrap=True)
    shown.add_column("most, of these, from", no_wrap=True)
    if gauged:
        shown.add_column("in order", no_wrap=True)
    most = text_cells(width, taken=8 + 2 + 12 + 2 + 7 + 2 + (gauged + 2 if gauged else 0))
    for entry in documents.each[:_LISTED]:
        drawn = drawn_by(entry, by)
        name, share = strongest(documents, drawn)
        token = shortened(token_label(strip, entry.position), 12)
        row = [str(entry.position), token, percent(share), shortened(name, most)]
        shown.add_row(*row, *([gauges(drawn)] if gauged else []))
    yield shown
    more = len(documents.each) - _LISTED
    if more > 0:
        yield Text(f"… and {more:,} more; --json has every token.", "dim")
