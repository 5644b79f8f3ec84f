"""The rule by which scores are made: what fits a call, and what is left of it for a part."""

import math

import pytest
import torch

from clearhead.errors import MaskError, ShapeError
from clearhead.masks import Verdict, causal_mask, padding_mask, sliding_window_mask
from clearhead.pipeline.reference import reference
from clearhead.pipeline.rule import ScoreRule
from clearhead.positions.bias import AlibiBias
from tests.accuracy import assert_double
from tests.laws.calls import MASKS, draw

N = 7


@pytest.fixture
def call(generator):
    return draw(generator, n=N, dtype=torch.float64)


def scores(rule, query, key):
    return reference(query, key, key, rule=rule).scores


def test_all_faults_are_told_at_once(call):
    rule = ScoreRule(
        scale=float("inf"),
        softcap=0.0,
        bias=torch.ones(3, N, dtype=torch.int64),
        sinks=torch.zeros(3),
        query_start=torch.zeros(3, dtype=torch.int64),
    )
    with pytest.raises(ShapeError) as caught:
        rule.bind(call.query, call.key)
    assert str(caught.value) == (
        "the score rule does not fit the call, 6 faults:\n"
        "  - softcap must be finite and above 0, got 0.0; None is no cap\n"
        "  - scale must be finite, got inf\n"
        "  - bias must broadcast to (batch, heads, n, m) = (2, 4, 7, 7), got (3, 7)\n"
        "  - bias must be floating point, got torch.int64; True is for mask=\n"
        "  - sinks must have one logit a head, shape (4,), got (3,)\n"
        "  - query_start must be an integer or integers (2,), one a batch row, "
        "got torch.int64 of shape (3,)"
    )


def test_one_fault_is_one_line_and_masks_answer_for_themselves(call):
    with pytest.raises(ShapeError) as caught:
        ScoreRule(softcap=-1.0).bind(call.query, call.key)
    assert str(caught.value) == (
        "the score rule does not fit the call: "
        "softcap must be finite and above 0, got -1.0; None is no cap"
    )
    with pytest.raises(MaskError):
        ScoreRule(mask=padding_mask(torch.ones(2, N + 1))).bind(call.query, call.key)
    with pytest.raises(MaskError):  # which of the seven keys is the first query's own?
        ScoreRule(mask=causal_mask()).bind(call.query[:, :, :3], call.key)


def test_defaults_are_filled_in(call):
    bound = ScoreRule().bind(call.query, call.key)
    assert bound.scale == 1 / math.sqrt(8)
    assert (bound.queries, bound.keys, bound.query_start, bound.key_start) == (N, N, 0, 0)
    assert ScoreRule(key_start=4).bind(call.query, call.key).query_start == 4
    assert ScoreRule().bind(call.query[..., :0], call.key[..., :0]).scale == 1.0
    assert ScoreRule(scale=0).bind(call.query, call.key).scale == 0


@pytest.mark.parametrize("mask", MASKS)
def test_a_chosen_part_has_the_scores_of_that_part(call, generator, mask):
    bias = torch.randn(2, 4, N, N, generator=generator, dtype=torch.float64)
    rule = ScoreRule(mask=MASKS[mask](N), bias=bias, softcap=2.0)
    bound = rule.bind(call.query, call.key)
    key = call.key.repeat_interleave(2, 1)
    whole = scores(bound, call.query, key)
    b, h = torch.tensor([1, 0, 1]), torch.tensor([3, 1])
    chosen = bound.choose(batch=b).choose(heads=h)
    assert_double(scores(chosen, call.query[b][:, h], key[b][:, h]), whole[b][:, h])
    again = chosen.choose(batch=torch.tensor([2]), heads=torch.tensor([1]))
    assert_double(scores(again, call.query[1:, 1:2], key[1:, 1:2]), whole[1:, 1:2])
    rows = torch.randperm(N, generator=generator)[:4]
    columns = torch.randperm(N, generator=generator)[:5]
    for pair in ((rows, columns), (rows, None), (None, columns), (None, None)):
        narrow = bound.narrowed(1, rows=pair[0], columns=pair[1])
        r, c = (torch.arange(N) if part is None else part for part in pair)
        found = scores(narrow, call.query[1:, :, r], key[1:, :, c])
        assert_double(found, whole[1:, :, r][..., c])


def test_one_batch_row_keeps_where_its_queries_start(call):
    bound = ScoreRule(mask=causal_mask(), query_start=torch.tensor([0, 1])).bind(
        call.query, call.key
    )
    key = call.key.repeat_interleave(2, 1)
    whole = scores(bound, call.query, key)
    for b in range(2):
        chosen = bound.choose(batch=torch.tensor([b]))
        assert_double(scores(chosen, call.query[[b]], key[[b]]), whole[[b]])
        narrow = bound.narrowed(b, rows=torch.tensor([4, 1]), columns=None)
        assert_double(
            scores(narrow, call.query[[b]][:, :, [4, 1]], key[[b]]), whole[[b]][:, :, [4, 1]]
        )


def test_several_batch_rows_keep_where_their_queries_start(call):
    bound = ScoreRule(mask=causal_mask(), query_start=torch.tensor([0, 1])).bind(
        call.query, call.key
    )
    key, back = call.key.repeat_interleave(2, 1), torch.tensor([1, 0])
    whole = scores(bound, call.query, key)
    assert_double(scores(bound.choose(batch=back), call.query[back], key[back]), whole[back])


def test_a_triangle_is_plainly_causal(call):
    def triangle(**parts):
        return ScoreRule(**parts).bind(call.query, call.key).triangle

    assert triangle(mask=causal_mask())
    assert triangle(mask=causal_mask(), query_start=5, key_start=5)
    assert not triangle()
    assert not triangle(mask=causal_mask(), query_start=1)
    assert not triangle(mask=causal_mask(), query_start=torch.tensor([0, 0]))
    assert not triangle(mask=causal_mask() & sliding_window_mask(3))


@pytest.mark.parametrize("start", [0, 2, -2, torch.tensor(1), torch.tensor([2, -1])], ids=repr)
def test_queries_stand_where_they_are_said_to(call, start):
    query = call.query[:, :, :4]
    bound = ScoreRule(mask=causal_mask(), query_start=start).bind(query, call.key)
    each = torch.as_tensor(start).expand(2)
    i, j = torch.arange(4)[:, None], torch.arange(N)
    truth = (j <= i + each[:, None, None])[:, None]
    seen = bound.visible(range(4), range(N), device=torch.device("cpu"))
    assert torch.equal(seen.expand(truth.shape), truth)
    part = bound.visible(torch.tensor([3, 0]), range(1, 5), device=torch.device("cpu"))
    assert torch.equal(part.expand(2, 1, 2, 4), truth[:, :, [3, 0], 1:5])
    for row in range(4):
        for column in range(N):
            block = truth[:, 0, row, column]
            expected = (
                Verdict.ALL if block.all() else Verdict.MIXED if block.any() else Verdict.NONE
            )
            found = bound.verdict(range(row, row + 1), range(column, column + 1))
            assert found is expected, (row, column)


def test_keys_may_start_elsewhere(call):
    rule = ScoreRule(mask=causal_mask(), query_start=12, key_start=10)
    seen = rule.bind(call.query, call.key).visible(range(N), range(N), device=torch.device("cpu"))
    assert torch.equal(seen[0, 0], torch.ones(N, N).tril(2).bool())
    bound = rule.bind(call.query, call.key)
    assert bound.row_positions(range(1, 3)) == range(13, 15)
    assert bound.column_positions(torch.tensor([3, 0])).tolist() == [13, 10]


@pytest.mark.parametrize(
    "shape", [(), (1,), (N,), (N, 1), (N, N), (4, 1, 1), (1, N, N), (2, 1, 1, N), (2, 4, N, N)]
)
def test_a_bias_of_any_fitting_shape_is_its_broadcast(call, generator, shape):
    bias = torch.randn(shape, generator=generator, dtype=torch.float64)
    bound = ScoreRule(bias=bias).bind(call.query, call.key)
    full = bias.expand(2, 4, N, N)
    tile = bound.bias_tile(torch.tensor([5, 2]), range(1, 4))
    assert torch.equal(tile.expand(2, 4, 2, 3), full[:, :, [5, 2], 1:4])
    plain = scores(ScoreRule().bind(call.query, call.key), call.query, call.key)
    assert_double(scores(bound, call.query, call.key), plain + full)


@pytest.mark.parametrize("start", [0, 5, torch.tensor([2, 0])], ids=repr)
def test_a_position_bias_is_made_where_the_tile_stands(call, start):
    bias = AlibiBias(4)
    bound = ScoreRule(bias=bias, query_start=start, key_start=1).bind(call.query, call.key)
    assert bound.bias is bias
    i = torch.as_tensor(start).reshape(-1, 1) + torch.arange(N)
    whole = bias.tile(i, range(1, N + 1)).expand(2, 4, N, N)
    for rows in (range(2, 6), torch.tensor([5, 2])):
        tile = bound.bias_tile(rows, range(1, 4)).expand(2, 4, len(rows), 3)
        assert torch.equal(tile, whole[:, :, list(rows), 1:4])
    b, h = torch.tensor([1, 0, 1]), torch.tensor([3, 1])
    chosen = bound.choose(batch=b).choose(heads=h)
    tile = chosen.bias_tile(range(N), range(N)).expand(3, 2, N, N)
    assert torch.equal(tile, whole[b][:, h])
    narrow = chosen.narrowed(1, rows=torch.tensor([4, 1]), columns=None)
    assert torch.equal(narrow.bias_tile(range(2), range(N)), whole[:1, h][:, :, [4, 1]])
    assert bound.bias_tile(range(2), range(2), dtype=torch.float64).dtype == torch.float64
