"""What part of n×m is looked at: nothing that is seen may be left out."""

import pytest
import torch

from clearhead.masks import Mask, causal_mask, sliding_window_mask
from clearhead.pipeline import visibility
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.visibility import all_seen, column_span, empty_rows, row_blocks
from clearhead.positions.bias import AlibiBias, T5RelativeBias
from tests.laws.calls import MASKS, draw

N = 13
CPU = torch.device("cpu")


@pytest.fixture(params=[2, 3, 256])
def block(request, monkeypatch):
    monkeypatch.setattr(visibility, "BLOCK", request.param)
    return request.param


def bound(generator, mask, *, n=N, m=N, **parts):
    call = draw(generator, n=n, m=m)
    return ScoreRule(mask=mask, **parts).bind(call.query, call.key)


def seen(rule):
    tile = rule.visible(range(rule.queries), range(rule.keys), device=CPU)
    truth = torch.ones(1, 1, 1, 1, dtype=torch.bool) if tile is None else tile
    return truth.expand(2, 4, rule.queries, rule.keys)


@pytest.mark.parametrize("queries", [0, 1, 2, 7, 12])
@pytest.mark.parametrize("width", [0, 1, 5, 10**9])
def test_blocks_of_rows_hold_every_row_once(block, monkeypatch, queries, width):
    monkeypatch.setattr(visibility, "BLOCK_ELEMENTS", 10)
    found = list(row_blocks(queries, width=width))
    assert [row for rows in found for row in rows] == list(range(queries))
    assert all(1 <= len(rows) <= block for rows in found)
    assert all(len(rows) * width <= 10 or len(rows) == 1 for rows in found)


@pytest.mark.parametrize("name", MASKS)
def test_a_span_cuts_no_seen_key_and_no_longer_than_it_must(generator, block, name):
    rule = bound(generator, MASKS[name](N))
    dense = seen(rule).any(0).any(0)
    for start in range(N):
        for stop in range(start + 1, N + 1):
            columns = dense[start:stop].any(0).nonzero().flatten().tolist()
            span = column_span(rule, range(start, stop))
            if not columns:
                assert len(span) == 0
                continue
            assert span.start <= columns[0]
            assert columns[-1] < span.stop <= N
            assert columns[0] - span.start < block
            assert span.stop - columns[-1] <= block


@pytest.mark.parametrize("starts", [4, -3, [0, 4], [-20, 30]], ids=str)
def test_a_span_knows_where_the_queries_stand(generator, block, starts):
    start = starts if isinstance(starts, int) else torch.tensor(starts)
    window = causal_mask() & sliding_window_mask(3)
    rule = bound(generator, window, n=4, query_start=start)
    for row in range(4):
        columns = seen(rule)[:, :, row].any(0).any(0).nonzero().flatten().tolist()
        assert set(columns) <= set(column_span(rule, range(row, row + 1)))


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("biased", [False, True])
def test_empty_rows_are_those_of_the_dense_mask(generator, block, name, biased):
    bias = None
    if biased:
        bias = torch.randn(4, N, N, generator=generator)
        bias[torch.rand(4, N, N, generator=generator) < 0.6] = -torch.inf
        bias[2, 5] = -torch.inf
    rule = bound(generator, MASKS[name](N), bias=bias)
    visible = seen(rule) if bias is None else seen(rule) & ~bias.isneginf()
    truth = ~visible.any(-1)
    found = empty_rows(rule, CPU)
    if found is None:
        assert not truth.any()
    else:
        assert truth.any()
        assert torch.equal(found.expand(truth.shape), truth)


def test_a_position_bias_may_leave_a_row_nothing(generator, block):
    bias = T5RelativeBias(4, buckets=8, max_distance=20, bidirectional=False)
    assert empty_rows(bound(generator, None, bias=AlibiBias(4)), CPU) is None
    assert empty_rows(bound(generator, None, bias=bias), CPU) is None
    with torch.no_grad():
        bias.weight[0, 1] = bias.weight[7] = -torch.inf  # itself and later; far back
    truth = torch.zeros(2, 4, N, dtype=torch.bool)
    truth[:, 1, 0] = True
    assert torch.equal(empty_rows(bound(generator, None, bias=bias), CPU).expand(2, 4, N), truth)


def test_rows_that_look_before_the_first_key_are_empty(generator, block):
    rule = bound(generator, causal_mask(), n=5, query_start=-2)
    assert empty_rows(rule, CPU).flatten().tolist() == [True, True, False, False, False]
    each = bound(generator, causal_mask(), n=3, query_start=torch.tensor([-1, 0]))
    assert empty_rows(each, CPU)[:, 0].tolist() == [[True, False, False], [False] * 3]


def test_nothing_is_made_where_no_row_can_be_empty(generator):
    assert empty_rows(bound(generator, None), CPU) is None
    assert empty_rows(bound(generator, causal_mask()), CPU) is None
    assert empty_rows(bound(generator, None, bias=torch.zeros(N, N)), CPU) is None
    nothing = Mask.from_tensor(torch.zeros(N, N, dtype=torch.bool))
    assert empty_rows(bound(generator, nothing), CPU).all()


@pytest.mark.parametrize("name", MASKS)
def test_a_block_needs_no_mask_only_where_all_of_it_is_seen(generator, name):
    rule = bound(generator, MASKS[name](N))
    dense = seen(rule)
    for start in range(0, N, 2):
        for stop in range(start + 1, N + 1, 3):
            rows, columns = range(start, stop), range(N - stop, N - start)
            block = dense[:, :, start:stop, N - stop : N - start]
            assert all_seen(rule, rows, columns) == bool(block.all())
    if rule.mask is not None:
        assert not all_seen(rule, range(0), range(3))
        assert not all_seen(rule, torch.arange(3), range(3))
