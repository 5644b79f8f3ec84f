"""Draws a small matrix of weights as SVG on the absolute scale, for places without a script."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Any

import numpy.typing as npt

from clearhead.report.figures import scale_bound
from clearhead.report.scale import SCALE, level_of, shade
from clearhead.report.strip import GAUGES

__all__ = ["draw_map", "map_legend", "where"]

_AMBER, _STEP = "#f5a800", 0.11
_SIDE = 160  # pixels of the longer side


def draw_map(values: npt.NDArray[Any], title: str) -> str:
    """Draw weights as shades of one amber, neighbours of one shade as one rectangle.

    Args:
        values: the weights, (rows, columns).
        title: what a screen reader says of it.

    Returns:
        An SVG element.
    """
    rows, columns = values.shape
    scale = _SIDE / max(rows, columns)
    size = f'width="{columns * scale:.0f}" height="{rows * scale:.0f}"'
    cells = "".join(_cells(values))
    return (
        f'<svg role="img" aria-label="{escape(title)}" {size} viewBox="0 0 {columns} {rows}"'
        f' preserveAspectRatio="none" shape-rendering="crispEdges" fill="{_AMBER}"'
        f' style="outline:1px solid #8888">{cells}</svg>'
    )


def map_legend() -> str:
    """Say what each shade means."""
    shades = " ".join(
        f'<span style="{shade(band.level)}">{GAUGES[band.level]}'
        f" {scale_bound(band.at_least)}</span>"
        for band in SCALE
    )
    return f"Weight at least: {shades} (each twice the one before; blank: less)"


def where(axis: str, cell: int, edges: Sequence[int]) -> str:
    """Name the rows or keys that a cell stands for.

    Args:
        axis: ``"row"`` or ``"key"``.
        cell: the cell's place.
        edges: where cells begin and end.
    """
    first, last = edges[cell], edges[cell + 1] - 1
    return f"{axis} {first}" if first == last else f"{axis}s {first}–{last}"


def _cells(values: npt.NDArray[Any]) -> Iterator[str]:
    for row, line in enumerate(values.tolist()):
        start = 0
        for level, run in groupby(map(level_of, line)):
            width = len(list(run))
            if level:
                opacity = f'fill-opacity="{level * _STEP:.2f}"'
                yield f'<rect x="{start}" y="{row}" width="{width}" height="1" {opacity}/>'
            start += width
