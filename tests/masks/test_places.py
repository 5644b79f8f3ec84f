"""Where a mask is asked: positions have a type and a shape, a call has a first query."""

import pytest
import torch

from clearhead.errors import MaskError
from clearhead.masks import causal_mask
from clearhead.masks.places import Call


def test_positions_are_ranges_or_integers() -> None:
    one = causal_mask().tile(range(3, 5), range(2, 5))
    two = causal_mask().tile(torch.arange(3, 5), torch.arange(2, 5))
    three = causal_mask().tile(torch.arange(3, 5)[None], range(2, 5))
    assert torch.equal(one, two)
    assert torch.equal(one, three)


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (
            torch.tensor([1.0]),
            range(3),
            (
                "rows: expected a range or an int64 tensor (rows) or (batch, rows) of absolute "
                "positions, got float32[1]"
            ),
        ),
        (
            range(3),
            torch.zeros(2, 3).long(),
            (
                "columns: expected a range or an int64 tensor (columns) of absolute positions, got "
                "int64[2, 3]"
            ),
        ),
        (
            torch.zeros(2, 2, 3).long(),
            range(3),
            (
                "rows: expected a range or an int64 tensor (rows) or (batch, rows) of absolute "
                "positions, got int64[2, 2, 3]"
            ),
        ),
    ],
)
def test_what_is_no_position_is_refused(rows, columns, message: str) -> None:
    with pytest.raises(MaskError) as caught:
        causal_mask().tile(rows, columns)
    assert str(caught.value) == message


def test_a_tile_lies_where_its_positions_or_its_tensors_lie() -> None:
    assert causal_mask().tile(range(2), range(2)).device.type == "cpu"
    assert causal_mask().tile(range(2), range(2), device="meta").is_meta
    assert causal_mask().tile(range(2), torch.arange(2, device="meta")).is_meta
    assert causal_mask().tile(torch.arange(2, device="meta"), range(2)).is_meta


def _call(**told: object) -> Call:
    return Call(**{"queries": 3, "keys": 5, "batch": 2, "heads": 1, "key_start": 0} | told)


def test_queries_begin_where_the_keys_begin_if_nothing_is_told() -> None:
    assert _call(query_start=None, key_start=4).first_query == 4
    assert _call(query_start=2, key_start=4).past_queries == 5
    assert _call(query_start=2, key_start=4).past_keys == 9
    assert _call(query_start=torch.tensor([0, 1])).past_queries is None


def test_query_start_is_one_integer_or_one_a_batch_row() -> None:
    for start in (3, -3, torch.tensor(3), torch.tensor([3, 4], dtype=torch.int32)):
        assert not _call(query_start=start).faults()
    for start, got in ((torch.tensor([1, 2, 3]), "int64[3]"), (torch.tensor(1.0), "float32[]")):
        with pytest.raises(MaskError) as caught:
            causal_mask().bind(queries=3, keys=5, batch=2, heads=1, query_start=start)
        assert str(caught.value) == (
            f"mask=causal_mask() does not fit queries=3, keys=5, batch=2, heads=1, "
            f"query_start={got}: query_start: expected an integer or an integer tensor (2,), one a "
            f"batch row, got {got}"
        )
