"""The page as it stands before its module runs: text between tags, every piece escaped."""

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from clearhead.report.figures import counted, percent, scale_bound
from clearhead.report.page.passages import answer_fact, passages
from clearhead.report.page.shown import name_of, piece, segments
from clearhead.report.page.tables import EXACT, bar, table
from clearhead.report.parts import LookReport, SourceToken, Stretch, Strip
from clearhead.report.sentences import (
    LINK_HEADINGS,
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
from clearhead.report.visible import visible

__all__ = ["sections", "title"]

_SHORTEST_FOLD = 16  # as stretches fold; a passage's end may cut one shorter
_LATER = "What stands behind ┊ came later and cannot reach the chosen token."
_FOLDS = "… folds a stretch without a large share."
_INSTEAD = (
    "What would be: cut the link and see what changes, with"
    " clearhead.edited(model, [Edit.cut(query_pos=…, key_pos=…)])."
)


def title(report: LookReport) -> str:
    """Name the page, for a tab or a bookmark."""
    return f"{drew_from(report.strip)} · {visible(report.head.model)}"


def sections(report: LookReport, values: dict[str, Any]) -> Iterator[str]:
    """Write everything between the page's body tags but its data and its module.

    Args:
        report: the tree of parts.
        values: the page's values: documents, what was left out, vocabulary and command.
    """
    documents = values["look"].get("documents")
    yield '<main id="page">'
    yield from _head(report, documents)
    if documents is not None:
        yield from passages(documents, report.strip.by)
    yield from _drew(report, documents)
    yield from _heads(report)
    yield '<section id="steps" hidden></section>'
    yield from _came_out(report)
    yield from _foot(report, values)
    yield "</main>"


def _head(report: LookReport, documents: dict[str, Any] | None) -> Iterator[str]:
    head, by = report.head, report.strip.by
    first, *others = facts(report)
    name, seen_from = drew_from(report.strip), "one token"
    if documents is not None:
        first, others = answer_fact(documents, by), [first, *others]
        name, seen_from = f"Where the answer drew from, by {by}", "an answer"
    yield '<header id="head">'
    yield f'<p class="eyebrow">clearhead · attention, seen from {seen_from}</p>'
    yield f'<h1 id="title">{escape(name)}</h1>'
    yield f'<p id="answer">{escape(first)}.</p>'
    yield f'<ul id="facts">{"".join(f"<li>{escape(fact)}.</li>" for fact in others)}</ul>'
    yield f'<p id="facts-mark" class="quiet">Each number above is {EXACT}</p>'
    yield f'<p class="model"><b>{escape(model_and_weights(head))}</b><br>'
    yield f"{escape(what_it_took(head))}</p>"
    yield "</header>"


# ------------------------------------------------------------------------------ where it drew from


def _drew(report: LookReport, documents: dict[str, Any] | None) -> Iterator[str]:
    strip = report.strip
    yield '<section id="drew" aria-labelledby="drew-title">'
    name = "Its sources in the text" if documents is None else drew_from(strip)
    yield f'<h2 id="drew-title">{escape(name)}</h2>'
    yield f'<p id="which" class="quiet">{escape(which_token(report))}</p>'
    yield '<div id="strip-controls" class="controls" hidden></div>'
    yield f'<div id="strip" class="strip">{"".join(_blocks(strip, documents))}</div>'
    yield '<p id="readout" class="readout" hidden></p>'
    yield f'<p id="legend" class="legend">{_legend(strip)}</p>'
    folds = _FOLDS if any(stretch.folded for stretch in strip.stretches) else ""
    later = _LATER if strip.causal and strip.target + 1 < len(strip.tokens) else ""
    yield f'<p id="strip-notes" class="quiet">{escape(f"{later} {folds}".strip())}</p>'
    yield f"<h3>Strongest sources {EXACT}</h3>"
    rows = [
        (*map(escape, cells), bar(strip.tokens[position].share))
        for cells, position in zip(source_cells(strip), strip.strongest, strict=True)
    ]
    yield table("sources", ("share", "token", "position", ""), rows, numbers=(0, 2))
    yield '<div id="all-sources"></div>'
    yield "</section>"


def _blocks(strip: Strip, documents: dict[str, Any] | None) -> Iterator[str]:
    """The text as passages or paragraphs, or as one run where there are none."""
    at = 0
    whose = name_of(strip.tokens[strip.target])
    for segment in segments(strip, documents):
        start, stop = segment["start"], segment["stop"]
        yield _run(strip, at, start)
        tokens = strip.tokens[start:stop]
        share = percent(sum(token.share for token in tokens))
        told = f"{segment['name']} · {counted(len(tokens), 'token')} · {share} of ⟦{whose}⟧'s"
        yield f'<p class="passage">{escape(told)}</p>'
        whole = "text" in segment
        if whole or _open(strip, start, stop):
            yield _run(strip, start, stop, whole=whole)
        at = stop
    yield _run(strip, at, len(strip.tokens))


def _open(strip: Strip, start: int, stop: int) -> bool:
    return any(
        not part.folded and part.start < stop and start < part.stop for part in strip.stretches
    )


def _run(strip: Strip, start: int, stop: int, *, whole: bool = False) -> str:
    tokens = (_token(token, strip) for token in strip.tokens[start:stop])
    shown = "".join(tokens if whole else _stretches(strip, start, stop))
    return f'<p class="prose">{shown}</p>' if shown else ""


def _stretches(strip: Strip, start: int, stop: int) -> Iterator[str]:
    for whole in strip.stretches:
        first, last = max(start, whole.start), min(stop, whole.stop)
        if first >= last:
            continue
        if whole.folded and last - first >= _SHORTEST_FOLD:
            shares = [token.share for token in strip.tokens[first:last]]
            part = Stretch(first, last, folded=True, share=sum(shares), largest=max(shares))
            yield f' <span class="fold">{escape(folded(part, strip))}</span> '
            continue
        yield from (_token(token, strip) for token in strip.tokens[first:last])


def _token(token: SourceToken, strip: Strip) -> str:
    names = [f"t l{token.level}"]
    names += ["target"] if token.position == strip.target else []
    names += [] if token.reachable else ["later"]
    names += ["special"] if token.special else []
    before = " " if token.space_before else ""
    after = "<br>" if token.text.endswith("\n") else ""
    walled = strip.causal and strip.target == token.position < len(strip.tokens) - 1
    wall = '<span class="wall">┊</span>' if walled else ""
    return f'{before}<span class="{" ".join(names)}">{escape(piece(token))}</span>{wall}{after}'


def _legend(strip: Strip) -> str:
    shades = "".join(
        f'<span class="t l{band.level}">{scale_bound(band.at_least)}</span>' for band in strip.scale
    )
    return f"Share at least {shades} each step doubles; unshaded is less."


# ------------------------------------------------------------------- which heads, what came out


def _heads(report: LookReport) -> Iterator[str]:
    rows = [tuple(map(escape, cells)) for cells in link_cells(report)]
    yield '<section id="heads" aria-labelledby="heads-title">'
    yield '<h2 id="heads-title">Through which heads</h2>'
    yield f"<h3>The strongest links {EXACT}</h3>"
    yield table("links", LINK_HEADINGS, rows, numbers=(0, 1, 3, 4, 5, 6))
    yield '<div id="all-heads"></div>'
    yield "</section>"


def _came_out(report: LookReport) -> Iterator[str]:
    upcoming = report.next_tokens
    if not upcoming.likeliest:
        return
    cells = zip(next_cells(upcoming), upcoming.likeliest, strict=True)
    rows = [(*map(escape, row), bar(likely.probability)) for row, likely in cells]
    yield '<section id="out" aria-labelledby="out-title">'
    yield f'<h2 id="out-title">{escape(what_comes_next(upcoming))} {EXACT}</h2>'
    yield table("next", ("probability", "token", ""), rows, numbers=(0,))
    yield "</section>"


# -------------------------------------------------------------------------------------------- foot


def _foot(report: LookReport, values: dict[str, Any]) -> Iterator[str]:
    yield '<footer id="foot">'
    yield "<h2>How each number is made</h2>"
    yield f'<ul id="notes">{_items(map(noted, report.notes))}</ul>'
    yield f"<p>{escape(_INSTEAD)}</p>"
    if values["left_out"]:
        yield f"<h3>Not in this page</h3><ul>{_items(map(visible, values['left_out']))}</ul>"
    yield "<details><summary>The words: every quantity inside attention</summary>"
    yield '<dl id="words">'
    yield from map(_quantity, values["quantities"])
    yield "</dl></details>"
    if values["command"]:
        yield "<h3>The command that made this page</h3>"
        yield f'<p><code id="command">{escape(visible(values["command"]))}</code></p>'
    yield "</footer>"


def _items(texts: Iterable[str]) -> str:
    return "".join(f"<li>{escape(text)}</li>" for text in texts)


def _quantity(entry: dict[str, str]) -> str:
    name = f"{entry['symbol']} {entry['name']}".strip()
    also = f" Also called: {entry['also_called']}." if entry["also_called"] else ""
    told = f"{entry['meaning']} Made by {entry['producer']}.{also}"
    return f"<dt>{escape(name)} <span>{escape(entry['shape'])}</span></dt><dd>{escape(told)}</dd>"
