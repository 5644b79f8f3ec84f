"""Numbers that everyone can check by hand."""

import itertools
import math

import numpy as np
import pytest
import torch

import clearhead as ch
from tests.accuracy import assert_double
from tests.laws.calls import draw

IMPLEMENTATIONS = ["auto", "tiles", "reference"]
EVERY_DTYPE = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("dtype", EVERY_DTYPE, ids=str)
def test_one_query_and_two_keys(dtype: torch.dtype, impl: str) -> None:
    query = torch.tensor([[1, 1]], dtype=dtype)
    key = torch.tensor([[1, 1], [1, 0]], dtype=dtype)
    value = torch.tensor([[10, 2], [0, 8]], dtype=dtype)
    result = ch.attention(query, key, value, impl=impl)
    assert [round(s, 3) for s in result.scores[0].tolist()] == [1.414, 0.707]
    assert [round(a, 2) for a in result.weights[0].tolist()] == [0.67, 0.33]
    assert [round(c, 1) for c in result.context[0].tolist()] == [6.7, 4.0]
    if dtype in {torch.float64, torch.float32}:
        assert [round(c, 2) for c in result.context[0].tolist()] == [6.70, 3.98]
    level = math.log(math.exp(math.sqrt(2)) + math.exp(math.sqrt(0.5)))
    assert round(float(result.logsumexp[0]), 6) == round(level, 6)


def test_4096_tokens_are_16777216_pairs() -> None:
    query = torch.zeros(4096, 1)
    weights = ch.attention(query, query, query).weights
    assert math.prod(weights.shape) == 16_777_216
    assert math.prod(weights.shape) * torch.bfloat16.itemsize == 32 * 2**20
    # the largest that becomes an array unasked, and it does
    assert np.asarray(weights, dtype=np.float16).nbytes == 32 * 2**20


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_without_positions_permuting_the_tokens_permutes_the_outputs(
    impl: str, generator: torch.Generator
) -> None:
    call = draw(generator, n=9, dtype=torch.float64)
    order = torch.randperm(9, generator=generator)
    straight = ch.attention(*call.tensors, impl=impl)
    permuted = ch.attention(*(t[:, :, order] for t in call.tensors), impl=impl)
    assert_double(permuted.context, straight.context[:, :, order], name="C")
    assert_double(permuted.logsumexp, straight.logsumexp[:, :, order], name="logsumexp")
    both = straight.weights.to_dense()[:, :, order][..., order]
    assert_double(permuted.weights.to_dense(), both, name="A")


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("widths", [*itertools.permutations((1, 3, 8), 2)], ids=str)
def test_mixing_keeps_the_space_of_v(
    widths: tuple[int, int], impl: str, generator: torch.Generator
) -> None:
    d_k, d_v = widths
    call = draw(generator, n=5, d_k=d_k, d_v=d_v, dtype=torch.float64)
    result = ch.attention(*call.tensors, impl=impl)
    assert result.context.shape == (2, 4, 5, d_v)
    repeated = call.value.repeat_interleave(2, dim=1)
    assert_double(result.context, result.weights.to_dense() @ repeated, name="C")
    # every context vector lies within the box that its values span
    lowest, highest = repeated.amin(2, keepdim=True), repeated.amax(2, keepdim=True)
    slack = 1e-12 * repeated.abs().amax()
    assert bool(((result.context >= lowest - slack) & (result.context <= highest + slack)).all())
