"""Who serves a call, and what is settled after whoever did."""

import pytest
import torch

from clearhead.errors import InputError, UnsupportedError
from clearhead.masks import Mask, causal_mask
from clearhead.pipeline.attention import attention
from clearhead.pipeline.dispatch import choose, compute
from clearhead.pipeline.reference import reference
from clearhead.pipeline.rule import ScoreRule
from tests.accuracy import assert_double
from tests.laws.calls import draw

IMPLS = ["fused", "tiles", "reference"]


def test_auto_takes_the_kernel_where_it_can(generator):
    call = draw(generator)
    plain = ScoreRule(mask=causal_mask()).bind(call.query, call.key)
    capped = ScoreRule(softcap=2.0).bind(call.query, call.key)
    assert [choose(impl, plain) for impl in ("auto", *IMPLS)] == ["fused", *IMPLS]
    assert [choose(impl, capped) for impl in ("auto", *IMPLS[1:])] == ["tiles", *IMPLS[1:]]
    with pytest.raises(UnsupportedError) as unsupported:
        choose("fused", capped)
    assert str(unsupported.value) == (
        "impl='fused' cannot serve this call: no kernel applies a soft-cap; "
        "impl='tiles' does, in linear memory"
    )
    with pytest.raises(InputError) as unknown:
        choose("flash", plain)
    assert str(unknown.value) == (
        "impl must be 'auto', 'fused', 'tiles' or 'reference', got 'flash'"
    )


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize(
    "size",
    [{"batch": 0}, {"heads": 0, "kv_heads": 0}, {"n": 0}, {"m": 0}, {"d_k": 0}, {"d_v": 0}],
    ids=lambda size: next(iter(size)),
)
def test_an_axis_of_nothing_gives_nothing_and_keeps_the_graph(generator, size, impl):
    sizes = {"batch": 2, "heads": 4, "kv_heads": 2, "n": 3, "m": 5, "d_k": 4, "d_v": 6, **size}
    call = draw(generator, **sizes, dtype=torch.float64).leaves()
    result = attention(*call.tensors, impl=impl)
    rows = tuple(sizes[axis] for axis in ("batch", "heads", "n"))
    assert result.context.shape == (*rows, sizes["d_v"])
    assert result.logsumexp.shape == rows
    assert result.context.dtype == result.logsumexp.dtype == torch.float64
    if sizes["m"] == 0:
        assert torch.equal(result.context, torch.zeros(*rows, 6).double())
        assert result.logsumexp.isneginf().all()
    steps = reference(*call.tensors, rule=ScoreRule().bind(call.query, call.key))
    assert_double(result.context, steps.context)
    assert_double(result.logsumexp, steps.logsumexp)
    result.context.sum().backward()
    for tensor in call.tensors:
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
        if 0 in (*rows, sizes["m"]):
            assert not tensor.grad.any()


@pytest.mark.parametrize("impl", IMPLS)
def test_sinks_take_their_share_and_empty_rows_are_settled(generator, impl):
    call = draw(generator, dtype=torch.float64).leaves()
    sinks = torch.randn(4, generator=generator, dtype=torch.float64).requires_grad_()
    allowed = torch.rand(2, 4, 6, 6, generator=generator) < 0.5
    allowed[:, :, 2] = False
    allowed[:, :, 3] = True
    result = attention(*call.tensors, mask=Mask.from_tensor(allowed), sinks=sinks, impl=impl)

    key, value = (t.repeat_interleave(2, 1) for t in (call.key, call.value))
    scores = (call.query @ key.mT / 8**0.5).masked_fill(~allowed, -torch.inf)
    column = sinks[:, None, None].expand(2, 4, 6, 1)
    logits = torch.cat([scores, column], -1)
    empty = ~allowed.any(-1)
    context = logits.softmax(-1)[..., :6] @ value
    assert_double(result.context, context)
    assert_double(result.logsumexp, logits.logsumexp(-1).masked_fill(empty, -torch.inf))
    assert not result.context[empty].any()

    leaves = (*call.tensors, sinks)
    pull = torch.randn(context.shape, generator=generator, dtype=torch.float64)
    ours = torch.autograd.grad((result.context * pull).sum(), leaves)
    theirs = torch.autograd.grad((context * pull).sum(), leaves)
    for found, truth in zip(ours, theirs, strict=True):
        assert_double(found, truth)


@pytest.mark.parametrize("impl", IMPLS)
def test_a_bias_of_minus_infinity_empties_a_row(generator, impl):
    call = draw(generator)
    bias = torch.zeros(6, 6)
    bias[4] = -torch.inf
    result = attention(*call.tensors, bias=bias, impl=impl)
    assert torch.equal(result.context[:, :, 4], torch.zeros(2, 4, 8))
    assert result.logsumexp[:, :, 4].isneginf().all()
    others = [0, 1, 2, 3, 5]
    plain = attention(*call.tensors, impl="reference").context
    torch.testing.assert_close(result.context[:, :, others], plain[:, :, others])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_reference_computes_wide_and_rounds_once(generator, dtype):
    call = draw(generator, dtype=dtype)
    rule = ScoreRule(mask=causal_mask()).bind(call.query, call.key)
    context, level = compute(*call.tensors, rule=rule, impl="reference")
    single = [tensor.float() for tensor in call.tensors]
    steps = reference(*single, rule=rule)
    assert context.dtype == dtype
    assert level.dtype == torch.float32
    assert torch.equal(context, steps.context.to(dtype))
    assert torch.equal(level, steps.logsumexp)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        again, same = compute(*call.tensors, rule=rule, impl="reference")
    assert torch.equal(again, context)
    assert torch.equal(same, level)


@pytest.mark.parametrize("impl", IMPLS)
def test_a_sink_of_minus_infinity_beside_keys_of_it_leaves_nothing(generator, impl):
    call = draw(generator, dtype=torch.float64)
    call.query.abs_()
    call.key[:, :, 0] = -torch.inf  # row 0 sees it alone
    sinks = torch.tensor([-torch.inf, 0.0, -torch.inf, 1.0], dtype=torch.float64)
    result = attention(*call.tensors, mask=causal_mask(), sinks=sinks, impl=impl)
    assert not result.context[:, :, 0].any()
    assert torch.equal(result.logsumexp[:, :, 0], sinks.expand(2, 4))
