"""Bars that add up to their room, and columns that fit."""

import pytest

from clearhead.report.tables import bar, bar_cells, table, text_cells, title
from clearhead.report.terminal import Terminal, rendered


@pytest.mark.parametrize(
    ("share", "drawn"), [(0, ""), (1, "━" * 10), (0.5, "━" * 5), (0.27, "━━╸"), (0.01, "")]
)
def test_a_bar_is_a_part_of_its_room(share, drawn):
    assert bar(share, 10) == drawn


def test_room_is_what_is_left_within_bounds():
    assert [text_cells(width, taken=20) for width in (10, 40, 500)] == [6, 20, 32]
    assert [bar_cells(width, 20) for width in (10, 40, 500)] == [4, 20, 50]


def test_a_table_is_columns_without_lines():
    for headed, first in ((True, "a  b\n"), (False, "")):
        made = table(headed=headed)
        made.add_column("a")
        made.add_column("b")
        made.add_row("1", "2")
        assert rendered(made, Terminal(20)) == f"{first}1  2\n"
    assert title("Heading").style == "bold"
