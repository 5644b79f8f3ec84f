"""What tables in a terminal are made of: headings, columns, bars, and how wide they may be."""

from rich.table import Table
from rich.text import Text

__all__ = ["bar", "bar_cells", "table", "text_cells", "title"]

_BAR, _HALF_BAR = "━", "╸"


def title(text: str) -> Text:
    """Head a section."""
    return Text(text, "bold")


def table(gap: int = 2, *, headed: bool = True) -> Table:
    """Begin a table without lines.

    Args:
        gap: cells between columns.
        headed: whether its columns have names.
    """
    return Table(
        box=None, padding=(0, gap, 0, 0), header_style="dim", pad_edge=False, show_header=headed
    )


def text_cells(width: int, *, taken: int) -> int:
    """How many cells of a line a name may take, beside what is taken already."""
    return max(6, min(32, width - taken))


def bar_cells(width: int, taken: int) -> int:
    """How many cells of a line a bar of the whole may take, beside what is taken already."""
    return max(4, min(50, width - taken))


def bar(share: float, room: int) -> str:
    """Draw a share as a bar, to half a cell."""
    halves = round(2 * share * room)
    return _BAR * (halves // 2) + _HALF_BAR * (halves % 2)
