"""Show a report inside a notebook: static HTML, a second renderer of the same tree of parts.

No script, no style sheet and no address: a fragment is text between tags, every piece escaped.
Shades are one amber at growing strength over whatever ground the notebook has, light or dark, and
each stands beside its gauge.
"""

from collections.abc import Iterable, Iterator
from html import escape

from clearhead.report.documents.parts import Documents
from clearhead.report.documents.rows import (
    BY_PASSAGE,
    EACH,
    EACH_MEANS,
    averaged,
    depth_rows,
    drawn_by,
    measure_of,
    passage_rows,
    question_and_answer,
    token_label,
)
from clearhead.report.figures import percent, scale_bound
from clearhead.report.parts import LookReport, Measure, SourceToken, Strip
from clearhead.report.scale import shade
from clearhead.report.sentences import (
    ITSELF,
    LINK_HEADINGS,
    STRONGEST_LINKS,
    TEMPLATE,
    drew_from,
    facts,
    folded,
    link_cells,
    model_and_weights,
    next_cells,
    noted,
    source_cells,
    what_comes_next,
    what_it_took,
    which_token,
)
from clearhead.report.strip import GAUGES
from clearhead.report.visible import label

__all__ = ["render_fragment"]


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
            *_documents(report.documents, report.strip),
            f"<p>{_strip(report.strip)}</p>",
            f"<p><small>Share at least: {_legend(report.strip)}</small></p>",
            *_table(
                "Strongest sources", ("share", "token", "position"), source_cells(report.strip)
            ),
            *_table(STRONGEST_LINKS, LINK_HEADINGS, link_cells(report)),
            *_next_tokens(report),
            *(f"<p><small>{escape(noted(note))}</small></p>" for note in report.notes),
            "</div>",
        ]
    )


def _head(report: LookReport) -> Iterator[str]:
    head = report.head
    yield f"<p><b>{escape(model_and_weights(head))}</b><br>{escape(what_it_took(head))}</p>"
    yield f"<p>{'<br>'.join(map(escape, facts(report)))}</p>"
    yield f"<p><b>{escape(drew_from(report.strip))}</b><br>"
    yield f"<small>{escape(which_token(report))}</small></p>"


def _documents(documents: Documents | None, strip: Strip) -> Iterator[str]:
    """Where an answer drew from: by passage, by depth, and each of its tokens."""
    if documents is None:
        return
    by = measure_of(documents, strip)
    average = drawn_by(documents.average, by)
    yield f"<p>{'<br>'.join(map(escape, question_and_answer(documents)))}</p>"
    rows = ((percent(share), *told) for share, *told in passage_rows(documents, average))
    yield from _table(BY_PASSAGE, ("share", "passage", "tokens"), rows)
    yield f"<p><small>{escape(averaged(documents, by))}</small></p>"
    depth = ((percent(share), at) for share, at in depth_rows(documents.depth_edges, average))
    yield from _table("By depth in the prompt", ("share", "positions"), depth)
    segments = [label(one.name) for one in documents.segments]
    each = list(_each(documents, strip, by))
    yield from _table(EACH, ("position", "token", *segments, TEMPLATE, ITSELF), each)
    yield f"<p><small>{escape(EACH_MEANS)}</small></p>"


def _each(documents: Documents, strip: Strip, by: Measure) -> Iterator[tuple[str, ...]]:
    for entry in documents.each:
        drawn = drawn_by(entry, by)
        shares = map(percent, (*drawn.segments, drawn.elsewhere, drawn.answer))
        yield str(entry.position), token_label(strip, entry.position), *shares


def _strip(strip: Strip) -> str:
    shown: list[str] = []
    for stretch in strip.stretches:
        if stretch.folded:
            shown.append(f" <i>{folded(stretch, strip)}</i> ")
            continue
        shown.extend(_token(token, strip) for token in strip.tokens[stretch.start : stretch.stop])
    return "".join(shown)


def _token(token: SourceToken, strip: Strip) -> str:
    spaced = token.space_before
    shown = token.text.removeprefix(" ") if spaced else token.text
    shown = label(shown, part=token.part, parts=token.parts)
    text = f"{GAUGES[token.level].strip()}{shown}"
    told = f"token {token.position}, {percent(token.share)}, rank {token.rank}"
    style = shade(token.level)
    if token.position == strip.target:
        text, style = f"⟦{text}⟧", f"{style};font-weight:bold"
    elif not token.reachable:
        told, style = f"token {token.position}, came later: cannot be a source", "opacity:.5"
    marked = f'<span style="{style}" title="{told}">{escape(text)}</span>'
    return f"{' ' if spaced else ''}{marked}{'<br>' if token.text.endswith(chr(10)) else ''}"


def _legend(strip: Strip) -> str:
    return " ".join(
        f'<span style="{shade(band.level)}">{GAUGES[band.level]}'
        f" {scale_bound(band.at_least)}</span>"
        for band in reversed(strip.scale)
    )


def _next_tokens(report: LookReport) -> Iterator[str]:
    upcoming = report.next_tokens
    if upcoming.likeliest:
        yield from _table(what_comes_next(upcoming), ("probability", "token"), next_cells(upcoming))


def _table(title: str, headings: Iterable[str], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f'<table style="color:inherit;margin:1em 0"><caption>{escape(title)}</caption><tr>'
    yield "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    yield "</tr>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
    yield "</table>"
