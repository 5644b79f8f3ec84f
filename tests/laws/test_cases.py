"""What went wrong elsewhere and attention decides; the numbers are those of the list of cases."""

import math

import pytest
import torch

from clearhead.masks import (
    Mask,
    causal_mask,
    chunked_mask,
    document_mask,
    padding_mask,
    sliding_window_mask,
)
from clearhead.pipeline.attention import attention
from tests.accuracy import assert_double
from tests.laws.calls import Drawn, draw, with_entry

IMPLEMENTATIONS = pytest.mark.parametrize("impl", ["auto", "tiles", "reference"])
HALF = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)


@IMPLEMENTATIONS
@pytest.mark.parametrize("given", ["mask", "bias"])
def test_case_1_a_row_that_may_see_nothing_is_zero(
    given: str, impl: str, generator: torch.Generator
) -> None:
    """Case 1: 8×8, True only in [:4, :4]: rows 4–7 are exactly 0, gradients finite."""
    allowed = torch.zeros(8, 8, dtype=torch.bool)
    allowed[:4, :4] = True
    call = draw(generator, n=8).leaves()
    additive = torch.zeros(8, 8).masked_fill(~allowed, -torch.inf)
    rule = {"mask": {"mask": Mask.from_tensor(allowed)}, "bias": {"bias": additive}}[given]
    result = attention(*call.tensors, impl=impl, **rule)
    assert not result.context[:, :, 4:].any()
    assert not result.weights[:, :, 4:].any()
    assert torch.isneginf(result.logsumexp[:, :, 4:]).all()
    gradients = torch.autograd.grad(result.context.square().sum(), call.tensors)
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


@IMPLEMENTATIONS
@pytest.mark.parametrize("which", ["key", "value"])
def test_case_2_a_masked_key_or_value_does_not_reach_the_output(
    which: str, impl: str, generator: torch.Generator
) -> None:
    """Case 2: L = 2, column 1 masked, k[1] = NaN: the output is unchanged."""
    call = draw(generator, n=2)
    mask = padding_mask(torch.tensor([1, 0]))
    broken = with_entry(call, which, (slice(None), slice(None), 1), torch.nan)
    calm, result = (attention(*c.tensors, mask=mask, impl=impl) for c in (call, broken))
    assert torch.equal(result.context, calm.context)
    assert torch.equal(result.logsumexp, calm.logsumexp)


@IMPLEMENTATIONS
@HALF
def test_case_3_a_masked_row_of_very_negative_scores_is_zero(dtype: torch.dtype, impl: str) -> None:
    """Case 3: the lowest number plus a score of −16 is −inf; a masked row stays finite: 0."""
    query = torch.full((1, 1, 1, 1), -16.0, dtype=dtype)
    key = value = torch.ones(1, 1, 3, 1, dtype=dtype)
    nobody = padding_mask(torch.zeros(3, dtype=torch.int64))
    assert attention(query, key, value, mask=nobody, scale=1.0, impl=impl).context.item() == 0
    # whoever adds the lowest number has it added, in float32, where nothing overflows
    lowest = torch.full((1, 3), torch.finfo(dtype).min, dtype=dtype)
    added = attention(query, key, value, bias=lowest, scale=1.0, impl=impl)
    assert math.isfinite(added.context.item())
    if impl != "reference":  # whose A is exp(S − L): where L is 65,520 it has few digits left
        assert added.context.item() == 1
    assert added.scores[0, 0, 0].tolist() == [torch.finfo(dtype).min - 16.0] * 3


@IMPLEMENTATIONS
def test_case_4_planes_are_joined_as_booleans(impl: str, generator: torch.Generator) -> None:
    """Case 4: causal, and keep [0, 0, 0, 1, 1]: rows 0–2 see nothing, row 3 itself alone."""
    call = draw(generator, n=5)
    mask = causal_mask() & padding_mask(torch.tensor([0, 0, 0, 1, 1]))
    result = attention(*call.tensors, mask=mask, impl=impl)
    assert not result.context[:, :, :3].any()
    values = call.value.repeat_interleave(2, dim=1)
    assert torch.equal(result.context[:, :, 3], values[:, :, 3])
    assert not result.weights[:, :, :, :3].any()


@IMPLEMENTATIONS
@HALF
def test_case_5_a_row_masked_throughout_is_zero_not_the_mean(
    dtype: torch.dtype, impl: str, generator: torch.Generator
) -> None:
    """Case 5: a row of nothing but padding is 0, not mean(V)."""
    call = draw(generator, n=4, dtype=dtype)
    mask = padding_mask(torch.tensor([[1, 1, 1, 1], [0, 0, 0, 0]]))
    result = attention(*call.tensors, mask=mask, impl=impl)
    assert not result.context[1].any()
    assert torch.isneginf(result.logsumexp[1]).all()
    assert result.context[0].all()


@IMPLEMENTATIONS
@pytest.mark.parametrize("keys", [2, 7, 300])
def test_case_6_one_query_stands_where_it_is_said_to(
    keys: int, impl: str, generator: torch.Generator
) -> None:
    """Case 6: is_causal with one query and k = S sees key 0 alone; here the place is explicit."""
    call = draw(generator, n=1, m=keys, dtype=torch.float64)
    first = attention(*call.tensors, mask=causal_mask(), query_start=0, impl=impl)
    last = attention(*call.tensors, mask=causal_mask(), query_start=keys - 1, impl=impl)
    values = call.value.repeat_interleave(2, dim=1)
    assert torch.equal(first.context, values[:, :, :1])
    assert_double(last.context, attention(*call.tensors, impl=impl).context, name="C")


@IMPLEMENTATIONS
def test_case_7_queries_before_the_first_key_are_zero(
    impl: str, generator: torch.Generator
) -> None:
    """Case 7: bottom-right causal, q = 5, k = 2: rows 0–2 are 0, not NaN."""
    call = draw(generator, n=5, m=2)
    result = attention(*call.tensors, mask=causal_mask(), query_start=2 - 5, impl=impl)
    assert not result.context[:, :, :3].any()
    assert torch.isneginf(result.logsumexp[:, :, :3]).all()
    assert torch.equal(result.context[:, :, 3], call.value.repeat_interleave(2, 1)[:, :, 0])
    assert (result.weights[:, :, 4] > 0).all()


@IMPLEMENTATIONS
def test_case_8_true_means_may_look(impl: str, generator: torch.Generator) -> None:
    """Case 8: L = 3: the weights are a lower triangle, however the mask is written."""
    call = draw(generator, n=3)
    lower = torch.ones(3, 3).tril().bool()
    for mask in (causal_mask(), Mask.from_tensor(lower), ~Mask.from_tensor(~lower)):
        weights = attention(*call.tensors, mask=mask, impl=impl).weights.to_dense()
        assert torch.equal(weights > 0, lower.expand(2, 4, 3, 3))


@IMPLEMENTATIONS
def test_case_9_columns_padded_in_every_row_are_not_dropped(
    impl: str, generator: torch.Generator
) -> None:
    """Case 9: 6 long, 5 real: the output stays 6 long."""
    call = draw(generator, n=6)
    mask = padding_mask(torch.tensor([1, 1, 1, 1, 1, 0]).expand(2, 6))
    result = attention(*call.tensors, mask=mask, impl=impl)
    assert result.context.shape == (2, 4, 6, 8)
    assert result.weights.shape == (2, 4, 6, 6)
    assert not result.weights[..., 5].any()


@IMPLEMENTATIONS
@pytest.mark.parametrize("width", [1, 2, 5])
def test_case_10_a_window_of_w_keeps_w_keys(
    width: int, impl: str, generator: torch.Generator
) -> None:
    """Case 10: W = 2, query 5: keys 4 and 5."""
    call = draw(generator, n=8)
    mask = causal_mask() & sliding_window_mask(width)
    seen = attention(*call.tensors, mask=mask, impl=impl).weights[0, 0, 5].nonzero().flatten()
    assert seen.tolist() == list(range(6 - width, 6))


@IMPLEMENTATIONS
def test_case_11_chunks_begin_at_the_first_real_token(
    impl: str, generator: torch.Generator
) -> None:
    """Case 11: chunk 4, 2 pads: a padded row gives what it gives without padding."""
    call = draw(generator, batch=1, n=11, dtype=torch.float64)
    chunks = chunked_mask(4, start=torch.tensor([2])) & padding_mask(torch.arange(11) >= 2)
    padded = attention(*call.tensors, mask=causal_mask() & chunks, impl=impl)
    real = (tensor[:, :, 2:] for tensor in call.tensors)
    alone = attention(*real, mask=causal_mask() & chunked_mask(4), impl=impl)
    assert_double(padded.context[:, :, 2:], alone.context, name="C")


@IMPLEMENTATIONS
@pytest.mark.parametrize("lengths", [(3, 5), (300, 40)], ids=str)
def test_case_12_packed_documents_are_isolated(
    lengths: tuple[int, int], impl: str, generator: torch.Generator
) -> None:
    """Case 12: change document 1: document 2 is unchanged, to the bit."""
    first, second = lengths
    bounds = torch.tensor([0, first, first + second])
    mask = causal_mask() & document_mask(cu_seqlens=bounds)
    call, other = (draw(generator, n=first + second) for _ in range(2))
    changed = Drawn(
        *(
            torch.cat([b[:, :, :first], a[:, :, first:]], 2)
            for a, b in zip(call.tensors, other.tensors, strict=True)
        )
    )
    before, after = (attention(*c.tensors, mask=mask, impl=impl) for c in (call, changed))
    assert torch.equal(before.context[:, :, first:], after.context[:, :, first:])
    assert torch.equal(before.logsumexp[:, :, first:], after.logsumexp[:, :, first:])
    assert not torch.equal(before.context[:, :, :first], after.context[:, :, :first])


@IMPLEMENTATIONS
@pytest.mark.parametrize("keys", [63, 64, 65, 255, 257, 300])
def test_case_13_keys_that_only_fill_a_block_are_no_keys(
    keys: int, impl: str, generator: torch.Generator
) -> None:
    """Case 13: 64 keys, block 128: equal scores share the weight among the real keys alone."""
    value = draw(generator, n=2, m=keys, dtype=torch.float64).value
    query, key = torch.zeros(2, 4, 2, 8).double(), torch.zeros(2, 2, keys, 8).double()
    for mask in (None, padding_mask(torch.ones(keys, dtype=torch.bool))):
        result = attention(query, key, value, mask=mask, impl=impl)
        mean = value.mean(2, keepdim=True).repeat_interleave(2, 1).expand(2, 4, 2, 8)
        assert_double(result.context, mean.contiguous(), name="C")
        assert_double(result.logsumexp, torch.full((2, 4, 2), math.log(keys), dtype=torch.float64))


@IMPLEMENTATIONS
def test_case_14_a_sink_is_one_more_logit_of_the_softmax(
    impl: str, generator: torch.Generator
) -> None:
    """Case 14: the softmax runs over m + 1 logits, then the sink's column is dropped."""
    call = draw(generator, n=6, dtype=torch.float64)
    sinks = torch.randn(4, dtype=torch.float64, generator=generator)
    result = attention(*call.tensors, sinks=sinks, mask=causal_mask(), impl=impl)
    scores = result.scores.to_dense()
    logits = torch.cat([scores, sinks[:, None, None].expand(2, 4, 6, 1)], -1)
    weights = logits.softmax(-1)[..., :6]
    assert_double(result.weights.to_dense(), weights, name="A")
    assert_double(result.context, weights @ call.value.repeat_interleave(2, 1), name="C")
    assert_double(result.logsumexp, logits.logsumexp(-1), name="logsumexp")
    assert (result.weights.to_dense().sum(-1) < 1).all()
