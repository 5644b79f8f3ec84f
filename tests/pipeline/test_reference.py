"""The oracle, held to PyTorch's own softmax and to what can be said without a formula."""

from typing import Any

import pytest
import torch

from clearhead.masks import Mask, causal_mask
from clearhead.pipeline.attention import attention
from clearhead.pipeline.reference import ReferenceSteps, reference
from clearhead.pipeline.rule import ScoreRule
from tests.accuracy import assert_double
from tests.laws.calls import MASKS, Drawn, draw


def _run(call: Drawn, **rule: object) -> ReferenceSteps:
    bound = ScoreRule(**rule).bind(call.query, call.key)
    return reference(*call.tensors, rule=bound)


@pytest.mark.parametrize("kind", ["none", "causal", "window", "document", "prefix"])
def test_it_is_what_pytorch_s_dense_path_gives(kind: str, generator: torch.Generator) -> None:
    call = draw(generator, n=15, kv_heads=4, d_v=5, dtype=torch.float64)
    mask = MASKS[kind](15)
    allowed = None if mask is None else mask.to_dense(queries=15, keys=15, batch=2, heads=4)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        theirs = torch.nn.functional.scaled_dot_product_attention(*call.tensors, attn_mask=allowed)
    ours = _run(call, mask=mask).context
    seen = torch.ones(15, dtype=torch.bool) if allowed is None else allowed.any(-1)
    seen = seen.expand(2, 4, 15)
    assert_double(ours[seen], theirs[seen])


def test_every_step_follows_from_the_one_before(generator: torch.Generator) -> None:
    call = draw(generator, n=9, dtype=torch.float64)
    bias = torch.randn(4, 9, 9, generator=generator, dtype=torch.float64)
    sinks = torch.randn(4, generator=generator, dtype=torch.float64)
    steps = _run(call, mask=causal_mask(), bias=bias, softcap=1.5, sinks=sinks, scale=0.7)
    key, value = (t.repeat_interleave(2, 1) for t in (call.key, call.value))
    assert_double(steps.raw_scores, 0.7 * call.query @ key.mT)
    capped = 1.5 * torch.tanh(steps.raw_scores / 1.5) + bias
    hidden = torch.ones(9, 9).triu(1) > 0
    assert_double(steps.scores, capped.masked_fill(hidden, -torch.inf))
    # torchtitan#2211: the softmax is over m + 1 logits, and the sink's column is dropped
    logits = torch.cat([steps.scores, sinks[None, :, None, None].expand(2, 4, 9, 1)], -1)
    assert_double(steps.logsumexp, logits.logsumexp(-1))
    assert_double(steps.weights, logits.softmax(-1)[..., :-1])
    assert_double(steps.context, steps.weights @ value)


def test_a_row_that_sees_nothing_is_nothing(generator: torch.Generator) -> None:
    call = draw(generator, n=4)
    allowed = torch.ones(4, 4, dtype=torch.bool)
    allowed[2] = False
    for sinks in (None, torch.zeros(4)):
        steps = _run(call, mask=Mask.from_tensor(allowed), sinks=sinks)
        assert not steps.weights[:, :, 2].any()
        assert not steps.context[:, :, 2].any()
        assert torch.isneginf(steps.logsumexp[:, :, 2]).all()


def test_grouped_heads_read_the_key_of_their_group(generator: torch.Generator) -> None:
    # axlearn#842: four query heads over two key heads read 0, 0, 1, 1
    call = draw(generator, n=5, dtype=torch.float64)
    raw = _run(call, scale=1.0).raw_scores
    for head, group in enumerate((0, 0, 1, 1)):
        assert_double(raw[:, head], call.query[:, head] @ call.key[:, group].mT)


@pytest.mark.parametrize("impl", ["fused", "tiles", "reference"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_keys_of_minus_infinity_are_seen_and_the_sink_still_counts(
    dtype: torch.dtype, impl: Any
) -> None:
    query, value = torch.ones(1, 1, 2, 4, dtype=dtype), torch.ones(1, 1, 2, 4, dtype=dtype)
    key = torch.full((1, 1, 2, 4), -torch.inf, dtype=dtype)
    key[:, :, 1] = 1.0
    sinks = torch.tensor([0.25], dtype=dtype)
    result = attention(query, key, value, mask=causal_mask(), sinks=sinks, impl=impl)
    assert result.logsumexp[0, 0, 0] == 0.25
    assert not result.context[0, 0, 0].any()
    assert not result.weights[0, 0, 0].any()
    assert result.weights.levels()[0, 0, 0] == 0.25
