"""The scale of shades is absolute."""

import re

import pytest

from clearhead.report.scale import SCALE, level_of, shade


@pytest.mark.parametrize(
    ("share", "level"),
    [(0, 0), (0.0039, 0), (2**-8, 1), (0.01, 2), (0.4999, 7), (0.5, 8), (1, 8)],
)
def test_it_doubles(share, level):
    assert level_of(share) == level


def test_each_band_begins_where_it_says():
    assert [band.level for band in SCALE] == list(range(1, 9))
    assert all(level_of(band.at_least) == band.level for band in SCALE)


def test_a_stronger_band_has_a_stronger_shade():
    strengths = [float(re.search(r",([\d.]+)\)", shade(level))[1]) for level in range(9)]
    assert strengths[0] == 0
    assert strengths == sorted(set(strengths))
    assert all("color:#000" in shade(level) for level in (6, 7, 8))
