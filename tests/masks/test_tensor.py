"""A mask that was already written out: where it stands, what it stands for, what it refuses."""

import pytest
import torch

from clearhead.errors import MaskError
from clearhead.masks import Mask, TensorMask
from tests.masks.contract import Case, MaskContract

SHAPES = {
    "n m": (5, 5),
    "heads n m": (2, 5, 5),
    "batch heads n m": (3, 2, 5, 5),
    "batch 1 n m": (3, 1, 5, 5),
    "batch 1 1 m": (3, 1, 1, 5),
    "1 heads n 1": (1, 2, 5, 1),
    "1 1": (1, 1),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys(), scope="class")
class TestTensor(MaskContract):
    @pytest.fixture
    def case(self, shape: tuple[int, ...], generator: torch.Generator) -> Case:
        allowed = torch.rand(shape, generator=generator) > 0.5
        full = allowed.expand(3, 2, 5, 5)
        return Case(
            Mask.from_tensor(allowed), lambda b, h, i, j: bool(full[b, h, i, j]), batch=3, heads=2
        )


class TestTensorOfKnownPlace(MaskContract):
    @pytest.fixture
    def case(self, generator: torch.Generator) -> Case:
        allowed = torch.rand(7, 5, generator=generator) > 0.3
        mask = Mask.from_tensor(allowed, query_start=0)
        return Case(mask, lambda _b, _h, i, j: bool(allowed[i, j]))


ALLOWED = torch.tensor([[1, 0, 1, 1], [0, 1, 1, 0]]).bool()


def _bound(mask: Mask, **call: object) -> Mask:
    return mask.bind(**{"queries": 2, "keys": 4, "batch": 1, "heads": 1, "query_start": 7} | call)


def test_row_0_is_the_first_query_of_the_call() -> None:
    mask = Mask.from_tensor(ALLOWED)
    assert not mask.positional
    bound = _bound(mask)
    assert torch.equal(bound.tile(range(7, 9), range(4))[0, 0], ALLOWED)
    assert torch.equal(bound.tile(torch.tensor([8]), range(4))[0, 0], ALLOWED[1:])
    # What lies outside was not written: nobody may look there.
    assert not bound.tile(range(7), range(4)).any()
    assert not bound.tile(range(7, 9), range(4, 9)).any()
    assert not bound.tile(range(9, 10), range(4)).any()
    assert torch.equal(bound.tile(range(7, 10), range(-1, 5))[0, 0, :2, 1:-1], ALLOWED)
    # A call that says nothing begins where its keys begin.
    placed = _bound(mask, query_start=None, key_start=3)
    assert torch.equal(placed.tile(range(3, 5), range(3, 7))[0, 0], ALLOWED)
    assert torch.equal(placed.tile(range(3, 5), torch.arange(3, 7))[0, 0], ALLOWED)


def test_row_0_may_stand_elsewhere_in_each_batch_row() -> None:
    starts = torch.tensor([2, 5, 0])
    bound = _bound(Mask.from_tensor(ALLOWED), batch=3, query_start=starts)
    assert bound.batch_rows == 3
    rows = starts[:, None] + torch.arange(2)
    assert torch.equal(bound.tile(rows, range(4)), ALLOWED.expand(3, 1, 2, 4))
    assert bound.verdict(range(2, 4), range(4)) == "mixed"
    assert torch.equal(bound.select(batch=1).tile(range(5, 7), range(4))[0, 0], ALLOWED)
    one = _bound(Mask.from_tensor(ALLOWED), batch=3, query_start=torch.tensor(4))
    assert torch.equal(one.tile(range(4, 6), range(4))[0, 0], ALLOWED)


def test_row_0_may_have_a_position_of_its_own() -> None:
    mask = Mask.from_tensor(ALLOWED, query_start=7)
    assert mask.positional
    assert torch.equal(_bound(mask).tile(range(7, 9), range(4))[0, 0], ALLOWED)
    later = _bound(mask, queries=1, query_start=8)
    assert torch.equal(later.tile(range(8, 9), range(4))[0, 0], ALLOWED[1:])


def test_a_range_is_a_slice_and_copies_nothing() -> None:
    allowed = torch.ones(64, 64, dtype=torch.bool)
    mask = Mask.from_tensor(allowed)
    tile = mask.tile(range(8, 16), range(4, 20))
    assert tile.untyped_storage().data_ptr() == allowed.untyped_storage().data_ptr()
    moved = mask.select(rows=torch.arange(4, 60), columns=torch.arange(2, 60))
    tile = moved.tile(range(8), range(8))
    assert tile.untyped_storage().data_ptr() == allowed.untyped_storage().data_ptr()


def test_sizes_of_nothing() -> None:
    for shape in ((0, 4), (4, 0), (0, 0)):
        mask = Mask.from_tensor(torch.ones(shape, dtype=torch.bool))
        assert not mask.tile(range(2), range(3)).any()
        assert mask.verdict(range(2), range(3)) == "none"
        dense = mask.to_dense(queries=shape[0], keys=shape[1], query_start=0)
        assert dense.shape == (1, 1, *shape)


def test_it_reads_as_what_it_is() -> None:
    mask = Mask.from_tensor(ALLOWED)
    assert isinstance(mask, TensorMask)
    assert repr(mask) == "Mask.from_tensor(bool[1, 1, 2, 4])"


@pytest.mark.parametrize(
    ("allowed", "got"),
    [
        (torch.zeros(2, 3), "float32[2, 3]"),
        (torch.ones(2, 3).long(), "int64[2, 3]"),
        (torch.ones(3).bool(), "bool[3]"),
        (torch.ones(1, 1, 1, 2, 3).bool(), "bool[1, 1, 1, 2, 3]"),
    ],
)
def test_what_is_no_written_mask_is_refused(allowed: torch.Tensor, got: str) -> None:
    with pytest.raises(MaskError) as caught:
        Mask.from_tensor(allowed)
    assert str(caught.value) == (
        "Mask.from_tensor: expected a bool tensor (n, m), (heads, n, m) or (batch, heads, n, m), "
        f"True = may look, got {got}; what is added to the scores belongs in bias="
    )


def test_a_call_of_another_size_is_refused() -> None:
    mask = Mask.from_tensor(torch.ones(3, 2, 5, 6, dtype=torch.bool))
    with pytest.raises(MaskError) as caught:
        _bound(mask, batch=2, heads=4, queries=4, keys=8, query_start=None)
    name = "Mask.from_tensor(bool[3, 2, 5, 6])"
    assert str(caught.value) == (
        f"mask={name} does not fit queries=4, keys=8, batch=2, heads=4, 4 faults:\n"
        f"  - {name}: expected 2 batch rows (or 1 for all), got 3\n"
        f"  - {name}: expected 4 heads (or 1 for all), got 2\n"
        f"  - {name}: expected 4 rows, one a query (or 1 for all), got 5\n"
        f"  - {name}: expected 8 columns, one a key (or 1 for all), got 6"
    )


def test_queries_where_no_row_stands_are_refused() -> None:
    mask = Mask.from_tensor(ALLOWED, query_start=7)
    with pytest.raises(MaskError) as caught:
        _bound(mask, query_start=6)
    name = "Mask.from_tensor(bool[1, 1, 2, 4])"
    assert str(caught.value) == (
        f"mask={name} does not fit queries=2, keys=4, batch=1, heads=1, query_start=6: {name}: "
        "expected queries at positions 7 to 8, where its rows stand, got 6 to 7; leave "
        "query_start= of from_tensor out to let row 0 be the first query"
    )


def test_a_list_is_no_tensor() -> None:
    with pytest.raises(MaskError) as caught:
        Mask.from_tensor([[True]])
    assert str(caught.value) == (
        "Mask.from_tensor: expected a bool tensor (n, m), (heads, n, m) or (batch, heads, n, m), "
        "True = may look, got list; what is added to the scores belongs in bias="
    )
