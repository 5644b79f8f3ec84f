"""A call is cut into blocks that a kernel can serve, and nothing else about it changes."""

import pytest
import torch

from clearhead.masks import causal_mask, padding_mask, sliding_window_mask
from clearhead.pipeline import fused
from clearhead.pipeline.attention import attention
from clearhead.pipeline.fused import why_not_fused
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tiles import wide
from clearhead.positions.bias import AlibiBias
from tests.accuracy import assert_double
from tests.laws.calls import MASKS, draw


def _blocks(rule: ScoreRule, n: int, m: int | None = None) -> list[tuple[str, int, int]]:
    m = n if m is None else m
    bound = rule.bind(torch.zeros(1, 1, n, 4), torch.zeros(1, 1, m, 4))
    return [(block.kind, len(block.rows), len(block.columns)) for block in fused._plan(bound)]


def test_no_mask_is_one_plain_block() -> None:
    assert _blocks(ScoreRule(), 600) == [("plain", 600, 600)]


def test_causal_is_the_kernel_s_own_triangle() -> None:
    assert _blocks(ScoreRule(mask=causal_mask()), 600) == [("causal", 600, 600)]


def test_a_window_costs_its_width() -> None:
    found = _blocks(ScoreRule(mask=causal_mask() & sliding_window_mask(200)), 2048)
    assert [rows for _, rows, _ in found] == [256] * 8
    assert max(columns for _, _, columns in found) <= 512


def test_padding_alone_is_one_bias_row_for_all() -> None:
    keep = torch.arange(600) < 500
    assert _blocks(ScoreRule(mask=padding_mask(keep)), 600) == [("biased", 600, 600)]


def test_one_query_at_the_end_needs_no_mask() -> None:
    rule = ScoreRule(mask=causal_mask(), query_start=599)
    assert _blocks(rule, 1, 600) == [("plain", 1, 600)]


def test_rows_that_see_nothing_cost_nothing() -> None:
    assert _blocks(ScoreRule(mask=causal_mask() & ~causal_mask()), 300) == [
        ("empty", 256, 0),
        ("empty", 44, 0),
    ]


def test_the_tiles_of_a_position_bias_are_bounded_over_all_heads() -> None:
    query = torch.zeros(1, 64, 4096, 1)
    bound = ScoreRule(bias=AlibiBias(64), mask=causal_mask()).bind(query, query)
    rows = [len(block.rows) for block in fused._plan(bound)]
    assert sum(rows) == 4096
    assert max(rows) * 64 * 4096 == 2**24
    few = ScoreRule(bias=AlibiBias(1), mask=causal_mask()).bind(query[:, :1], query[:, :1])
    assert [len(block.rows) for block in fused._plan(few)] == [256] * 16
    each = ScoreRule(bias=AlibiBias(64), query_start=torch.zeros(2, dtype=torch.int64))
    batch = query.expand(2, -1, -1, -1)
    assert max(len(block.rows) for block in fused._plan(each.bind(batch, batch))) == 32


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("d_v", [3, 8, 13])
def test_blocks_together_are_the_whole(kind: str, d_v: int, generator: torch.Generator) -> None:
    call = draw(generator, n=520, d_v=d_v, dtype=torch.float64)
    mask = MASKS[kind](520)
    ours = attention(*call.tensors, mask=mask, impl="fused")
    truth = attention(*call.tensors, mask=mask, impl="reference")
    assert_double(ours.context, truth.context)
    assert_double(ours.logsumexp, truth.logsumexp)


def test_only_a_soft_cap_keeps_the_kernel_away() -> None:
    query = key = torch.zeros(1, 1, 2, 4)
    bias, sinks = torch.zeros(2, 2), torch.zeros(1)
    rule = ScoreRule(scale=0.3, bias=bias, mask=causal_mask(), sinks=sinks)
    assert why_not_fused(rule.bind(query, key)) is None
    capped = ScoreRule(softcap=5.0).bind(query, key)
    assert why_not_fused(capped) == (
        "no kernel applies a soft-cap; impl='tiles' does, in linear memory"
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("impl", ["fused", "tiles"])
def test_l_is_wide_where_nobody_sees_anything(
    impl: str, dtype: torch.dtype, generator: torch.Generator
) -> None:
    call = draw(generator, n=6, dtype=dtype).leaves()
    result = attention(*call.tensors, mask=causal_mask() & ~causal_mask(), impl=impl)
    assert result.context.dtype == dtype
    assert result.logsumexp.dtype == wide(dtype)
    assert not result.context.any()
    assert result.logsumexp.isneginf().all()
    result.context.sum().backward()
    assert all(not tensor.grad.any() for tensor in call.tensors)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("heads", [(6, 2), (4, 1), (3, 3)])
@pytest.mark.parametrize("mask", [None, causal_mask(), causal_mask() & sliding_window_mask(50)])
@pytest.mark.parametrize("start", [39, 0])
def test_one_row_that_sees_every_key_or_one(dtype, heads, mask, start, generator) -> None:
    many, few = heads
    shapes = [(2, many, 1, 16), (2, few, 40, 16), (2, few, 40, 16)]
    query, key, value = (torch.randn(s, generator=generator).to(dtype) for s in shapes)
    made = attention(query, key, value, mask=mask, query_start=start)
    wide_inputs = (t.double() for t in (query, key, value))
    exact = attention(*wide_inputs, mask=mask, query_start=start, impl="reference")
    assert made.context.shape == (2, many, 1, 16)
    assert made.logsumexp.shape == (2, many, 1)
    # C is rounded to the dtype, L never to less than float32
    precision = {torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float32: 2e-6}.get(dtype, 1e-13)
    level = 2e-4 if dtype.itemsize == 2 else precision
    torch.testing.assert_close(made.context.double(), exact.context, rtol=0, atol=precision)
    torch.testing.assert_close(made.logsumexp.double(), exact.logsumexp, rtol=0, atol=level)


def test_a_broken_value_behind_a_key_that_is_minus_infinity() -> None:
    query, key = torch.tensor([[2.0, 0.0]]), torch.tensor([[-torch.inf, 0.0], [1.0, 0.0]])
    value = torch.tensor([[torch.nan, 1.0], [1.0, 1.0]])
    made = attention(query, key, value, scale=1.0)
    exact = attention(query, key, value, scale=1.0, impl="reference")
    torch.testing.assert_close(made.context, exact.context, equal_nan=True)


@pytest.mark.parametrize("place", ["key", "value"])
@pytest.mark.parametrize("broken", [torch.nan, torch.inf, -torch.inf])
def test_one_row_that_sees_a_broken_key(place, broken, generator) -> None:
    shapes = {"query": (1, 4, 1, 8), "key": (1, 2, 30, 8), "value": (1, 2, 30, 8)}
    call = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    call[place][:, 0, 3] = broken
    made = attention(**call)
    exact = attention(**call, impl="reference")
    torch.testing.assert_close(made.context, exact.context, equal_nan=True)
    torch.testing.assert_close(made.logsumexp, exact.logsumexp, equal_nan=True)


def behind(generator, *, dtype, queries=100, keys=340):
    shapes = [(2, 6, queries, 16), (2, 3, keys, 16), (2, 3, keys, 12)]
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def test_rows_after_a_cache_are_one_block_where_two_calls_may_be_merged() -> None:
    query, key = torch.zeros(1, 1, 100, 4), torch.zeros(1, 1, 340, 4)
    bound = ScoreRule(mask=causal_mask(), query_start=240).bind(query, key)
    assert [block.kind for block in fused._plan(bound, merges=True)] == ["continued"]
    assert {block.kind for block in fused._plan(bound)} == {"biased"}
    for other in (
        ScoreRule(mask=causal_mask(), query_start=200),  # keys follow that no row sees
        ScoreRule(mask=causal_mask() & sliding_window_mask(9), query_start=240),
        ScoreRule(mask=causal_mask(), bias=torch.zeros(340), query_start=240),
        ScoreRule(mask=causal_mask(), query_start=torch.tensor([240])),
    ):
        kinds = {block.kind for block in fused._plan(other.bind(query, key), merges=True)}
        assert "continued" not in kinds


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_rows_after_a_cache_are_those_of_the_whole(dtype, generator) -> None:
    query, key, value = behind(generator, dtype=dtype)
    given = {"mask": causal_mask(), "query_start": 240}
    ours = attention(query, key, value, **given, impl="fused")
    truth = attention(*(x.double() for x in (query, key, value)), **given, impl="reference")
    assert ours.context.dtype == dtype
    if dtype is torch.float64:
        assert_double(ours.context, truth.context)
        assert_double(ours.logsumexp, truth.logsumexp)
    plain = torch.nn.functional.scaled_dot_product_attention(
        query,
        key.repeat_interleave(2, 1),
        value.repeat_interleave(2, 1),
        attn_mask=causal_mask().tile(torch.arange(240, 340), torch.arange(340))[0, 0],
    )
    error, usual = ((x.double() - truth.context).abs().max() for x in (ours.context, plain))
    eps = 2.0**-7 if dtype is torch.bfloat16 else 2.0**-23
    assert error <= 1.5 * usual + 2 * eps * truth.context.abs().max()


def test_gradients_go_through_both_calls(generator) -> None:
    drawn = behind(generator, dtype=torch.float64, queries=70, keys=90)
    given = {"mask": causal_mask(), "query_start": 20}
    found = []
    for impl in ("fused", "reference"):
        leaves = [x.clone().requires_grad_() for x in drawn]
        made = attention(*leaves, **given, impl=impl)
        (made.context.square().sum() + made.logsumexp.sin().sum()).backward()
        found.append([x.grad for x in leaves])
    for ours, truth in zip(*found, strict=True):
        assert_double(ours, truth)


@pytest.mark.parametrize("place", ["key", "value"])
@pytest.mark.parametrize("broken", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("at", [slice(3, 4), slice(0, 240), slice(300, 301), slice(339, 340)])
def test_what_is_broken_reaches_the_rows_that_see_it(place, broken, at, generator) -> None:
    query, key, value = behind(generator, dtype=torch.float32)
    call = {"query": query.abs(), "key": key, "value": value}
    call[place][:, 0, at] = broken
    given = {"mask": causal_mask(), "query_start": 240}
    made = attention(**call, **given, impl="fused")
    exact = attention(**call, **given, impl="reference")
    torch.testing.assert_close(made.context, exact.context, equal_nan=True)
    torch.testing.assert_close(made.logsumexp, exact.logsumexp, equal_nan=True)
