"""A position bias answers for any tile, and for chosen positions as for all."""

import pytest
import torch
from torch import Tensor

from clearhead.errors import InputError
from clearhead.masks import sliding_window_mask
from clearhead.positions.bias import AlibiBias, T5RelativeBias
from clearhead.positions.position_bias import ChosenPositions, PositionBias, RelativeBias
from tests.tracing.largest import Largest


def _t5(generator: torch.Generator) -> T5RelativeBias:
    bias = T5RelativeBias(3, buckets=8, max_distance=12)
    with torch.no_grad():
        bias.weight.normal_(generator=generator)
    return bias


@pytest.fixture(params=["ALiBi", "T5"])
def bias(request: pytest.FixtureRequest, generator: torch.Generator) -> PositionBias:
    return AlibiBias(3) if request.param == "ALiBi" else _t5(generator)


def _index(positions: range | Tensor) -> Tensor:
    return positions if isinstance(positions, Tensor) else torch.tensor(list(positions)).long()


TILES = [
    (range(5), range(9)),
    (range(40, 41), range(3, 20)),
    (range(4, 9), range(7, 8)),
    (range(2, 3), range(6, 7)),
    (range(-3, 4), range(-2, 2)),
    (range(1, 12, 4), range(9, 2, -3)),
    (range(0), range(4)),
    (range(4), range(0)),
    (range(0), range(0)),
    (torch.tensor([7, 0, 7]), range(2, 6)),
    (range(3), torch.tensor([11, 2])),
]


@pytest.mark.parametrize(("rows", "columns"), TILES, ids=str)
def test_a_tile_is_that_part_of_the_whole(
    bias: PositionBias, rows: range | Tensor, columns: range | Tensor
) -> None:
    whole = bias.tile(torch.arange(-5, 60), torch.arange(-5, 60))
    expected = whole[:, :, _index(rows) + 5][..., _index(columns) + 5]
    assert torch.equal(bias.tile(rows, columns), expected)
    heads = torch.tensor([2, 0])
    assert torch.equal(bias.tile(rows, columns, heads=heads), expected[:, heads])
    chosen = ChosenPositions(bias, rows=_index(rows), columns=_index(columns))
    r, c = len(rows), len(columns)
    assert torch.equal(chosen.tile(range(r), range(c)), expected)
    assert torch.equal(chosen.tile(range(r), range(c), heads=heads), expected[:, heads])
    back = torch.arange(r).flip(0)
    assert torch.equal(chosen.tile(back, range(c)), expected.flip(2))
    assert torch.equal(chosen.tile(range(r), torch.arange(c).flip(0)), expected.flip(3))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1500), (1500, 1), (600, 5)])
def test_a_tile_costs_what_it_holds(bias: PositionBias, rows: int, columns: int) -> None:
    with Largest() as largest:
        tile = bias.tile(range(rows), range(columns))
    # int64 distances on the way, one for each distance
    assert largest.nbytes <= max(4 * tile.numel(), 3 * 8 * (rows + columns))


def test_batch_rows_may_stand_at_different_positions(bias: PositionBias) -> None:
    rows = torch.tensor([[0, 1, 2], [30, 31, 32]])
    tile = bias.tile(rows, range(8))
    assert tile.shape == (2, 3, 3, 8)
    for b in range(2):
        assert torch.equal(tile[b : b + 1], bias.tile(rows[b], range(8)))


def test_chosen_positions_say_what_stands_behind_them(generator: torch.Generator) -> None:
    places = torch.arange(4)
    chosen = ChosenPositions(_t5(generator), rows=places, columns=places)
    assert (chosen.heads, chosen.requires_grad, chosen.masking) == (3, True, False)
    chosen = ChosenPositions(AlibiBias(2), rows=places, columns=places)
    assert (chosen.heads, chosen.requires_grad, chosen.masking) == (2, False, False)


class _Nearest(RelativeBias):
    """One's own: neighbours alone are seen."""

    heads = 2

    def at(self, distances: Tensor, *, heads=None, dtype=torch.float32) -> Tensor:
        count = self.heads if heads is None else len(heads)
        near = torch.zeros(count, *distances.shape, dtype=dtype)
        return near.masked_fill(distances.abs() > 1, -torch.inf)


def test_a_bias_of_one_s_own_may_mask_and_does_not_learn() -> None:
    assert _Nearest().masking
    assert not _Nearest().requires_grad
    seen = torch.isfinite(_Nearest().tile(range(4), range(5)))
    assert torch.equal(seen[0, 1], sliding_window_mask(2).tile(range(4), range(5))[0, 0])


def test_positions_are_whole_numbers() -> None:
    with pytest.raises(InputError) as caught:
        AlibiBias(1).tile(torch.zeros(2), range(2))
    assert str(caught.value) == (
        "rows: expected a range or an int64 tensor (rows) or (batch, rows) of absolute "
        "positions, got torch.float32 of shape (2,)"
    )
    with pytest.raises(InputError) as caught:
        AlibiBias(1).tile(range(2), torch.zeros(2, 2, dtype=torch.int64))
    assert str(caught.value) == (
        "columns: expected a range or an int64 tensor (columns) of absolute positions, "
        "got torch.int64 of shape (2, 2)"
    )
