"""A mask seen at chosen positions: it stays quick where it can, and refuses what was not chosen."""

import pytest
import torch

from clearhead.errors import MaskError
from clearhead.masks import Mask, Selected, causal_mask, document_mask, padding_mask
from clearhead.masks.node import Node
from tests.masks.contract import Case, MaskContract

ROWS, COLUMNS = torch.tensor([5, 2, 3, 7, 0]), torch.tensor([4, 0, 6, 1, 2])
IDS = torch.tensor([[0, 0, 1, 1, 1, 2, 2, 2], [0, 0, 0, 0, 0, 0, 1, 1]])


class TestSelected(MaskContract):
    @pytest.fixture
    def case(self) -> Case:
        mask = (causal_mask() & document_mask(IDS)).select(rows=ROWS, columns=COLUMNS)

        def truth(b: int, _h: int, i: int, j: int) -> bool:
            row, column = ROWS[i], COLUMNS[j]
            return bool(column <= row and IDS[b, row] == IDS[b, column])

        return Case(mask, truth, batch=2)


class TestSelectedRowsAlone(MaskContract):
    @pytest.fixture
    def case(self) -> Case:
        mask = causal_mask().select(rows=ROWS)
        return Case(mask, lambda _b, _h, i, j: j <= int(ROWS[i]))


class TestSelectedTwice(MaskContract):
    @pytest.fixture
    def case(self) -> Case:
        again = torch.tensor([4, 3, 3, 0, 1])
        mask = causal_mask().select(rows=ROWS).select(rows=again, columns=COLUMNS)
        return Case(mask, lambda _b, _h, i, j: int(COLUMNS[j]) <= int(ROWS[again[i]]))


def test_a_run_is_judged_without_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    last = causal_mask().select(rows=torch.arange(500, 1000))
    gaps = causal_mask().select(rows=torch.arange(0, 1000, 2), columns=torch.arange(0, 1000, 2))

    def look(*_: object) -> None:
        pytest.fail("a block was looked at")

    monkeypatch.setattr(Node, "block", look)
    assert last.verdict(range(100), range(500)) == "all"
    assert last.verdict(range(100), range(500, 600)) == "mixed"
    assert last.verdict(range(100), range(600, 700)) == "none"
    # Around positions with gaps lies a run: where it is settled, so are they.
    assert gaps.verdict(range(100, 200), range(100)) == "all"
    assert gaps.verdict(range(100), range(100, 200)) == "none"


def test_what_was_not_chosen_sees_nobody_and_is_not_seen() -> None:
    for leaf in (causal_mask(), Mask.from_tensor(torch.ones(8, 8, dtype=torch.bool))):
        chosen = leaf.select(rows=ROWS, columns=torch.zeros_like(COLUMNS))
        tile = chosen.tile(range(-1, 7), range(-1, 7))
        assert tile[0, 0, 1:-2, 1:-2].all()
        assert tile.sum() == 25


def test_it_reads_as_what_it_is() -> None:
    mask = (causal_mask() & padding_mask(torch.ones(8).bool())).select(rows=ROWS, columns=COLUMNS)
    assert isinstance(mask, Selected)
    assert repr(mask) == "causal_mask().select(rows=rows[5], columns=columns[5])"


def test_a_call_beyond_what_was_chosen_is_refused() -> None:
    mask = causal_mask().select(rows=ROWS, columns=COLUMNS)
    with pytest.raises(MaskError) as caught:
        mask.bind(queries=3, keys=4, batch=1, heads=1, query_start=3)
    name = "causal_mask().select(rows=rows[5], columns=columns[5])"
    assert str(caught.value) == (
        f"mask={name} does not fit queries=3, keys=4, batch=1, heads=1, query_start=3, 2 faults:\n"
        f"  - {name}: expected queries at positions below 5, where rows ends, got 3 to 5; choose a "
        f"row for every query\n"
        f"  - {name}: expected 5 keys, one for each of columns, got 4; choose a column for every "
        f"key"
    )


def test_where_nothing_was_chosen_the_mask_itself_has_to_fit() -> None:
    mask = document_mask(IDS).select(rows=ROWS)
    with pytest.raises(MaskError) as caught:
        mask.bind(queries=5, keys=7, batch=2, heads=1, query_start=0)
    assert str(caught.value) == (
        "mask=document_mask(ids[2, 8]).select(rows=rows[5]) does not fit queries=5, keys=7, "
        "batch=2, heads=1, query_start=0: document_mask(ids[2, 8]): expected ids with 7 entries, "
        "one for each position from 0 to the last key's, got 8; keys that come from a cache count "
        "too"
    )


def test_positions_that_are_none_are_refused() -> None:
    with pytest.raises(MaskError) as caught:
        causal_mask().select(rows=torch.tensor([1.0]), columns=torch.zeros(2, 2).long())
    assert str(caught.value) == (
        "select, 2 faults:\n"
        "  - expected rows as an int64 tensor (rows,) of absolute positions, got float32[1]\n"
        "  - expected columns as an int64 tensor (columns,) of absolute positions, got int64[2, 2]"
    )


def test_a_tensor_without_a_place_counts_from_0() -> None:
    allowed = torch.rand(8, 8) > 0.5
    mask = Mask.from_tensor(allowed).select(rows=ROWS, columns=COLUMNS)
    bound = mask.bind(queries=5, keys=5, batch=1, heads=1, query_start=None)
    assert torch.equal(bound.tile(range(5), range(5))[0, 0], allowed[ROWS][:, COLUMNS])


def test_moving_takes_everything_along() -> None:
    for mask in (
        causal_mask().select(rows=ROWS),
        document_mask(IDS).select(columns=COLUMNS),
        Mask.from_tensor(torch.ones(8, 8).bool()).select(rows=ROWS, columns=COLUMNS),
    ):
        moved = mask.to("meta")
        assert moved.device == torch.device("meta")
        assert moved.tile(range(2), range(3)).is_meta
