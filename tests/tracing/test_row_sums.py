"""Sums over layers are those of all heads at once; the largest are found wherever they stand."""

import pytest
import torch
from torch.testing import assert_close

from clearhead.tracing.row_sums import RowSums, joined, largest


@pytest.mark.parametrize("count", [1, 5, 63, 64, 65, 1000, 4096, 4100])
@pytest.mark.parametrize("k", [1, 3, 32])
def test_the_largest_are_those_of_topk(count, k, generator):
    numbers = torch.randn(4, count, generator=generator, dtype=torch.float64)
    values, places = largest(numbers, k)
    assert torch.equal(values, numbers.topk(min(k, count), dim=1).values)
    assert torch.equal(numbers.gather(1, places), values)


def test_neighbours_and_the_rest_of_a_row_are_found(generator):
    numbers = torch.rand(2, 64 * 50 + 7, generator=generator)
    numbers[0, 128:134] += 5  # six in one run
    numbers[1, -6:] += 5  # behind the last whole run
    assert sorted(largest(numbers, 6)[1][0].tolist()) == list(range(128, 134))
    assert sorted(largest(numbers, 6)[1][1].tolist()) == list(range(64 * 50 + 1, 64 * 50 + 7))


@pytest.mark.parametrize("known", [True, False])
def test_layer_by_layer_is_all_heads_at_once(known, generator):
    layers = [torch.rand(h, 3, 20, generator=generator, dtype=torch.float64) for h in (2, 5, 1)]
    sums, start = RowSums(4), 0
    for weights in layers:
        lengths = 3 * weights if known else None
        sums.add(weights if lengths is None else lengths, weights, lengths, start=start)
        start += len(weights)
    every = torch.cat(layers)
    total = every.sum((0, 2))
    parts, links = sums.parts(), sums.links()
    assert_close(parts["share"], (every.sum(0) / total[:, None]).float())
    assert_close(parts["heads"], (every.sum(2) / total).T.float())
    assert torch.equal(parts["strongest"], every.max(0).indices)
    row = torch.arange(3)[:, None]
    expected = every.transpose(0, 1).flatten(1).topk(4).values
    assert_close(links.weight, expected.float())
    assert_close(links.weight, every[links.head, row, links.position].float())
    assert_close(links.share, (expected / total[:, None]).float())
    if known:
        assert_close(links.length, 3 * links.weight)
    else:
        assert bool(links.length.isnan().all())


def test_blocks_of_rows_stand_below_each_other(generator):
    blocks = []
    for rows in (2, 3):
        sums = RowSums(2)
        weights = torch.rand(4, rows, 9, generator=generator)
        sums.add(weights, weights, None, start=0)
        blocks.append(sums.links())
    whole = joined(blocks)
    assert torch.equal(whole.weight, torch.cat([block.weight for block in blocks]))
    assert whole.head.shape == (5, 2)
