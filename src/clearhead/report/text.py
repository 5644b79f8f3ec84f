"""Show a report in a terminal: the text renderer of the tree of parts."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

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
from clearhead.report.terminal import Terminal, rendered
from clearhead.report.visible import cells

__all__ = ["render_text"]

_INDENT = 2
_BAR, _HALF_BAR = "━", "╸"
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
    yield _title(model_and_weights(report.head))
    yield Text(what_it_took(report.head))
    yield ""
    yield from map(Text, facts(report))
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
    yield _title(drew_from(strip))
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
    table = _table()
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("token", no_wrap=True)
    table.add_column("position", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    most = _text_cells(width, taken=7 + 10 + 6)
    rows = list(source_cells(strip, most=most))
    widest = max(cells("token"), *(cells(name) for _, name, _ in rows))
    room = _bar_cells(width, 7 + widest + 2 + 10)
    for row, position in zip(rows, strip.strongest, strict=True):
        table.add_row(*row, _bar(strip.tokens[position].share, room))
    return table


# ------------------------------------------------------------------------------------ which heads


def _which_heads(report: LookReport, width: int) -> Iterator[RenderableType]:
    narrow = width < _NARROW
    table = _table(gap=1 if narrow else 2)
    for heading in _NARROW_HEADINGS if narrow else LINK_HEADINGS:
        justify = "left" if heading == "source" else "right"
        table.add_column(heading, justify=justify, no_wrap=True)
    most = _text_cells(width, taken=31 if narrow else 58)
    for row in link_cells(report, most=most):
        table.add_row(*row)
    legend = " (L layer, H head)" if narrow else ""
    yield _title(f"{STRONGEST_LINKS}{legend}")
    yield table


# ------------------------------------------------------------------------------------ what came out


def _came_out(next_tokens: NextTokens, width: int) -> Iterator[RenderableType]:
    yield _title(what_comes_next(next_tokens))
    table = _table()
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.show_header = False
    most = _text_cells(width, taken=7 + 8)
    rows = list(next_cells(next_tokens, most=most))
    room = _bar_cells(width, 7 + max(cells(name) for _, name in rows) + 2)
    for row, likely in zip(rows, next_tokens.likeliest, strict=True):
        table.add_row(*row, _bar(likely.probability, room))
    yield table


# ------------------------------------------------------------------------------------ small pieces


def _foot(notes: Iterable[Note]) -> Table:
    table = _table(gap=1)
    table.show_header = False
    for note in notes:
        table.add_row("·", Text(noted(note), "dim"))
    return table


def _title(text: str) -> Text:
    return Text(text, "bold")


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


def _table(gap: int = 2) -> Table:
    return Table(box=None, padding=(0, gap, 0, 0), header_style="dim", pad_edge=False)


def _text_cells(width: int, *, taken: int) -> int:
    return max(6, min(32, width - taken))


def _bar_cells(width: int, taken: int) -> int:
    return max(4, min(50, width - taken))


def _bar(share: float, room: int) -> str:
    halves = round(2 * share * room)
    return _BAR * (halves // 2) + _HALF_BAR * (halves % 2)
