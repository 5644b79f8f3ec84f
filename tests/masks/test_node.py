"""A mask of one's own: predicate, positional and a name are enough for everything."""

from dataclasses import dataclass
from typing import final

import pytest
import torch
from torch import Tensor

from clearhead.errors import MaskError
from clearhead.masks import Mask, causal_mask, padding_mask
from tests.masks.contract import Case, MaskContract


@final
@dataclass(frozen=True)
class EvenDistance(Mask):
    """Look at every second position."""

    def __repr__(self) -> str:
        return "EvenDistance()"

    @property
    def positional(self) -> bool:
        return True

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        del b, h
        return (i - j) % 2 == 0


@final
@dataclass(frozen=True)
class Strides(Mask):
    """Each batch row and head has a stride of its own."""

    def __repr__(self) -> str:
        return "Strides()"

    @property
    def positional(self) -> bool:
        return True

    @property
    def batch_rows(self) -> int:
        return 2

    @property
    def head_count(self) -> int:
        return 3

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i - j) % (1 + b + h) == 0


class TestAMaskOfOnesOwn(MaskContract):
    @pytest.fixture
    def case(self) -> Case:
        return Case(EvenDistance(), lambda _b, _h, i, j: (i - j) % 2 == 0)


class TestAMaskOfOnesOwnThatTellsRowsApart(MaskContract):
    @pytest.fixture
    def case(self) -> Case:
        return Case(Strides(), lambda b, h, i, j: (i - j) % (1 + b + h) == 0, batch=2, heads=3)


class TestAMaskOfOnesOwnInATree(MaskContract):
    @pytest.fixture
    def case(self) -> Case:
        mask = Strides() & causal_mask() | ~EvenDistance()

        def truth(b: int, h: int, i: int, j: int) -> bool:
            return ((i - j) % (1 + b + h) == 0 and j <= i) or (i - j) % 2 == 1

        return Case(mask, truth, batch=2, heads=3)


def test_one_batch_row_of_a_mask_of_ones_own_fits_a_call_of_one() -> None:
    one = Strides().select(batch=1)
    assert repr(one) == "Strides().select(batch=1)"
    assert one.bind(queries=4, keys=4, batch=1, heads=3, query_start=None).batch_rows == 1


def test_a_mask_that_asks_for_positions_has_to_be_told() -> None:
    tree = causal_mask() & padding_mask(torch.ones(5).bool()) & ~EvenDistance()
    with pytest.raises(MaskError) as caught:
        tree.bind(queries=2, keys=5, batch=1, heads=1, query_start=None)
    assert str(caught.value) == (
        "mask=causal_mask() & padding_mask(keep[1, 5]) & ~EvenDistance() does not fit queries=2, "
        "keys=5, batch=1, heads=1: causal_mask(), EvenDistance(): expected query_start=, because 2 "
        "queries can stand at several places among 5 keys; give the position of the first query: "
        "keys - queries where they are the last tokens"
    )
    # Padding alone does not ask.
    padding_mask(torch.ones(5).bool()).bind(queries=2, keys=5, batch=1, heads=1, query_start=None)
