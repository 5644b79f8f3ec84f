"""What ``attention`` takes, what it refuses, and that it says which implementation served."""

from typing import Any

import numpy as np
import pytest
import torch

import clearhead as ch
from clearhead.errors import InputError, ShapeError, UnsupportedError
from clearhead.pipeline.attention import attention
from clearhead.pipeline.rule import ScoreRule
from tests.laws.calls import MASKS, draw


def _refused(error: type[Exception], *tensors: Any, **options: Any) -> str:
    with pytest.raises(error) as caught:
        attention(*tensors, **options)
    return str(caught.value)


def test_every_mismatch_stands_in_one_message() -> None:
    query, key, value = torch.zeros(2, 4, 5, 8), torch.zeros(2, 3, 6, 7), torch.zeros(1, 3, 9, 8)
    assert _refused(ShapeError, query, key, value) == (
        "attention(query (2, 4, 5, 8), key (2, 3, 6, 7), value (1, 3, 9, 8)) does not fit "
        "together, 4 faults:\n"
        "  - batch sizes must agree, got 2, 2 and 1\n"
        "  - query heads must be a multiple of key heads, got 4 and 3\n"
        "  - key and value must be equally long, got 6 and 9\n"
        "  - query and key must be equally wide, got 8 and 7"
    )


def test_axes_and_dtypes_are_checked_first() -> None:
    query, key = torch.zeros(4, 5, 8), torch.zeros(5, 8)
    said = _refused(ShapeError, query, key, torch.zeros(4, 5, 8, dtype=torch.float64))
    assert "key must have as many axes as query, 3, got 2" in said
    assert "value must have query's dtype, torch.float32, got torch.float64" in said


def test_a_positional_mask_wants_to_know_where_the_queries_stand(
    generator: torch.Generator,
) -> None:
    call = draw(generator, n=2, m=6)
    said = _refused(ch.MaskError, *call.tensors, mask=ch.causal_mask())
    assert "query_start" in said
    last_two = attention(*call.tensors, mask=ch.causal_mask(), query_start=4)
    assert last_two.weights[0, 0, 0, 5] == 0
    assert last_two.weights[0, 0, 1, 5] > 0


def test_statistics_and_implementations_are_named() -> None:
    zeros = torch.zeros(3, 4)
    assert _refused(InputError, zeros, zeros, zeros, observe=("median",)) == (
        "observe must name some of received, entropy, top_keys, pooled; got median"
    )
    assert _refused(InputError, zeros, zeros, zeros, observe="received") == (
        "observe must be a tuple or list of names, got the text 'received'"
    )
    assert _refused(InputError, zeros, zeros, zeros, impl="fast") == (
        "impl must be 'auto', 'fused', 'tiles' or 'reference', got 'fast'"
    )
    assert _refused(UnsupportedError, zeros, zeros, zeros, impl="fused", softcap=2.0) == (
        "impl='fused' cannot serve this call: no kernel applies a soft-cap; impl='tiles' does, "
        "in linear memory"
    )


def test_a_rule_is_given_whole_or_in_parts() -> None:
    zeros = torch.zeros(3, 4)
    said = _refused(InputError, zeros, zeros, zeros, rule=ScoreRule(), scale=1.0, softcap=2.0)
    assert said == "give either rule= or its parts, not both: got rule and scale, softcap"


def test_auto_says_what_it_chose(generator: torch.Generator) -> None:
    call = draw(generator)
    assert attention(*call.tensors).implementation == "fused"
    assert attention(*call.tensors, softcap=1.0).implementation == "tiles"
    assert attention(*call.tensors, impl="reference").implementation == "reference"


@pytest.mark.parametrize("axes", [2, 3, 4])
def test_the_result_has_the_axes_of_the_query(axes: int, generator: torch.Generator) -> None:
    call = draw(generator, batch=1, heads=1, kv_heads=1, n=5, m=7, d_v=6)
    tensors = [t.reshape(t.shape[4 - axes :]) for t in call.tensors]
    result = attention(*tensors)
    lead = (1,) * (axes - 2)
    assert result.context.shape == (*lead, 5, 6)
    assert result.logsumexp.shape == (*lead, 5)
    assert result.weights.shape == (*lead, 5, 7)
    assert result.scores.shape == (*lead, 5, 7)
    assert result.weights.to_dense().shape == (*lead, 5, 7)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_takes_the_dtype_of_the_model(
    dtype: torch.dtype, generator: torch.Generator
) -> None:
    call = draw(generator, n=20)
    with torch.autocast("cpu", dtype=dtype):
        result = attention(*call.tensors, mask=ch.causal_mask())
        weights = result.weights.to_dense()
    assert result.context.dtype == dtype
    assert weights.dtype == torch.float32
    low = [tensor.to(dtype) for tensor in call.tensors]
    assert torch.equal(result.context, attention(*low, mask=ch.causal_mask()).context)
    exact = attention(*(tensor.double() for tensor in low), mask=ch.causal_mask(), impl="reference")
    # the error of one row's products, sum and exponential in float32
    assert (weights - exact.weights.to_dense()).abs().max() <= 20 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("kind", MASKS)
def test_two_runs_have_the_same_bits(kind: str, generator: torch.Generator) -> None:
    call = draw(generator, n=40)
    first, second = (attention(*call.tensors, mask=MASKS[kind](40)) for _ in range(2))
    assert torch.equal(first.context, second.context)
    assert torch.equal(first.logsumexp, second.logsumexp)


@pytest.mark.parametrize("n", [1, 5, 300])
def test_neighbours_in_the_batch_never_matter(n: int, generator: torch.Generator) -> None:
    call = draw(generator, n=n)
    both = attention(*call.tensors, mask=ch.causal_mask())
    for row in range(2):
        alone = attention(*(t[row : row + 1] for t in call.tensors), mask=ch.causal_mask())
        assert torch.equal(alone.context[0], both.context[row])
        assert torch.equal(alone.logsumexp[0], both.logsumexp[row])


def test_a_causal_call_has_the_bits_of_pytorch_s_own(generator: torch.Generator) -> None:
    call = draw(generator, n=300, d_k=64, d_v=64)
    theirs = torch.nn.functional.scaled_dot_product_attention(
        *call.tensors, is_causal=True, enable_gqa=True
    )
    assert torch.equal(attention(*call.tensors, mask=ch.causal_mask()).context, theirs)


def test_weights_draw_themselves(generator: torch.Generator) -> None:
    result = attention(*(t[0, :1] for t in draw(generator, kv_heads=4).tensors))
    np.testing.assert_allclose(np.asarray(result.weights).sum(-1), 1, rtol=1e-6)


def test_a_misspelt_statistic_is_found_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("clearhead.pipeline.attention.compute", never)
    zeros = torch.zeros(3, 4)
    assert "got recieved" in _refused(InputError, zeros, zeros, zeros, observe=("recieved",))


def test_a_rule_is_a_rule() -> None:
    zeros = torch.zeros(3, 4)
    assert _refused(InputError, zeros, zeros, zeros, rule={"scale": 1}) == (
        "rule must be a ScoreRule, got dict"
    )


def test_autocast_rounds_no_integers() -> None:
    ones = torch.ones(3, 4, dtype=torch.int64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        said = _refused(ShapeError, ones, ones, ones)
    assert "query must be float64, float32, bfloat16 or float16, got torch.int64" in said


def test_the_bias_is_where_the_query_is() -> None:
    zeros = torch.zeros(3, 4)
    assert _refused(ShapeError, zeros, zeros, zeros, bias=torch.zeros(3, device="meta")) == (
        "the score rule does not fit the call: bias must be on query's device, cpu, got meta"
    )


def test_a_rule_is_bound_once_for_calls_alike(generator, monkeypatch) -> None:
    bound = []
    real = ScoreRule.bind
    monkeypatch.setattr(ScoreRule, "bind", lambda *given: bound.append(0) or real(*given))
    rule = ScoreRule(mask=ch.causal_mask())
    draws = [draw(generator, n=n) for n in (5, 5, 7, 5)]
    for call in draws:
        made = attention(*call.tensors, rule=rule)
        exact = attention(*call.tensors, mask=ch.causal_mask(), impl="reference")
        torch.testing.assert_close(made.context, exact.context)
    # what asked the reference has rules of its own
    assert len(bound) == 3 + len(draws)


def test_a_remembered_rule_does_not_remember_numbers(generator) -> None:
    bias, start = torch.zeros(6, 6), torch.tensor([2, 3])
    query, key, value = (torch.randn(2, 2, 6, 4, generator=generator) for _ in range(3))
    biased = ScoreRule(bias=bias)
    placed = ScoreRule(mask=ch.causal_mask(), query_start=start)
    for rule in (biased, placed):
        attention(query, key, value, rule=rule)
    bias[:, 3:] = -torch.inf
    start -= 1
    for rule in (biased, placed):
        again = attention(query, key, value, rule=rule)
        fresh = attention(query, key, value, rule=ScoreRule(None, None, *_parts(rule)))
        assert torch.equal(again.context, fresh.context)
        assert torch.equal(again.weights.to_dense(), fresh.weights.to_dense())


def test_a_remembered_rule_does_not_forget_gradients(generator) -> None:
    bias = torch.zeros(6, 6, requires_grad=True)
    rule = ScoreRule(bias=bias)
    query, key, value = (torch.randn(1, 1, 6, 4, generator=generator) for _ in range(3))
    with torch.no_grad():
        attention(query, key, value, rule=rule)
    attention(query, key, value, rule=rule).context.sum().backward()
    assert bias.grad is not None


def _parts(rule: ScoreRule) -> tuple[Any, ...]:
    return rule.bias, rule.mask, rule.sinks, rule.query_start


def test_another_kind_of_call_is_refused_though_the_sizes_were_seen(generator) -> None:
    rule = ScoreRule()
    query, key, value = (torch.randn(1, 1, 6, 4, generator=generator) for _ in range(3))
    attention(query, key, value, rule=rule)
    with pytest.raises(ShapeError, match=r"value must have query's dtype"):
        attention(query, key, value.double(), rule=rule)
    with pytest.raises(InputError, match="impl must be"):
        attention(query, key, value, rule=rule, impl="none")
