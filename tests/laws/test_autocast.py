"""Under autocast A is exact for the Q and K that were used, computed in float32."""

import pytest
import torch
from torch import Tensor

from clearhead.masks import causal_mask
from clearhead.pipeline import fused
from clearhead.pipeline.attention import attention
from clearhead.pipeline.result import AttentionResult
from tests.accuracy import Yardstick
from tests.laws.calls import Drawn, draw

HALF = [torch.bfloat16, torch.float16]
IMPLEMENTATIONS = ["auto", "tiles", "reference"]
ALLOWED = torch.ones(40, 40).tril().bool()


def _under_autocast(call: Drawn, dtype: torch.dtype, **parts: object) -> AttentionResult:
    with torch.autocast("cpu", dtype=dtype):
        return attention(*call.tensors, mask=causal_mask(), **parts)


def _rounded(call: Drawn, dtype: torch.dtype) -> Drawn:
    return Drawn(*(tensor.to(dtype) for tensor in call.tensors))


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_autocast_is_the_call_with_rounded_inputs(
    dtype: torch.dtype, impl: str, generator: torch.Generator
) -> None:
    call = draw(generator, n=40, d_k=16, d_v=32)
    inside = _under_autocast(call, dtype, impl=impl)
    outside = attention(*_rounded(call, dtype).tensors, mask=causal_mask(), impl=impl)
    assert inside.context.dtype == dtype
    assert inside.logsumexp.dtype == inside.weights.dtype == torch.float32
    assert torch.equal(inside.context, outside.context)
    assert torch.equal(inside.logsumexp, outside.logsumexp)
    assert torch.equal(inside.weights.to_dense(), outside.weights.to_dense())
    yardstick = Yardstick(*_rounded(call, dtype).tensors, allowed=ALLOWED)
    yardstick.assert_context(inside.context)
    yardstick.assert_logsumexp(inside.logsumexp)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_what_is_read_under_autocast_is_as_exact_as_outside(
    dtype: torch.dtype, impl: str, generator: torch.Generator
) -> None:
    """A matrix product inside autocast would be rounded to 16 bits; nothing here is."""
    call = draw(generator, n=40)
    vectors = torch.randn(2, 4, 40, 3, generator=generator)
    result = _under_autocast(call, dtype, impl=impl)

    def read() -> list[Tensor]:
        weights, top = result.weights, result.weights.top_keys(3)
        return [
            *(weights[0, 1, 30], result.scores[1, 2].to_dense(), result.raw_scores[1, 2, 5]),
            *(weights.matvec(vectors), weights.received(), weights.entropy()),
            *(top.keys, top.weights, weights.pooled(4, reduce="sum").values),
        ]

    with torch.autocast("cpu", dtype=dtype):
        inside = read()
    for mine, outside in zip(inside, read(), strict=True):
        assert mine.dtype in {torch.float32, torch.int64}
        assert torch.equal(mine, outside)


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_a_row_of_a_is_the_float64_softmax_of_the_rounded_q_and_k(
    dtype: torch.dtype, generator: torch.Generator
) -> None:
    call = draw(generator, n=40)
    weights = _under_autocast(call, dtype).weights.to_dense()
    query, key, _ = _rounded(call, dtype).double
    scores = (query @ key.repeat_interleave(2, 1).mT * 8**-0.5).masked_fill(~ALLOWED, -torch.inf)
    assert float((weights - scores.softmax(-1)).abs().max()) < 5e-6


@pytest.mark.parametrize("parts", ["bias", "soft-cap and sinks"])
def test_gradients_through_autocast_are_those_without_it(
    parts: str, generator: torch.Generator
) -> None:
    call = draw(generator, n=40, dtype=torch.bfloat16)
    bias = torch.randn(4, 40, 40, generator=generator)
    sinks = torch.randn(4, generator=generator)
    extra = {"bias": {"bias": bias}, "soft-cap and sinks": {"softcap": 2.0, "sinks": sinks}}[parts]

    def gradients(*, inside: bool) -> tuple[Tensor, ...]:
        leaves = call.leaves()
        learned = {
            name: p.clone().requires_grad_() if isinstance(p, Tensor) else p
            for name, p in extra.items()
        }
        asked = (*leaves.tensors, *(p for p in learned.values() if isinstance(p, Tensor)))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=inside):
            result = attention(*leaves.tensors, mask=causal_mask(), **learned)
            loss = result.context.float().square().sum() + result.logsumexp.sum()
        return torch.autograd.grad(loss, asked)

    for mine, outside in zip(gradients(inside=True), gradients(inside=False), strict=True):
        assert torch.equal(mine, outside)


def test_float64_stays_float64(generator: torch.Generator) -> None:
    call = draw(generator, n=5, dtype=torch.float64)
    for impl in IMPLEMENTATIONS:
        inside = _under_autocast(call, torch.bfloat16, impl=impl)
        outside = attention(*call.tensors, mask=causal_mask(), impl=impl)
        assert inside.context.dtype == torch.float64
        assert torch.equal(inside.context, outside.context)


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_beside_a_sink_c_is_rounded_once_where_kernels_keep_l_too(
    dtype: torch.dtype, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused, "gives_logsumexp", lambda _device: False)
    call, sinks = draw(generator, n=40), torch.randn(4, generator=generator)
    inside = _under_autocast(call, dtype, sinks=sinks)
    outside = attention(*_rounded(call, dtype).tensors, mask=causal_mask(), sinks=sinks)
    assert torch.equal(inside.context, outside.context)
    assert torch.equal(inside.logsumexp, outside.logsumexp)
