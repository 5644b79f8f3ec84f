"""What attention gives back answers for itself, and says what it did not keep."""

import pytest
import torch

from clearhead.errors import NotKeptError
from clearhead.masks import causal_mask
from clearhead.pipeline.attention import attention
from clearhead.pipeline.matrix import AttentionMatrix, ScoreMatrix
from clearhead.pipeline.observe import OBSERVABLES
from clearhead.pipeline.reference import reference
from clearhead.pipeline.rule import ScoreRule
from tests.accuracy import Yardstick, assert_double
from tests.laws.calls import draw


@pytest.mark.parametrize("impl", ["fused", "tiles", "reference"])
def test_everything_between_the_lines_equals_the_five_steps(generator, impl):
    call = draw(generator, m=9, dtype=torch.float64)
    rule = ScoreRule(mask=causal_mask(), query_start=3, scale=0.4)
    steps = reference(*call.tensors, rule=rule.bind(call.query, call.key))
    result = attention(*call.tensors, rule=rule, impl=impl)
    assert result.implementation == impl
    assert_double(result.context, steps.context)
    assert_double(result.logsumexp, steps.logsumexp)
    for lazy, dense, kind in (
        (result.raw_scores, steps.raw_scores, ScoreMatrix),
        (result.scores, steps.scores, ScoreMatrix),
        (result.weights, steps.weights, AttentionMatrix),
    ):
        assert type(lazy) is kind
        assert_double(lazy.to_dense(), dense)
        assert_double(lazy[1, 2, 4], dense[1, 2, 4])


def test_weights_times_values_are_the_context(generator):
    call = draw(generator)
    result = attention(*call.tensors, mask=causal_mask())
    assert result.value is call.value
    values = result.value.repeat_interleave(2, 1)
    allowed = torch.ones(6, 6).tril().bool()
    yardstick = Yardstick(*call.tensors, allowed=allowed)
    yardstick.assert_context(result.context)
    yardstick.assert_context(result.weights.matvec(values))
    yardstick.assert_logsumexp(result.logsumexp)
    level = result.scores.to_dense().logsumexp(-1)
    yardstick.assert_logsumexp(level)


@pytest.mark.parametrize("axes", [2, 3, 4])
def test_it_has_the_axes_of_the_query(generator, axes):
    call = draw(generator, m=9, d_v=3)
    query, key, value = (t[(0,) * (4 - axes)] for t in call.tensors)
    result, lead = attention(query, key, value), (2, 4)[4 - axes :]
    assert result.context.shape == (*lead, 6, 3)
    assert result.logsumexp.shape == (*lead, 6)
    matrices = (result.weights, result.scores, result.raw_scores)
    assert all(matrix.shape == (*lead, 6, 9) for matrix in matrices)
    whole = attention(*call.tensors).context[(0,) * (4 - axes)]
    torch.testing.assert_close(result.context, whole)


@pytest.mark.parametrize("name", OBSERVABLES)
def test_what_was_not_observed_says_how_to_get_it(generator, name):
    call = draw(generator)
    others = tuple(other for other in OBSERVABLES if other != name)
    result = attention(*call.tensors, observe=others)
    with pytest.raises(NotKeptError) as caught:
        getattr(result, name)
    assert str(caught.value) == (
        f"{name} was not observed: call attention(..., observe=('{name}',)), "
        f"or ask result.weights.{name}() now"
    )
    getattr(result.weights, name)()
    for other in others:
        assert getattr(result, other) is result.observed[other]


def test_the_implementation_is_named(generator):
    tensors = draw(generator).tensors
    assert attention(*tensors).implementation == "fused"
    assert attention(*tensors, softcap=2.0).implementation == "tiles"
    assert attention(*tensors, impl="reference").implementation == "reference"
    assert repr(attention(*tensors, impl="tiles")).endswith("implementation='tiles')")
