"""Where an answer drew from, by passage and by depth: the static part of the page for documents."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from clearhead.report.figures import counted, percent
from clearhead.report.page.tables import EXACT, bar, table
from clearhead.report.sentences import ITSELF, TEMPLATE
from clearhead.report.visible import visible

__all__ = ["answer_fact", "passages"]


_IS = (
    "This says which positions' vectors were read while the answer was written. It is no proof of"
    " cause: a position's vector already mixes what earlier layers gathered there from elsewhere."
)


def answer_fact(documents: dict[str, Any], by: str) -> str:
    """Say which passage an answer drew most from, on average over its tokens.

    Args:
        documents: the values of the look's documents.
        by: the measure.
    """
    answer, average = documents["answer"], documents["average"]
    by = by if average[by] is not None else "attention"
    names = [visible(segment["name"]) for segment in documents["segments"]]
    shares: list[float] = average[by]["segments"]
    named = [*zip(shares, names, strict=True)] or [(average[by]["elsewhere"], TEMPLATE)]
    share, name = max(named, key=lambda pair: pair[0])
    measured = "incoming contribution" if by == "contribution" else "attention"
    over = f"on average over {counted(answer['stop'] - answer['start'], 'token')}"
    among = "Of the passages, the answer" if documents["segments"] else "The answer"
    return f"{among} drew most from {name}: {percent(share)} of its {measured}, {over}"


def passages(documents: dict[str, Any], by: str) -> Iterator[str]:
    """Write the shares of the answer by passage and by depth.

    Args:
        documents: the values of the look's documents.
        by: the measure that the page begins with.
    """
    answer, average = documents["answer"], documents["average"]
    measure = by if average[by] is not None else "attention"
    count = answer["stop"] - answer["start"]
    yield '<section id="documents" aria-labelledby="documents-title">'
    yield '<h2 id="documents-title">Where the answer drew from, passage by passage</h2>'
    if documents["question"]:
        yield f'<p class="question">{escape(visible(documents["question"]))}</p>'
    yield f'<blockquote id="answer-text">{escape(visible(answer["text"]))}</blockquote>'
    yield f'<p id="whose" class="quiet">{escape(_whose(count, measure))}</p>'
    yield '<div id="documents-controls" class="controls" hidden></div>'
    yield f'<div class="columns"><div><h3>By passage {EXACT}</h3>'
    yield _by_passage(documents, average[measure])
    yield f"</div><div><h3>By depth in the prompt {EXACT}</h3>"
    yield _by_depth(documents["depth_edges"], average[measure]["depth"])
    yield "</div></div>"
    yield '<div id="each"></div>'
    yield f'<p class="quiet">{escape(_IS)}</p>'
    yield "</section>"


def _whose(count: int, by: str) -> str:
    return f"The average over the answer's {counted(count, 'token')}, by {by}."


def _by_passage(documents: dict[str, Any], shares: dict[str, Any]) -> str:
    parts = zip(documents["segments"], shares["segments"], strict=True)
    named = [
        (visible(part["name"]), f"{part['stop'] - part['start']:,}", share) for part, share in parts
    ]
    rest = [
        (TEMPLATE, "", shares["elsewhere"]),
        (ITSELF, "", shares["answer"]),
    ]
    rows = [
        (escape(percent(share)), escape(name), escape(tokens), bar(share))
        for name, tokens, share in [*named, *rest]
    ]
    return table("by-passage", ("share", "passage", "tokens", ""), rows, numbers=(0, 2))


def _by_depth(edges: Sequence[int], shares: Sequence[float]) -> str:
    rows = [
        (escape(percent(share)), f"{start:,}–{stop - 1:,}", bar(share))
        for start, stop, share in zip(edges, edges[1:], shares, strict=False)
    ]
    return table("by-depth", ("share", "positions", ""), rows, numbers=(0, 1))
