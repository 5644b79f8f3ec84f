"""A long text folds where nothing happens; nothing is lost or counted twice."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.report.folding import stretches


@given(st.lists(st.floats(0, 1), min_size=1, max_size=700), st.data())
def test_stretches_cover_the_text_once(shares, data):
    target = data.draw(st.integers(0, len(shares) - 1))
    made = stretches(shares, target)
    assert [place for part in made for place in range(part.start, part.stop)] == [
        *range(len(shares))
    ]
    assert math.isclose(sum(part.share for part in made), sum(shares), abs_tol=1e-9)
    assert max(part.largest for part in made) == max(shares)
    assert all(a.folded != b.folded for a, b in pairwise(made))
    assert all(part.stop - part.start >= 16 for part in made if part.folded)
    open_places = {p for part in made if not part.folded for p in range(part.start, part.stop)}
    assert {0, target} <= open_places


@pytest.mark.parametrize("count", [1, 2, 159, 160])
def test_a_short_text_stands_open(count):
    made = stretches([1 / count] * count, count - 1)
    assert [(part.start, part.stop, part.folded) for part in made] == [(0, count, False)]


def test_the_largest_shares_stay_open_with_their_neighbours():
    shares = [0.0] * 1000
    shares[500] = 0.9
    made = stretches(shares, 999)
    assert [(part.start, part.stop, part.folded) for part in made] == [
        (0, 1, False),
        (1, 494, True),
        (494, 507, False),
        (507, 993, True),
        (993, 1000, False),
    ]


def test_many_equal_small_shares_fold():
    made = stretches([1 / 1000] * 1000, 999)
    assert [(part.start, part.stop, part.folded) for part in made] == [
        (0, 1, False),
        (1, 993, True),
        (993, 1000, False),
    ]
    assert made[1].share == pytest.approx(0.992)
    assert made[1].largest == 1 / 1000
