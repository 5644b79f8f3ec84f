"""Show a report in a terminal: the text renderer of the tree of parts."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from clearhead.report.documents.text import documents_sections
from clearhead.report.figures import scale_bound
from clearhead.report.parts import LookReport, NextTokens, Note, Strip
from clearhead.report.sentences import (
    LINK_HEADINGS,
    STRONGEST_LINKS,
    drew_from,
    facts,
    link_cells,
    model_and_weights,
    next_cells,
    noted,
    source_cells,
    what_comes_next,
    what_it_took,
    which_token,
)
from clearhead.report.strip import GAUGES, level_styles, strip_lines
from clearhead.report.tables import bar, bar_cells, table, text_cells, title
from clearhead.report.terminal import Terminal, rendered
from clearhead.report.visible import cells

__all__ = ["render_text"]

_INDENT = 2
_NARROW = 60
_NARROW_HEADINGS = ("L", "H", "source", "at", "weight", "contr", "share")


def render_text(report: LookReport, terminal: Terminal) -> str:
    """Write a report for a terminal.

    Args:
        report: the tree of parts.
        terminal: its width, colours and encoding.

    Returns:
        Lines that take no more cells than the terminal is wide.
    """
    styles = level_styles(few_colours=terminal.colours == "standard")
    return rendered(Group(*_sections(report, terminal.width, styles)), terminal)


def _sections(report: LookReport, width: int, styles: Sequence[str]) -> Iterator[RenderableType]:
    yield title(model_and_weights(report.head))
    yield Text(what_it_took(report.head))
    yield ""
    yield from map(Text, facts(report))
    yield ""
    if report.documents is not None:
        yield from documents_sections(report.documents, report.strip, width)
        yield ""
    yield from _drew_from(report, width, styles)
    yield ""
    yield from _which_heads(report, width)
    if report.next_tokens.likeliest:
        yield ""
        yield from _came_out(report.next_tokens, width)
    yield ""
    yield _foot(report.notes)


# ------------------------------------------------------------------------------ where it drew from


def _drew_from(report: LookReport, width: int, styles: Sequence[str]) -> Iterator[RenderableType]:
    strip = report.strip
    yield title(drew_from(strip))
    yield Text(which_token(report), "dim")
    yield ""
    lines = strip_lines(strip, width - _INDENT, styles=styles)
    yield from (Padding(line, (0, 0, 0, _INDENT)) for line in lines)
    yield ""
    yield _legend(strip, width, styles)
    if any(stretch.folded for stretch in strip.stretches):
        yield Text("… folds a stretch without a large share; --json has every token.", "dim")
    if strip.causal and strip.target + 1 < len(strip.tokens):
        yield Text("┊ what follows came later and cannot reach the chosen token.", "dim")
    yield ""
    yield _source_table(strip, width)


def _legend(strip: Strip, width: int, styles: Sequence[str]) -> Text:
    words = [Text("Share at least:", "dim")]
    for band in reversed(strip.scale):
        shown = f"{GAUGES[band.level]} {scale_bound(band.at_least)}"
        words.append(Text(shown, styles[band.level]))
    explained = ("(each", "half", "of", "the", "last;", "unmarked:", "less)")
    words.extend(Text(word, "dim") for word in explained)
    return _flowing(words, width)


def _source_table(strip: Strip, width: int) -> Table:
    shown = table()
    shown.add_column("share", justify="right", no_wrap=True)
    shown.add_column("token", no_wrap=True)
    shown.add_column("position", justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    most = text_cells(width, taken=7 + 10 + 6)
    rows = list(source_cells(strip, most=most))
    widest = max(cells("token"), *(cells(name) for _, name, _ in rows))
    room = bar_cells(width, 7 + widest + 2 + 10)
    for row, position in zip(rows, strip.strongest, strict=True):
        shown.add_row(*row, bar(strip.tokens[position].share, room))
    return shown


# ------------------------------------------------------------------------------------ which heads


def _which_heads(report: LookReport, width: int) -> Iterator[RenderableType]:
    narrow = width < _NARROW
    shown = table(gap=1 if narrow else 2)
    for heading in _NARROW_HEADINGS if narrow else LINK_HEADINGS:
        justify = "left" if heading == "source" else "right"
        shown.add_column(heading, justify=justify, no_wrap=True)
    most = text_cells(width, taken=31 if narrow else 58)
    for row in link_cells(report, most=most):
        shown.add_row(*row)
    legend = " (L layer, H head)" if narrow else ""
    yield title(f"{STRONGEST_LINKS}{legend}")
    yield shown


# ------------------------------------------------------------------------------------ what came out


def _came_out(next_tokens: NextTokens, width: int) -> Iterator[RenderableType]:
    yield title(what_comes_next(next_tokens))
    shown = table(headed=False)
    shown.add_column(justify="right", no_wrap=True)
    shown.add_column(no_wrap=True)
    shown.add_column(no_wrap=True)
    most = text_cells(width, taken=7 + 8)
    rows = list(next_cells(next_tokens, most=most))
    room = bar_cells(width, 7 + max(cells(name) for _, name in rows) + 2)
    for row, likely in zip(rows, next_tokens.likeliest, strict=True):
        shown.add_row(*row, bar(likely.probability, room))
    yield shown


# ------------------------------------------------------------------------------------ small pieces


def _foot(notes: Iterable[Note]) -> Table:
    shown = table(gap=1, headed=False)
    for note in notes:
        shown.add_row("·", Text(noted(note), "dim"))
    return shown


def _flowing(words: Iterable[Text], width: int) -> Text:
    """Wrap between words only: rich would break at the spaces inside them, too."""
    lines = [Text()]
    for word in words:
        if lines[-1].cell_len and lines[-1].cell_len + 1 + word.cell_len > width:
            lines.append(Text())
        elif lines[-1].cell_len:
            lines[-1].append(" ")
        lines[-1].append_text(word)
    return Text("\n").join(lines)
