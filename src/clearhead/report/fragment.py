"""Show a report inside a notebook: static HTML, a second renderer of the same tree of parts.

No script, no style sheet and no address: a fragment is text between tags, every piece escaped.
Shades are one amber at growing strength over whatever ground the notebook has, light or dark, and
each stands beside its gauge.
"""

from collections.abc import Iterable, Iterator
from html import escape

from clearhead.report.figures import length, percent, percent_at_most, scale_bound, size
from clearhead.report.parts import LookReport, SourceToken, Strip
from clearhead.report.strip import GAUGES
from clearhead.report.visible import label, visible

__all__ = ["render_fragment"]


_LAST_FAINT = 5  # on stronger amber the notebook's own ink may be too light to read


def render_fragment(report: LookReport) -> str:
    """Write a report as a fragment of HTML.

    Args:
        report: the tree of parts.

    Returns:
        One ``<div>`` that needs nothing else.
    """
    return "".join(
        [
            '<div style="max-width:60em;line-height:1.7">',
            *_head(report),
            f"<p>{_strip(report.strip)}</p>",
            f"<p><small>Share at least: {_legend(report.strip)}</small></p>",
            *_table("Strongest sources", ("share", "token", "position"), _sources(report.strip)),
            *_table(
                "Through which heads: the strongest links",
                ("layer", "head", "source", "position", "weight", "contribution", "share"),
                _links(report),
            ),
            *_next_tokens(report),
            *(f"<p><small>{_note(note.text, note.source)}</small></p>" for note in report.notes),
            "</div>",
        ]
    )


def _head(report: LookReport) -> Iterator[str]:
    head, strip, first = report.head, report.strip, report.first_token
    chosen = escape(_label(report.target))
    yield f"<p><b>{escape(visible(head.model))}</b>: {escape(visible(head.weights_origin))}<br>"
    yield f"{head.tokens:,} tokens, {len(head.layers)} layers × {head.heads} heads,"
    yield f" {head.seconds:.2f} s; the trace holds {size(head.trace_bytes)},"
    yield f" the full matrices would take {size(head.dense_bytes)}</p>"
    yield f"<p>Where ⟦{chosen}⟧ (token {strip.target}) drew from, by {strip.by}."
    if strip.occurrences > 1:
        yield f" It is the last of {strip.occurrences} such."
    yield f" On the first token rests {percent(first.attention)} of its attention"
    brings = first.contribution_share
    yield "" if brings is None else f"; from there comes {percent(brings)} of the contribution"
    yield ".</p>"


def _strip(strip: Strip) -> str:
    shown: list[str] = []
    for stretch in strip.stretches:
        if not stretch.folded:
            shown.extend(
                _token(token, strip) for token in strip.tokens[stretch.start : stretch.stop]
            )
            continue
        shown.append(
            f" <i>… {stretch.stop - stretch.start} tokens, {percent(stretch.share)} together,"
            f" none above {percent_at_most(stretch.largest)} …</i> "
        )
    return "".join(shown)


def _token(token: SourceToken, strip: Strip) -> str:
    spaced = token.space_before
    text = f"{GAUGES[token.level].strip()}{_label(token, spaced=spaced)}"
    told = f"token {token.position}, {percent(token.share)}, rank {token.rank}"
    style = _shade(token.level)
    if token.position == strip.target:
        text, style = f"⟦{text}⟧", f"{style};font-weight:bold"
    elif not token.reachable:
        told, style = f"token {token.position}, came later: cannot be a source", "opacity:.5"
    marked = f'<span style="{style}" title="{told}">{escape(text)}</span>'
    return f"{' ' if spaced else ''}{marked}{'<br>' if token.text.endswith(chr(10)) else ''}"


def _label(token: SourceToken, *, spaced: bool = True) -> str:
    text = token.text.removeprefix(" ") if spaced else token.text
    return label(text, part=token.part, parts=token.parts)


def _shade(level: int) -> str:
    ink = ";color:#000" if level > _LAST_FAINT else ""
    return f"background:rgba(245,168,0,{level * 0.11:.2f}){ink}"


def _legend(strip: Strip) -> str:
    return " ".join(
        f'<span style="{_shade(band.level)}">{GAUGES[band.level]}'
        f" {scale_bound(band.at_least)}</span>"
        for band in reversed(strip.scale)
    )


def _sources(strip: Strip) -> Iterator[tuple[str, ...]]:
    for position in strip.strongest:
        token = strip.tokens[position]
        yield percent(token.share), _label(token, spaced=False), str(position)


def _links(report: LookReport) -> Iterator[tuple[str, ...]]:
    for row in report.heads.rows:
        yield (
            str(row.layer),
            str(row.head),
            _label(report.strip.tokens[row.source], spaced=False),
            str(row.source),
            f"{row.weight:.3f}",
            length(row.contribution),
            percent(row.share),
        )


def _next_tokens(report: LookReport) -> Iterator[str]:
    likeliest = report.next_tokens.likeliest
    if likeliest:
        rows = ((percent(likely.probability), label(likely.text)) for likely in likeliest)
        title = f"What comes next, after token {report.next_tokens.after}"
        yield from _table(title, ("probability", "token"), rows)


def _table(title: str, headings: Iterable[str], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f'<table style="color:inherit;margin:1em 0"><caption>{escape(title)}</caption><tr>'
    yield "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    yield "</tr>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
    yield "</table>"


def _note(text: str, source: str) -> str:
    return escape(f"{text} ({source})" if source else text)
