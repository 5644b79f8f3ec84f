"""L is the kernel's own where that is exact, and made again where it is not."""

import pytest
import torch

from clearhead.masks import causal_mask
from clearhead.pipeline.attention import attention
from clearhead.pipeline.levels import exact_levels
from tests.laws.calls import MASKS, draw

ROWS = [range(40), range(3, 17), range(5, 5), torch.tensor([39, 0, 7])]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_wide_level_is_the_kernel_s_own(dtype: torch.dtype, generator: torch.Generator) -> None:
    result = attention(*draw(generator, n=40, dtype=dtype).tensors, mask=causal_mask())
    assert torch.equal(result.weights.levels(), result.logsumexp)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("place", range(len(ROWS)))
def test_a_half_level_is_as_exact_as_its_scores(
    place: int, kind: str, dtype: torch.dtype, generator: torch.Generator
) -> None:
    call = draw(generator, n=40, dtype=dtype)
    sinks = torch.randn(4, generator=generator)
    rule = {"mask": MASKS[kind](40), "sinks": sinks}
    of = attention(*call.tensors, **rule).weights
    truth = attention(*call.double, impl="reference", **rule).logsumexp
    found = exact_levels(of.query, of.key, of.logsumexp, rule=of.bound, rows=ROWS[place])
    rows = torch.as_tensor(list(ROWS[place]), dtype=torch.int64)
    expected = truth[..., rows]
    assert torch.equal(torch.isneginf(found), torch.isneginf(expected))
    seen = ~torch.isneginf(expected)
    bound = 8 * torch.finfo(torch.float32).eps * expected[seen].abs().clamp(min=1)
    assert ((found[seen] - expected[seen]).abs() <= bound).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rows_of_half_precision_sum_to_one(dtype: torch.dtype, generator: torch.Generator) -> None:
    call = draw(generator, n=300, dtype=dtype)
    sums = attention(*call.tensors, mask=causal_mask()).weights.to_dense().sum(-1)
    assert ((sums - 1).abs() <= 16 * torch.finfo(torch.float32).eps).all()
