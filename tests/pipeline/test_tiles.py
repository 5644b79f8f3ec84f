"""Any block of S and A, exact, from Q, K, the rule and L."""

import pytest
import torch

from clearhead.pipeline.reference import reference
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tiles import (
    attend_rows,
    attend_tiles,
    logsumexp_tiles,
    mix,
    score_tile,
    weight_tile,
    wide,
)
from tests.accuracy import assert_double
from tests.laws.calls import MASKS, draw

BLOCKS = [
    (range(3, 9), range(5)),
    (range(12), range(4, 11)),
    (torch.tensor([7, 0, 7]), torch.tensor([11, 2])),
    (range(2, 3), range(12)),
]


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("place", range(len(BLOCKS)))
def test_a_block_is_that_part_of_the_whole(
    place: int, kind: str, generator: torch.Generator
) -> None:
    call = draw(generator, n=12, dtype=torch.float64)
    bias = torch.randn(4, 12, 12, generator=generator, dtype=torch.float64)
    rule = ScoreRule(mask=MASKS[kind](12), bias=bias, softcap=3.0).bind(call.query, call.key)
    whole = reference(*call.tensors, rule=rule)
    rows, columns = BLOCKS[place]
    r, c = (torch.as_tensor(list(where)) for where in (rows, columns))
    scores = score_tile(call.query, call.key, rule, rows=rows, columns=columns)
    assert_double(scores, whole.scores[..., r, :][..., c])
    raw = score_tile(call.query, call.key, rule, rows=rows, columns=columns, raw=True)
    assert_double(raw, whole.raw_scores[..., r, :][..., c])
    weights = weight_tile(scores, whole.logsumexp[..., r])
    assert_double(weights, whole.weights[..., r, :][..., c])


@pytest.mark.parametrize("kind", MASKS)
def test_tiles_alone_give_context_and_logsumexp(kind: str, generator: torch.Generator) -> None:
    call = draw(generator, n=300, d_v=5, dtype=torch.float64)
    rule = ScoreRule(mask=MASKS[kind](300), softcap=2.0).bind(call.query, call.key)
    whole = reference(*call.tensors, rule=rule)
    context, level = attend_tiles(*call.tensors, rule=rule)
    assert_double(context, whole.context)
    assert_double(level, whole.logsumexp)
    assert_double(logsumexp_tiles(call.query, call.key, rule=rule), whole.logsumexp)


def test_rows_alone_are_rows_of_the_whole(generator: torch.Generator) -> None:
    call = draw(generator, n=12, dtype=torch.float64)
    rule = ScoreRule(mask=MASKS["causal"](12)).bind(call.query, call.key)
    whole = reference(*call.tensors, rule=rule)
    context, level = attend_rows(*call.tensors, rule=rule, rows=range(4, 9), columns=range(9))
    assert_double(context, whole.context[:, :, 4:9])
    assert_double(level, whole.logsumexp[:, :, 4:9])


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_a_value_that_a_row_does_not_see_is_not_mixed(
    broken: float, generator: torch.Generator
) -> None:
    weights = torch.rand(1, 2, 3, 4, generator=generator)
    seen = torch.ones(1, 2, 3, 4, dtype=torch.bool)
    seen[:, :, :2, 1] = False
    weights = weights * seen
    value = torch.randn(1, 1, 4, 5, generator=generator)
    clean = mix(weights, value, seen)
    value[:, :, 1] = broken
    mixed = mix(weights, value, seen)
    assert torch.equal(mixed[:, :, :2], clean[:, :, :2])
    assert not torch.isfinite(mixed[:, :, 2]).any()


def test_low_precision_is_widened() -> None:
    assert wide(torch.bfloat16) == wide(torch.float16) == wide(torch.float32) == torch.float32
    assert wide(torch.float64) == torch.float64
