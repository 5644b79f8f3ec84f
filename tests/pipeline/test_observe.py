"""Statistics of A from one pass over its tiles, against those of A written out."""

import math
from itertools import pairwise

import pytest
import torch

from clearhead.errors import InputError
from clearhead.masks import Mask, causal_mask, sliding_window_mask
from clearhead.pipeline import observe
from clearhead.pipeline.attention import attention
from clearhead.pipeline.observe import OBSERVABLES, EntropyObserver, ReceivedObserver
from tests.accuracy import assert_double
from tests.laws.calls import draw

N = 11
FEW = torch.arange(N) % 4 == 1  # most rows see nothing
SETTINGS = {
    "causal": {"mask": causal_mask()},
    "window": {"mask": causal_mask() & sliding_window_mask(3)},
    "empty rows": {"mask": Mask.from_tensor(FEW[:, None] & (torch.arange(N) > 2))},
    "sinks": {"sinks": torch.tensor([-1.0, 0.0, 1.0, 3.0], dtype=torch.float64)},
}


@pytest.fixture(params=SETTINGS)
def weights(request, generator, monkeypatch):
    monkeypatch.setattr(observe, "COLUMNS", 4)  # so that a row has several blocks
    return attention(
        *draw(generator, n=N, dtype=torch.float64).tensors, **SETTINGS[request.param]
    ).weights


def test_received_and_entropy_equal_the_dense_ones(weights):
    dense = weights.to_dense()
    assert_double(weights.received(), dense.sum(-2))
    assert_double(weights.entropy(), -torch.xlogy(dense, dense).sum(-1))
    assert_double(weights[1, 2].received(), dense[1, 2].sum(-2))
    assert_double(weights[:, 3].entropy(), -torch.xlogy(dense, dense).sum(-1)[:, 3])


@pytest.mark.parametrize("k", [1, 3, N + 5])
def test_top_keys_equal_the_dense_ones(weights, k):
    dense, top = weights.to_dense(), weights.top_keys(k)
    best = dense.topk(min(k, N))
    assert_double(top.weights, best.values)
    assert torch.equal(top.keys, torch.where(best.values > 0, best.indices, -1))
    one = weights[0, 1].top_keys(k)
    assert torch.equal(one.keys, top.keys[0, 1])
    assert_double(one.weights, top.weights[0, 1])


@pytest.mark.parametrize("reduce", ["max", "sum", "mean"])
@pytest.mark.parametrize("size", [1, 4, N, 256])
def test_a_pooled_map_equals_the_dense_one(weights, size, reduce):
    dense, found = weights.to_dense(), weights.pooled(size, reduce=reduce)
    bins = min(size, N)
    edges = [i * N // bins for i in range(bins + 1)]
    assert found.row_edges.tolist() == found.column_edges.tolist() == edges
    assert found.reduce == reduce
    fold = {"max": torch.amax, "sum": torch.sum, "mean": torch.mean}[reduce]
    runs = [range(a, b) for a, b in pairwise(edges)]
    cells = [[fold(dense[..., r, :][..., c], (-2, -1)) for c in runs] for r in runs]
    truth = torch.stack([torch.stack(row, -1) for row in cells], -2)
    assert_double(found.values, truth)
    assert_double(weights[1, 0].pooled(size, reduce=reduce).values, truth[1, 0])


@pytest.mark.parametrize("reduce", ["max", "sum", "mean"])
def test_bins_that_divide_and_sides_that_differ(generator, reduce):
    call = draw(generator, n=12, m=5, dtype=torch.float64)
    weights = attention(*call.tensors).weights
    found = weights.pooled(6, reduce=reduce)
    pairs = weights.to_dense().unflatten(2, (6, 2))
    fold = {"max": torch.amax, "sum": torch.sum, "mean": torch.mean}[reduce]
    assert_double(found.values, fold(pairs, 3))
    assert found.row_edges.tolist() == [0, 2, 4, 6, 8, 10, 12]
    assert found.column_edges.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.fixture
def tiles(monkeypatch):
    """How often a block of S is made, and which."""
    made = []

    def counting(*args, rows, columns):
        made.append((rows, columns))
        return score_tile(*args, rows=rows, columns=columns)

    score_tile = observe.score_tile
    monkeypatch.setattr(observe, "score_tile", counting)
    monkeypatch.setattr(observe, "COLUMNS", 4)
    return made


def test_observing_equals_asking_and_takes_one_pass(generator, tiles):
    call = draw(generator, n=N)
    result = attention(*call.tensors, mask=causal_mask(), observe=OBSERVABLES)
    blocks = [(range(N), range(4)), (range(N), range(4, 8)), (range(N), range(8, N))]
    assert tiles == blocks
    weights = result.weights
    assert torch.equal(result.received, weights.received())
    assert torch.equal(result.entropy, weights.entropy())
    top = weights.top_keys(8)
    assert torch.equal(result.top_keys.keys, top.keys)
    assert torch.equal(result.top_keys.weights, top.weights)
    assert torch.equal(result.pooled.values, weights.pooled(64).values)
    assert tiles == 5 * blocks


def test_what_is_masked_is_not_visited(generator, tiles):
    call = draw(generator, batch=1, heads=1, kv_heads=1, n=600)
    attention(*call.tensors, mask=causal_mask() & sliding_window_mask(8), observe=("received",))
    assert all(c.start <= r.stop and c.stop > r.start - 256 - 8 for r, c in tiles)
    assert max(columns.stop for rows, columns in tiles if rows.start == 0) == 256
    assert min(columns.start for rows, columns in tiles if rows.stop == 600) == 256


@pytest.mark.parametrize("axes", [2, 3, 4])
def test_observed_statistics_have_the_axes_of_the_query(generator, axes):
    tensors = [t[(0,) * (4 - axes)] for t in draw(generator, n=N).tensors]
    result = attention(*tensors, observe=OBSERVABLES)
    lead = (2, 4)[4 - axes :]
    assert result.received.shape == result.entropy.shape == (*lead, N)
    assert result.top_keys.keys.shape == (*lead, N, 8)
    assert result.pooled.values.shape == (*lead, N, N)


def test_statistics_carry_no_gradient(generator):
    call = draw(generator, n=N).leaves()
    result = attention(*call.tensors, observe=OBSERVABLES)
    assert result.context.requires_grad
    for found in (
        result.received,
        result.entropy,
        result.pooled.values,
        result.weights.received(),
        result.weights.pooled(2, reduce="mean").values,
    ):
        assert not found.requires_grad


def test_top_keys_carry_no_gradient(generator):
    call = draw(generator, n=N).leaves()
    assert not attention(*call.tensors).weights.top_keys(2).weights.requires_grad


def test_a_known_row_has_the_entropy_of_the_book():
    level = torch.full((1, 1, 1), math.log(4.0))
    entropy, received = EntropyObserver(level), ReceivedObserver(level, 6)
    scores = torch.tensor([[[[0.0, 0.0, 0.0, 0.0, -math.inf]]]])
    for observer in (entropy, received):
        observer.see(
            range(1), range(1, 6), weights=(scores - level[..., None]).exp(), scores=scores
        )
    torch.testing.assert_close(entropy.result(), torch.full((1, 1, 1), math.log(4.0)))
    expected = torch.tensor([[[0.0, 0.25, 0.25, 0.25, 0.25, 0.0]]])
    torch.testing.assert_close(received.result(), expected)


def test_what_cannot_be_observed_is_refused(generator):
    call = draw(generator)
    weights = attention(*call.tensors).weights
    for ask, text in (
        (lambda: weights.top_keys(-1), "k must be at least 0, got -1"),
        (lambda: weights.pooled(0), "size must be at least 1, got 0"),
        (
            lambda: weights.pooled(reduce="min"),
            "reduce must be 'max', 'sum' or 'mean', got 'min'",
        ),
        (
            lambda: attention(*call.tensors, observe=("received", "norms")),
            "observe must name some of received, entropy, top_keys, pooled; got norms",
        ),
    ):
        with pytest.raises(InputError) as caught:
            ask()
        assert str(caught.value) == text
