"""Tables and bars of the static page: cells are HTML already, made by who knows what is in them."""

from collections.abc import Container, Iterable, Sequence
from html import escape

__all__ = ["EXACT", "bar", "table"]

#: Beside the heading of numbers that are neither pooled nor truncated.
EXACT = '<span class="mark exact">exact</span>'


def bar(share: float) -> str:
    """Draw a share as a bar; the number stands beside it, so a screen reader passes it over."""
    width = f"{100 * share:.2f}"
    return (
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{width}" height="8"/></svg>'
    )


def table(
    name: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Container[int] = (),
) -> str:
    """Write a table that scrolls by itself where the page is narrow.

    Args:
        name: the id of the table.
        headings: one a column, plain text; an empty one for a column of pictures.
        rows: cells of HTML.
        numbers: the columns that hold numbers.
    """
    kinds = ["number" if place in numbers else "" for place in range(len(headings))]
    kinds = [kind if heading else "picture" for kind, heading in zip(kinds, headings, strict=True)]
    head = "".join(
        f'<th scope="col"{_kind(kind)}>{escape(heading)}</th>' if heading else "<td></td>"
        for heading, kind in zip(headings, kinds, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(f'<td{_kind(k)}>{c}</td>' for c, k in zip(cells, kinds, strict=True))}</tr>"
        for cells in rows
    )
    return (
        f'<div class="scroll"><table id="{name}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
