"""A broken key is kept from the rows that do not see it, and only from them."""

import pytest
import torch

from clearhead.masks import causal_mask
from clearhead.pipeline.kernels import block_rule
from clearhead.pipeline.mending import all_finite, mended, touched_rows, wild_keys
from tests.laws.calls import draw


def _poisonous(query, key, value):
    """As kernels do: multiplies every key, seen or not, and masks by adding."""
    group = query.shape[1] // key.shape[1]
    key, value = (t.repeat_interleave(group, 1) for t in (key, value))
    hidden = torch.ones(query.shape[2], key.shape[2]).triu(1) > 0
    scores = query @ key.mT + torch.zeros(()).masked_fill(hidden, -torch.inf)
    return scores.softmax(-1) @ value, scores.logsumexp(-1)


@pytest.mark.parametrize("broken", [torch.nan, torch.inf, -torch.inf, 3e38, -3e38])
@pytest.mark.parametrize("name", ["key", "value"])
def test_rows_before_a_broken_key_keep_their_bits(
    name: str, broken: float, generator: torch.Generator
) -> None:
    call = draw(generator, n=12)
    rule = block_rule(call.query, call.key, bias=None, causal=True, scale=1.0)
    clean = mended(*call.tensors, run=_poisonous, rule=lambda: rule)
    getattr(call, name)[:, :, 7] = broken
    context, level = mended(*call.tensors, run=_poisonous, rule=lambda: rule)
    assert torch.equal(context[:, :, :7], clean[0][:, :, :7])
    assert torch.equal(level[:, :, :7], clean[1][:, :, :7])
    assert not torch.equal(context[:, :, 7:], clean[0][:, :, 7:])


def test_the_kernel_runs_once_where_nothing_is_broken(generator: torch.Generator) -> None:
    call = draw(generator, n=12)
    runs: list[int] = []

    def run(query, key, value):
        runs.append(1)
        return _poisonous(query, key, value)

    rule = block_rule(call.query, call.key, bias=None, causal=True, scale=1.0)
    mended(*call.tensors, run=run, rule=lambda: rule)
    assert len(runs) == 1


def test_a_sum_too_large_to_hold_is_still_finite() -> None:
    large = torch.full((1, 1, 4, 4), 60_000.0, dtype=torch.float16)
    assert all_finite(large, torch.zeros(1, 1, 4))
    assert not all_finite(large, torch.tensor([[[0.0, torch.nan]]]))


def test_wild_keys_are_those_that_could_poison(generator: torch.Generator) -> None:
    call = draw(generator, n=6)
    call.key[0, 0, 1] = torch.nan
    call.value[1, 1, 2, 3] = torch.inf
    call.key[0, 1, 4, 0] = 3e38
    call.value[0, 0, 5] = 3e38  # finite: 0 · 3e38 is 0
    found = wild_keys(*call.tensors).nonzero().tolist()
    assert found == [[0, 0, 1], [0, 1, 4], [1, 1, 2]]


def test_touched_are_the_rows_that_see_one(generator: torch.Generator) -> None:
    call = draw(generator, n=6)
    call.query[1, 3, 0, 0] = torch.inf
    call.key[0, 1, 2] = torch.nan
    rule = block_rule(call.query, call.key, bias=None, causal=True, scale=1.0)
    wild = wild_keys(*call.tensors)
    found = touched_rows(call.query, wild, rule=rule, rows=range(6))
    expected = torch.zeros(2, 4, 6, dtype=torch.bool)
    expected[0, 2:, 2:] = causal_mask().tile(range(2, 6), range(2, 3))[0, 0].T
    expected[1, 3, 0] = True
    assert torch.equal(found, expected)


def test_the_kernel_runs_once_where_a_row_sees_nothing(generator: torch.Generator) -> None:
    call = draw(generator, n=12)
    runs: list[int] = []

    def run(query, key, value):
        runs.append(1)
        context, level = _poisonous(query, key, value)
        return context, level.index_fill(2, torch.tensor([4]), -torch.inf)

    rule = block_rule(call.query, call.key, bias=None, causal=True, scale=1.0)
    _, level = mended(*call.tensors, run=run, rule=lambda: rule)
    assert len(runs) == 1
    assert level[:, :, 4].isneginf().all()


def test_a_huge_query_is_no_fault_of_another_batch_row_or_head(
    generator: torch.Generator,
) -> None:
    call = draw(generator, n=6)
    call.query[0, 3, 1] = 3e37
    found = wild_keys(*call.tensors)
    assert found[0, 1].any()
    assert not found[0, 0].any()
    assert not found[1].any()
