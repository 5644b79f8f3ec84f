"""The tap by itself: who sees what, in which order, and that it is gone when nobody asks."""

import threading
from dataclasses import dataclass, field, replace

import pytest
import torch

from clearhead.errors import TraceError
from clearhead.masks import causal_mask
from clearhead.pipeline.attention import attention
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tap import TAPPED, Site, Tap, attend, tapping, visit

SITE = Site(2, "self", "layers.2.attention")
CAUSAL = ScoreRule(mask=causal_mask())


@dataclass
class Noting(Tap):
    """Writes down a name for all that passes."""

    name: str = ""
    seen: list[str] = field(default_factory=list)

    def visit(self, site, quantity, value):
        self.seen.append(f"{self.name}{site.layer} {quantity}")
        return value

    def rule(self, site, rule):
        self.seen.append(f"{self.name}{site.layer} rule")
        return rule


@dataclass
class Changing(Tap):
    """Puts something else in the place of one quantity."""

    quantity: str
    change: object

    def visit(self, site, quantity, value):
        del site
        return self.change(value) if quantity == self.quantity else value


@pytest.fixture
def qkv(generator):
    query = torch.randn(2, 4, 5, 8, generator=generator)
    key = torch.randn(2, 2, 5, 8, generator=generator)
    value = torch.randn(2, 2, 5, 6, generator=generator)
    return query, key, value


def test_without_a_tap_nothing_happens(qkv):
    x = torch.ones(1, 2, 3)
    assert visit(SITE, "output", x) is x
    result, plain = attend(*qkv, rule=CAUSAL, site=SITE), attention(*qkv, rule=CAUSAL)
    assert torch.equal(result.context, plain.context)
    assert torch.equal(result.logsumexp, plain.logsumexp)


def test_a_tap_that_overrides_nothing_changes_nothing(qkv):
    plain = attend(*qkv, rule=CAUSAL, site=SITE)
    with tapping(Tap()):
        assert torch.equal(attend(*qkv, rule=CAUSAL, site=SITE).context, plain.context)
        x = torch.ones(1, 2, 3)
        assert visit(SITE, "output", x) is x


def test_quantities_pass_in_the_order_that_is_written_down(qkv):
    tap = Noting()
    x = torch.ones(2, 5, 3)
    with tapping(tap):
        visit(SITE, "attention_input", x)
        attend(*qkv, rule=CAUSAL, site=SITE)
        visit(SITE, "output", x)
    passed = [f"2 {name}" for name in TAPPED]
    assert tap.seen == [*passed[:4], "2 rule", *passed[4:]]


def test_taps_are_passed_in_the_order_given_and_inner_ones_last(qkv):
    seen = []
    first, second, inner = (Noting(name, seen) for name in ("a", "b", "c"))
    with tapping(first, second), tapping(inner):
        visit(SITE, "output", torch.ones(1))
    assert seen == ["a2 output", "b2 output", "c2 output"]


def test_taps_are_gone_afterwards_even_after_an_exception():
    tap = Noting()
    with pytest.raises(ZeroDivisionError), tapping(tap):
        raise ZeroDivisionError
    with tapping(), pytest.raises(ZeroDivisionError), tapping(tap):
        raise ZeroDivisionError
    visit(SITE, "output", torch.ones(1))
    assert tap.seen == []


def test_another_thread_does_not_pass_this_threads_taps():
    tap = Noting()
    with tapping(tap):
        thread = threading.Thread(target=visit, args=(SITE, "output", torch.ones(1)))
        thread.start()
        thread.join()
    assert tap.seen == []


@pytest.mark.parametrize("quantity", ["query", "key", "value"])
def test_a_replaced_input_is_what_is_attended_with(quantity, qkv):
    query, key, value = qkv
    given = {"query": query, "key": key, "value": value}
    expected = attention(**{**given, quantity: 2 * given[quantity]}, rule=CAUSAL)
    with tapping(Changing(quantity, lambda x: 2 * x)):
        got = attend(*qkv, rule=CAUSAL, site=SITE)
    assert torch.equal(got.context, expected.context)
    assert torch.equal(got.logsumexp, expected.logsumexp)
    assert torch.equal(got.weights.to_dense(), expected.weights.to_dense())


def test_a_replaced_rule_is_the_one_that_is_followed(qkv):
    tap = Tap()
    tap.rule = lambda _site, rule: replace(rule, mask=None, scale=0.1)
    with tapping(tap):
        got = attend(*qkv, rule=CAUSAL, site=SITE)
    assert torch.equal(got.context, attention(*qkv, scale=0.1).context)


def test_a_replaced_context_is_what_comes_back_and_the_rest_stays(qkv):
    plain = attention(*qkv, rule=CAUSAL)
    with tapping(Changing("context", torch.zeros_like)):
        got = attend(*qkv, rule=CAUSAL, site=SITE)
    assert not got.context.any()
    assert torch.equal(got.logsumexp, plain.logsumexp)


@pytest.mark.parametrize(
    ("change", "got"),
    [
        (lambda x: x[:, :1], "((1, 1), torch.float32, device(type='cpu'))"),
        (lambda x: x.double(), "((1, 2), torch.float64, device(type='cpu'))"),
        (lambda x: x.to("meta"), "((1, 2), torch.float32, device(type='meta'))"),
    ],
)
def test_a_replacement_keeps_shape_dtype_and_device(change, got):
    with tapping(Changing("output", change)), pytest.raises(TraceError) as caught:
        visit(SITE, "output", torch.ones(1, 2))
    expected = "((1, 2), torch.float32, device(type='cpu'))"
    assert str(caught.value) == (
        "a replacement of output in layer 2 (layers.2.attention) must keep shape, dtype and "
        f"device {expected}, got {got}"
    )


def test_logsumexp_may_be_read_and_not_replaced(qkv):
    with tapping(Changing("logsumexp", torch.clone)), pytest.raises(TraceError) as caught:
        attend(*qkv, rule=CAUSAL, site=SITE)
    assert str(caught.value) == (
        "logsumexp of layer 2 (layers.2.attention) is only for reading: "
        "replace query, key, value, context or the rule instead"
    )


def test_under_autocast_what_passes_is_what_is_used(qkv):
    seen = {}

    class Keeping(Tap):
        def visit(self, site, quantity, value):
            del site
            seen[quantity] = value
            return value

    with torch.autocast("cpu", torch.bfloat16), tapping(Keeping()):
        result = attend(*qkv, rule=CAUSAL, site=SITE)
    assert {seen[name].dtype for name in ("query", "key", "value")} == {torch.bfloat16}
    rounded = [seen[name] for name in ("query", "key")]
    scores = (rounded[0].double() @ rounded[1].double().repeat_interleave(2, 1).mT) / 8**0.5
    scores = scores.masked_fill(~torch.ones(5, 5).tril().bool(), -torch.inf)
    assert (scores.logsumexp(-1) - seen["logsumexp"]).abs().max() < 5e-5 * scores[0].abs()[
        scores[0].isfinite()
    ].max().clamp(min=1)
    assert result.weights.to_dense().sum(-1) == pytest.approx(torch.ones(2, 4, 5), abs=1e-4)


def test_gradients_pass_a_reading_tap(qkv):
    leaves = [x.clone().requires_grad_() for x in qkv]
    plain = [x.clone().requires_grad_() for x in qkv]
    with tapping(Noting()):
        attend(*leaves, rule=CAUSAL, site=SITE).context.sum().backward()
    attention(*plain, rule=CAUSAL).context.sum().backward()
    for ours, expected in zip(leaves, plain, strict=True):
        assert torch.equal(ours.grad, expected.grad)


def test_sites_are_values():
    assert Site(1, "self", "a") == Site(1, "self", "a")
    assert len({Site(1, "self", "a"), Site(1, "cross", "a"), Site(1, "self", "a")}) == 2
