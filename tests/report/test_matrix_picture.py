"""A drawn matrix has a shade for every cell that the scale reaches, and says where cells are."""

from xml.etree import ElementTree

import numpy as np

from clearhead.report.matrix_picture import draw_map, map_legend, where
from clearhead.report.scale import SCALE, level_of


def parsed(svg):
    return ElementTree.fromstring(svg)  # noqa: S314  our own text


def levels_drawn(svg):
    root = parsed(svg)
    _, _, columns, rows = map(int, root.get("viewBox").split())
    drawn = np.zeros((rows, columns), dtype=int)
    for rect in root:
        x, y, width = (int(rect.get(name)) for name in ("x", "y", "width"))
        drawn[y, x : x + width] = round(float(rect.get("fill-opacity")) / 0.11)
    return drawn


def test_every_cell_has_its_shade(generator):
    rng = np.random.default_rng(generator.initial_seed())
    values = rng.uniform(size=(9, 14)) ** 6
    expected = np.vectorize(level_of)(values)
    assert (levels_drawn(draw_map(values, "x")) == expected).all()


def test_neighbours_of_one_shade_are_one_rectangle():
    assert draw_map(np.full((1, 50), 0.6), "x").count("<rect") == 1
    assert draw_map(np.zeros((3, 3)), "x").count("<rect") == 0


def test_the_longer_side_has_one_size():
    wide = parsed(draw_map(np.ones((4, 8)), "x"))
    assert (wide.get("width"), wide.get("height")) == ("160", "80")


def test_a_title_is_text():
    svg = draw_map(np.ones((1, 1)), '"><script>&')
    assert parsed(svg).get("aria-label") == '"><script>&'


def test_the_legend_names_every_band():
    assert map_legend().count("<span") == len(SCALE)
    assert "0.39%" in map_legend()
    assert "50%" in map_legend()


def test_cells_are_named_by_what_they_stand_for():
    assert where("row", 1, [0, 1, 2]) == "row 1"
    assert where("key", 0, [0, 16, 32]) == "keys 0–15"
