"""Show a report in a terminal: the text renderer of the tree of parts."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from clearhead.report.figures import length, percent, scale_bound, size
from clearhead.report.parts import HeadLine, LookReport, NextTokens, Note, Strip
from clearhead.report.strip import GAUGES, level_styles, strip_lines
from clearhead.report.terminal import Terminal, rendered
from clearhead.report.visible import cells, label, shortened, visible

__all__ = ["render_text"]

_INDENT = 2
_BAR, _HALF_BAR = "━", "╸"
_NARROW = 60
_HEADINGS = ("layer", "head", "source", "position", "weight", "contribution", "share")
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
    yield from _head(report.head)
    yield ""
    yield from _facts(report)
    yield ""
    yield from _drew_from(report, width, styles)
    yield ""
    yield from _which_heads(report, width)
    if report.next_tokens.likeliest:
        yield ""
        yield from _came_out(report.next_tokens, width)
    yield ""
    yield _foot(report.notes)


# ------------------------------------------------------------------------------------- head line


def _head(head: HeadLine) -> Iterator[Text]:
    name, origin = visible(head.model), visible(head.weights_origin)
    known = origin.startswith(name) and bool(origin)
    yield Text(origin if known else f"{name}: {origin}" if origin else name, "bold")
    layers = "1 layer" if len(head.layers) == 1 else f"{len(head.layers)} layers"
    yield Text(
        f"{_count(head.tokens, 'token')}, {layers} × {_count(head.heads, 'head')},"
        f" {head.seconds:.2f} s; the trace holds {size(head.trace_bytes)}"
        f" (grows with the text), the full matrices would take {size(head.dense_bytes)}"
        " (grows with its square)"
    )


def _facts(report: LookReport) -> Iterator[Text]:
    strip, first = report.strip, report.first_token
    if strip.strongest:
        source = strip.tokens[strip.strongest[0]]
        itself = source.position == strip.target
        name = "itself" if itself else f"{_name(strip, source.position)} (token {source.position})"
        yield Text(
            f"⟦{_name(strip, strip.target)}⟧ drew most from {name}:"
            f" {percent(source.share)} of its {_measured(strip)}"
        )
    brings = first.contribution_share
    rests = f"On the first token, {_quoted(first.text)}, rests {percent(first.attention)} of its"
    comes = "" if brings is None else f"; from there comes {percent(brings)} of the contribution"
    yield Text(f"{rests} attention{comes}")
    if report.next_tokens.likeliest:
        best = report.next_tokens.likeliest[0]
        yield Text(f"Likeliest next token: {label(best.text)}, {percent(best.probability)}")


def _measured(strip: Strip) -> str:
    return "incoming contribution" if strip.by == "contribution" else "attention"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _name(strip: Strip, position: int) -> str:
    token = strip.tokens[position]
    return shortened(label(token.text.strip(" "), part=token.part, parts=token.parts) or "␣", 24)


def _quoted(text: str) -> str:
    return shortened(label(text.strip(" ")) or "␣", 24)


# ------------------------------------------------------------------------------ where it drew from


def _drew_from(report: LookReport, width: int, styles: Sequence[str]) -> Iterator[RenderableType]:
    strip = report.strip
    yield _title(f"Where ⟦{_name(strip, strip.target)}⟧ drew from, by {strip.by}")
    yield Text(_which_token(report), "dim")
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


def _which_token(report: LookReport) -> str:
    strip, layers = report.strip, report.head.layers
    place = f"Token {strip.target} of {len(strip.tokens)}, counted from 0"
    if strip.asked is not None and strip.asked.strip() != report.target.text.strip():
        place = f"{place}, where {shortened(label(strip.asked), 24)} ends"
    if strip.occurrences > 1:
        found = ", ".join(map(str, strip.found_at[:-1]))
        others = f"; also at {found}" if len(strip.found_at) > 1 else ""
        place = f"{place}, the last of {strip.occurrences} such{others}"
    return f"{place}. {_layers(layers)}, all heads."


def _layers(layers: tuple[int, ...]) -> str:
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    named = ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return f"Layers {named}" if len(layers) > 1 else f"Layer {named}"


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
    names = [_cell(strip, position, most) for position in strip.strongest]
    room = _bar_cells(width, 7 + max(map(cells, (*names, "token"))) + 2 + 10)
    for name, position in zip(names, strip.strongest, strict=True):
        share = strip.tokens[position].share
        table.add_row(percent(share), name, str(position), _bar(share, room))
    return table


def _cell(strip: Strip, position: int, most: int) -> str:
    token = strip.tokens[position]
    shown = label(token.text, part=token.part, parts=token.parts)
    return shortened(f"⟦{shown}⟧" if position == strip.target else shown, most)


# ------------------------------------------------------------------------------------ which heads


def _which_heads(report: LookReport, width: int) -> Iterator[RenderableType]:
    narrow = width < _NARROW
    table = _table(gap=1 if narrow else 2)
    for heading in _NARROW_HEADINGS if narrow else _HEADINGS:
        justify = "left" if heading == "source" else "right"
        table.add_column(heading, justify=justify, no_wrap=True)
    most = _text_cells(width, taken=31 if narrow else 58)
    for row in report.heads.rows:
        table.add_row(
            str(row.layer),
            str(row.head),
            _cell(report.strip, row.source, most),
            str(row.source),
            f"{row.weight:.3f}",
            length(row.contribution),
            percent(row.share),
        )
    legend = " (L layer, H head)" if narrow else ""
    yield _title(f"Through which heads: the strongest links{legend}")
    yield table


# ------------------------------------------------------------------------------------ what came out


def _came_out(next_tokens: NextTokens, width: int) -> Iterator[RenderableType]:
    yield _title(f"What comes next, after token {next_tokens.after}")
    table = _table()
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.show_header = False
    most = _text_cells(width, taken=7 + 8)
    names = [shortened(label(likely.text), most) for likely in next_tokens.likeliest]
    room = _bar_cells(width, 7 + max(map(cells, names)) + 2)
    for name, likely in zip(names, next_tokens.likeliest, strict=True):
        table.add_row(percent(likely.probability), name, _bar(likely.probability, room))
    yield table


# ------------------------------------------------------------------------------------ small pieces


def _foot(notes: Iterable[Note]) -> Table:
    table = _table(gap=1)
    table.show_header = False
    for note in notes:
        source = f" ({note.source})" if note.source else ""
        table.add_row("·", Text(f"{note.text}{source}", "dim"))
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
