"""How values show themselves in a notebook: static HTML first, the whole page behind one click.

What cannot be shown so is shown as its text: nothing here raises for a value that is what it says.
"""

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any

from clearhead.errors import ClearheadError
from clearhead.report.build import build_report
from clearhead.report.figures import percent
from clearhead.report.fragment import render_fragment
from clearhead.report.matrix_picture import draw_map, map_legend, where

if TYPE_CHECKING:  # who has a value to show has torch
    from clearhead.pipeline.matrix import AttentionMatrix
    from clearhead.pipeline.result import AttentionResult
    from clearhead.tracing.traced import Trace

__all__ = ["html_of"]

#: A notebook keeps what it shows: a page past this size is left to a file of its own.
_MOST_BYTES = 2_000_000
#: Entries of A that are read to show a matrix unasked, and heads that are drawn.
_MOST_ENTRIES, _MOST_HEADS, _CELLS = 2**24, 12, 32

_OPEN = '<div style="max-width:60em;line-height:1.5">'
_LATER = (
    "The whole page, in which any token and head can be chosen: trace.report(&quot;page.html&quot;)"
)


def html_of(value: object) -> str | None:
    """Show a value.

    Args:
        value: a Trace, an AttentionMatrix or an AttentionResult.

    Returns:
        A fragment of HTML, or None for what is better read as text.
    """
    from clearhead.pipeline.matrix import AttentionMatrix
    from clearhead.pipeline.result import AttentionResult
    from clearhead.tracing.traced import Trace

    try:
        if isinstance(value, Trace):
            return _trace(value)
        if isinstance(value, AttentionResult):
            return _result(value)
        return _matrix(value) if isinstance(value, AttentionMatrix) else None
    except ClearheadError:
        return None  # what it would have said, asking for it says


# --------------------------------------------------------------------------------------- a trace


def _trace(trace: "Trace") -> str:
    known = all(layer.projection is not None for layer in trace)
    token = int(trace.queries.max())
    report = build_report(trace, token=token, by="contribution" if known else "attention")
    return f"{render_fragment(report)}{_page(trace, report)}"


def _page(trace: "Trace", report: Any) -> str:
    """The whole page in a frame of its own, opened on a click."""
    from clearhead.report.page import page_html, page_values

    html = ""
    if len(trace) * len(trace.layers) * trace.heads <= 2**15:  # more would not fit
        html = page_html(report, page_values(trace, report, most=_MOST_BYTES).to_json())
    if not 0 < len(html) <= _MOST_BYTES:
        return f"<p><small>{_LATER}</small></p>"
    frame = f'<iframe sandbox="allow-scripts" srcdoc="{escape(html)}" title="the whole page"'
    style = 'style="width:100%;height:48em;border:1px solid #8888"'
    return f"<details><summary>The whole page</summary>{frame} {style}></iframe></details>"


# -------------------------------------------------------------------------- a matrix, a result


def _result(result: "AttentionResult") -> str | None:
    steps = repr(result)
    if "\n" in steps:  # small enough to be printed step by step
        return f"{_OPEN}<pre>{escape(steps)}</pre></div>"
    drawn = _matrix(result.weights)
    told = f"<p><code>{escape(steps)}</code></p>"
    return None if drawn is None else f"{_OPEN}{told}{drawn}</div>"


def _matrix(matrix: "AttentionMatrix") -> str | None:
    """The first heads of A, each made small by maximum, with its largest weight beside it."""
    rows, keys = matrix.shape[-2:]
    heads = list(_heads(matrix))
    fit = min(_MOST_HEADS, len(heads), _MOST_ENTRIES // max(1, rows * keys))
    if fit < 1 or not rows or not keys:
        return None
    cells = [f"<td>{_head(name, one)}</td>" for name, one in heads[:fit]]
    lines = "".join(f"<tr>{''.join(cells[start : start + 4])}</tr>" for start in range(0, fit, 4))
    more = f" The first {fit} of {len(heads)} are drawn." if fit < len(heads) else ""
    shape = " × ".join(map(str, matrix.shape))
    told = f"weights A, {shape}, never formed. Queries down, keys across.{more}"
    return (
        f"{_OPEN}<p>{told}</p><p><small>{map_legend()}</small></p>"
        f'<table style="color:inherit">{lines}</table></div>'
    )


def _heads(matrix: "AttentionMatrix") -> Iterator[tuple[str, "AttentionMatrix"]]:
    """Each head by its name, none of it computed."""
    lead = matrix.shape[:-2]
    if not lead:
        yield "", matrix
        return
    for place in range(lead[0]):
        named = "batch row" if len(lead) > 1 else "head"
        for name, head in _heads(matrix[place]):
            yield f"{named} {place}, {name}".rstrip(", "), head


def _head(name: str, matrix: "AttentionMatrix") -> str:
    pooled = matrix.pooled(_CELLS)
    values = pooled.values.numpy(force=True)
    row_edges: Any = pooled.row_edges.numpy(force=True)
    key_edges: Any = pooled.column_edges.numpy(force=True)
    exact = "exact" if values.shape == matrix.shape else "pooled by maximum"
    row, key = divmod(int(values.argmax()), values.shape[1])
    largest = f"largest {percent(float(values[row, key]))} at {where('row', row, row_edges)}"
    caption = f"{name}: {exact}; {largest}, {where('key', key, key_edges)}".removeprefix(": ")
    return f"{draw_map(values, caption)}<br><small>{escape(caption)}</small>"
