"""Kinds of positions are plain values that refuse what means nothing."""

import typing

import pytest

from clearhead.errors import InputError
from clearhead.positions.kinds import Alibi, Learned, Positions, Rotary, Sinusoidal, T5Buckets
from clearhead.positions.scaling import (
    DynamicScaling,
    LinearScaling,
    LongRopeScaling,
    YarnScaling,
)


def test_kinds_compare_by_what_they_say():
    assert Rotary() == Rotary(10_000.0) != Rotary(interleaved=True)
    assert len({Alibi(), Alibi(), Learned(), Learned(0), Sinusoidal()}) == 3
    assert set(typing.get_args(Positions)) == {Learned, Sinusoidal, Rotary, Alibi, T5Buckets}
    with pytest.raises(AttributeError):
        Rotary().theta = 3.0


def test_two_scalings_depend_on_the_length_of_the_text():
    longrope = LongRopeScaling((1.0,), (2.0,), 64, 1.0)
    assert Rotary(scaling=longrope).depends_on_length
    assert Rotary(scaling=DynamicScaling(2.0, 64)).depends_on_length
    for scaling in (None, LinearScaling(2.0), YarnScaling(2.0, 64, 1.0)):
        assert not Rotary(scaling=scaling).depends_on_length


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Learned(-1), "Learned: offset must be a whole number, at least 0, got -1"),
        (
            lambda: Sinusoidal("halfs"),
            "Sinusoidal: layout must be 'halves' or 'interleaved', got 'halfs'",
        ),
        (
            lambda: Rotary(0.0, width=3),
            (
                "Rotary, 2 faults:\n"
                "  - theta must be a positive finite number, got 0.0\n"
                "  - width must be even and positive, got 3: numbers turn in pairs"
            ),
        ),
        (
            lambda: Rotary(1.0, YarnScaling(2.0, 64, 1.0), width=0),
            (
                "Rotary, 2 faults:\n"
                "  - theta must be above 1 for YarnScaling, got 1.0\n"
                "  - width must be even and positive, got 0: numbers turn in pairs"
            ),
        ),
        (
            lambda: Rotary(scaling=DynamicScaling(2.0, 64), width=2),
            "Rotary: width must be at least 4 for DynamicScaling, got 2",
        ),
        (
            lambda: Rotary(scaling=LongRopeScaling((1.0,), (2.0,), 64, 1.0), width=8),
            "Rotary: width is 8, so LongRopeScaling must have 4 factors, one a pair, got 1",
        ),
        (
            lambda: T5Buckets(5, 0),
            (
                "T5Buckets, 2 faults:\n"
                "  - buckets must be even, got 5: half may look each way\n"
                "  - max_distance must be a positive whole number, got 0"
            ),
        ),
        (
            lambda: T5Buckets(32, 16),
            "T5Buckets: max_distance must be a whole number, at least 17, got 16",
        ),
        (
            lambda: T5Buckets(2),
            "T5Buckets: buckets must be a whole number, at least 4, got 2",
        ),
    ],
)
def test_what_means_nothing_is_refused(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == message
