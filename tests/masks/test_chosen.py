"""Chosen positions of one axis: which run they make, and what lies beyond them."""

import pytest
import torch

from clearhead.masks.chosen import Axis


@pytest.mark.parametrize(
    ("chosen", "run"),
    [
        ([3, 4, 5], range(3, 6)),
        ([7], range(7, 8)),
        ([3, 5], None),
        ([4, 3], None),
        ([2, 2], None),
        ([], None),
    ],
)
def test_positions_that_follow_each_other_are_a_run(chosen: list[int], run: range | None) -> None:
    assert Axis.of(torch.tensor(chosen, dtype=torch.int64)).run == run


def test_every_position_as_it_is() -> None:
    everything = Axis.of(None)
    assert everything.span(range(3, 5)) == everything.hull(range(3, 5)) == range(3, 5)
    assert everything.span(torch.arange(3)) is None
    index = torch.tensor([2, 0])
    assert everything.positions(index) is index
    assert everything.known(index).all()


def test_what_was_not_chosen_is_not_known() -> None:
    axis = Axis.of(torch.tensor([4, 6, 5]))
    index = torch.tensor([-1, 0, 2, 3])
    assert axis.known(index).tolist() == [False, True, True, False]
    assert axis.positions(index)[1:3].tolist() == [4, 5]
    assert axis.hull(range(1, 3)) == range(5, 7)
    assert axis.hull(range(1, 4)) is None
    assert axis.hull(range(-1, 2)) is None
    assert axis.span(range(3)) is None
    run = Axis.of(torch.tensor([4, 5, 6]))
    assert run.span(range(1, 3)) == range(5, 7)
    assert run.span(range(0, 3, 2)) == range(4, 7, 2)
    assert run.span(range(2, -1, -1)) is None
    assert run.span(range(2, 4)) is None
    nothing = Axis.of(torch.tensor([], dtype=torch.int64))
    assert not nothing.known(index).any()
    assert nothing.positions(index).shape == index.shape
