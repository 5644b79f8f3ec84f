"""The rule that judges every number must itself pass what is right and fail what is wrong."""

import pytest
import torch
from torch import Tensor

from tests.accuracy import (
    Yardstick,
    assert_context_accurate,
    assert_double,
    assert_logsumexp_accurate,
    plain_attention,
)

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


def _call(generator: torch.Generator, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    query = torch.randn(2, 4, 5, 16, generator=generator)
    key, value = torch.randn(2, 2, 2, 7, 16, generator=generator)
    return query.to(dtype), key.to(dtype), value.to(dtype)


def _ours(*call: Tensor, **rule: object) -> tuple[Tensor, Tensor]:
    """A path as good as a kernel: float32 inside, rounded once at the end; L stays float32."""
    wide = torch.float64 if call[0].dtype == torch.float64 else torch.float32
    result = plain_attention(*(x.to(wide) for x in call), **rule)
    return result.context.to(call[0].dtype), result.logsumexp


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_right_result_passes(dtype: torch.dtype, generator: torch.Generator) -> None:
    call = _call(generator, dtype)
    context, logsumexp = _ours(*call)
    yardstick = Yardstick(*call)
    yardstick.assert_context(context)
    yardstick.assert_logsumexp(logsumexp)


def test_every_part_of_the_rule_reaches_plain_attention(generator: torch.Generator) -> None:
    query, key, value = _call(generator, torch.float64)
    bias = torch.randn(4, 5, 7, generator=generator, dtype=torch.float64)
    allowed = torch.rand(5, 7, generator=generator) < 0.7
    allowed[2] = False
    sinks = torch.randn(4, generator=generator, dtype=torch.float64)
    found = plain_attention(
        query, key, value, scale=0.3, softcap=2.0, bias=bias, allowed=allowed, sinks=sinks
    )
    for b, h, i in [(0, 0, 0), (1, 3, 4), (0, 2, 2)]:
        scores = [
            2.0 * torch.tanh(0.3 * query[b, h, i] @ key[b, h // 2, j] / 2.0) + bias[h, i, j]
            for j in range(7)
            if allowed[i, j]
        ]
        total = torch.stack([s.exp() for s in [*scores, sinks[h]]]).sum()
        seen = [j for j in range(7) if allowed[i, j]]
        context = sum(
            (s.exp() / total * value[b, h // 2, j] for s, j in zip(scores, seen, strict=True)),
            start=torch.zeros(16, dtype=torch.float64),
        )
        assert_double(found.context[b, h, i], context)
        assert_double(found.logsumexp[b, h, i], total.log())


def test_a_row_that_sees_nothing_is_zero(generator: torch.Generator) -> None:
    allowed = torch.tensor([[False], [True], [True], [True], [True]])
    found = plain_attention(*_call(generator, torch.float32), allowed=allowed)
    assert found.context[:, :, 0].eq(0).all()
    assert found.weights[:, :, 0].eq(0).all()
    assert torch.isneginf(found.logsumexp[:, :, 0]).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_small_error_in_one_row_of_one_head_fails(
    dtype: torch.dtype, generator: torch.Generator
) -> None:
    call = _call(generator, dtype)
    yardstick = Yardstick(*call)
    context, logsumexp = _ours(*call)
    eps = {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10, torch.float64: 2.0**-36}
    step = 40 * eps.get(dtype, 2.0**-23)
    context[1, 2, 3] += step * yardstick.truth.context[1, 2].abs().max().to(dtype)
    logsumexp[1, 2, 3] += max(step, 2e-4) * yardstick.truth.logsumexp[1, 2].abs().max().clamp(min=1)
    with pytest.raises(AssertionError, match=r"1 of 8 .*\n  \(1, 2\): E\(ours\) .* at \(3, \d+\)"):
        yardstick.assert_context(context)
    with pytest.raises(AssertionError, match=r"1 of 8 .*\n  \(1, 2\): E\(ours\) .* at \(3,\)"):
        yardstick.assert_logsumexp(logsumexp)


@pytest.mark.parametrize(
    "wrong", [{"scale": 0.26}, {"softcap": 50.0}, {"sinks": torch.full((4,), -8.0)}], ids=str
)
def test_a_rule_that_is_slightly_wrong_fails(
    wrong: dict[str, object], generator: torch.Generator
) -> None:
    call = _call(generator, torch.float32)
    context, logsumexp = _ours(*call, **wrong)
    with pytest.raises(AssertionError, match="E\\(ours\\)"):
        Yardstick(*call).assert_context(context)
    with pytest.raises(AssertionError, match="E\\(ours\\)"):
        Yardstick(*call).assert_logsumexp(logsumexp)


def test_l_in_base_two_fails(generator: torch.Generator) -> None:
    call = _call(generator, torch.bfloat16)
    _, logsumexp = _ours(*call)
    with pytest.raises(AssertionError, match="5e-5"):
        Yardstick(*call).assert_logsumexp(logsumexp / torch.tensor(2.0).log())


def test_the_order_of_the_sums_is_no_fault(generator: torch.Generator) -> None:
    for _ in range(20):
        call = _call(generator, torch.float32)
        yardstick = Yardstick(*call)
        other = yardstick.call.reordered(1).run()
        yardstick.assert_context(other.context)
        yardstick.assert_logsumexp(other.logsumexp)


def test_nan_and_infinity_must_stand_where_the_truth_has_them() -> None:
    truth = torch.tensor([[[[1.0, torch.nan], [torch.inf, -torch.inf]]]], dtype=torch.float64)
    ours = truth.float()
    assert_context_accurate(ours, ours, truth)
    for where, value in [((0, 1), 0.0), ((1, 0), torch.nan), ((1, 1), torch.inf), ((0, 0), -1e9)]:
        wrong = ours.clone()
        wrong[(0, 0, *where)] = value
        with pytest.raises(AssertionError, match="context"):
            assert_context_accurate(wrong, ours, truth)


def test_the_finite_rest_is_compared_beside_a_row_that_sees_nothing() -> None:
    truth = torch.tensor([[-torch.inf, 2.0]], dtype=torch.float64)
    plain = truth.float()
    assert_logsumexp_accurate(plain, plain, truth, dtype=torch.float32)
    with pytest.raises(AssertionError, match=r"logsumexp, torch\.float32: 1 of 1"):
        assert_logsumexp_accurate(plain + 1e-5, plain, truth, dtype=torch.float32)
    with pytest.raises(
        AssertionError, match=r"-inf wrong or missing at 1: \(0, 0\): 0, truth -inf"
    ):
        assert_logsumexp_accurate(plain.nan_to_num(neginf=0.0), plain, truth, dtype=torch.float32)


def test_shapes_and_dtypes_must_agree(generator: torch.Generator) -> None:
    call = _call(generator, torch.float32)
    yardstick = Yardstick(*call)
    with pytest.raises(AssertionError, match=r"expected shape \(2, 4, 5, 16\), got \(4, 5, 16\)"):
        yardstick.assert_context(yardstick.truth.context[0].float())
    with pytest.raises(AssertionError, match=r"expected torch.float32, got torch.float64"):
        yardstick.assert_context(yardstick.truth.context)
    with pytest.raises(AssertionError, match="result: expected float64"):
        assert_double(torch.ones(2), torch.ones(2))


@pytest.mark.parametrize("sizes", [(0, 3, 4, 5), (1, 2, 0, 5), (1, 2, 4, 0)], ids=str)
def test_nothing_has_no_error(sizes: tuple[int, ...]) -> None:
    batch, heads, n, m = sizes
    call = torch.ones(batch, heads, n, 8), *torch.ones(2, batch, heads, m, 8)
    yardstick = Yardstick(*call)
    yardstick.assert_context(torch.zeros(batch, heads, n, 8))
    yardstick.assert_logsumexp(
        torch.full((batch, heads, n), 8**0.5 if m else -torch.inf)
        + (torch.tensor(float(max(m, 1))).log())
    )


def test_one_head_without_a_batch_axis(generator: torch.Generator) -> None:
    query, key, value = torch.randn(3, 6, 16, generator=generator)
    yardstick = Yardstick(query, key, value)
    yardstick.assert_context(_ours(query, key, value)[0])
    with pytest.raises(AssertionError, match=r"  \(\): E\(ours\)"):
        yardstick.assert_context(_ours(query, key, value)[0] * 1.001)
