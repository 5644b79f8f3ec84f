"""What went wrong in kernels elsewhere; the numbers are those of the list of cases."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from clearhead.masks import causal_mask, full_mask, padding_mask
from clearhead.pipeline import fused
from clearhead.pipeline.attention import attention
from tests.accuracy import Yardstick, assert_double
from tests.laws.calls import draw, laid_out

IMPLEMENTATIONS = pytest.mark.parametrize("impl", ["auto", "tiles", "reference"])


@pytest.mark.parametrize("keys", [65_537, 70_001])
@pytest.mark.parametrize("impl", ["auto", "tiles"])
def test_case_40_a_bias_past_65536_keys_is_read_where_it_stands(
    impl: str, keys: int, generator: torch.Generator
) -> None:
    """Case 40: a 32-bit bias offset past 65,536 keys: equals the reference."""
    sizes = {"batch": 1, "heads": 2, "kv_heads": 1, "n": 1, "m": keys, "d_k": 4, "d_v": 16}
    call = draw(generator, **sizes, dtype=torch.float64)
    bias = torch.randn(2, 1, keys, dtype=torch.float64, generator=generator)
    bias[:, :, -1] = 12.0  # the last key decides
    ours = attention(*call.tensors, bias=bias, impl=impl)
    truth = attention(*call.tensors, bias=bias, impl="reference")
    assert_double(ours.context, truth.context, name="C")
    assert_double(ours.logsumexp, truth.logsumexp, name="logsumexp")
    assert_double(ours.weights.to_dense(), truth.weights.to_dense(), name="A")
    assert ours.weights.top_keys(1).keys.flatten().tolist() == [keys - 1] * 2


@pytest.mark.parametrize("order", [*itertools.permutations(range(4))], ids=str)
def test_case_41_a_permuted_tensor_equals_the_contiguous_one(
    order: tuple[int, ...], generator: torch.Generator
) -> None:
    """Case 41: a permuted (84, 3, 3, 64) tensor was off by 3.6: every order of strides is alike."""
    shape = (84, 3, 3, 64)
    back = tuple(torch.tensor(order).argsort().tolist())

    def permuted(tensor: Tensor) -> Tensor:
        return tensor.permute(order).contiguous().permute(back)

    tensors = [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(3)]
    contiguous = attention(*tensors, mask=causal_mask())
    strided = attention(*(permuted(tensor) for tensor in tensors), mask=causal_mask())
    assert torch.equal(strided.context, contiguous.context)
    assert torch.equal(strided.logsumexp, contiguous.logsumexp)
    assert_double(strided.weights.received(), contiguous.weights.received())


@pytest.mark.parametrize("strides", ["transposed", "expanded", "inner", "every second"])
@pytest.mark.parametrize("masked", ["no mask", "padding", "causal"])
def test_case_41_inner_strides_too(masked: str, strides: str, generator: torch.Generator) -> None:
    """Case 41: inner strides as well, with gradients."""
    call = draw(generator, n=70, dtype=torch.float64)
    keep = torch.arange(70) > 9
    mask = {"no mask": None, "padding": padding_mask(keep), "causal": causal_mask()}[masked]

    def both(tensors: list[Tensor]) -> list[Tensor]:
        leaves = [tensor.requires_grad_() for tensor in tensors]
        result = attention(*leaves, mask=mask)
        made = [result.context, result.logsumexp]
        return [*made, *torch.autograd.grad(sum(x.sin().sum() for x in made), leaves)]

    strided = [laid_out(tensor, strides).detach() for tensor in call.tensors]
    dense = [tensor.contiguous().clone() for tensor in strided]
    for mine, wanted in zip(both(strided), both(dense), strict=True):
        assert_double(mine.contiguous(), wanted.contiguous())


ZERO = {
    "batch": {"batch": 0},
    "heads": {"heads": 0, "kv_heads": 0},
    "query heads": {"heads": 0, "kv_heads": 2},
    "queries": {"n": 0, "m": 5},
    "keys": {"n": 5, "m": 0},
    "queries and keys": {"n": 0, "m": 0},
    "d_k": {"d_k": 0},
    "d_v": {"d_v": 0},
    "d_k and d_v": {"d_k": 0, "d_v": 0},
}


@IMPLEMENTATIONS
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("zero", ZERO)
def test_case_42_sizes_of_zero_give_an_empty_result(
    zero: str, masked: bool, impl: str, generator: torch.Generator
) -> None:
    """Case 42: zero-sized heads or batch crashed: here what is empty stays empty, and is read."""
    sizes = {"batch": 2, "heads": 4, "kv_heads": 2, "n": 3, "m": 3, "d_k": 4, "d_v": 4}
    sizes |= ZERO[zero]
    call = draw(generator, **sizes).leaves()
    batch, heads, n, m = (sizes[name] for name in ("batch", "heads", "n", "m"))
    mask = causal_mask() & full_mask() if masked else None
    result = attention(*call.tensors, mask=mask, query_start=0, impl=impl)
    assert result.context.shape == (batch, heads, n, sizes["d_v"])
    assert result.logsumexp.shape == (batch, heads, n)
    weights = result.weights
    assert weights.to_dense().shape == result.scores.to_dense().shape == (batch, heads, n, m)
    assert weights.received().shape == (batch, heads, m)
    assert weights.entropy().shape == (batch, heads, n)
    assert weights.top_keys(2).keys.shape == (batch, heads, n, min(2, m))
    assert weights.pooled(2).values.shape == (batch, heads, min(2, n), min(2, m))
    assert weights.matvec(torch.zeros(batch, heads, m, 5)).shape == (batch, heads, n, 5)
    gradients = torch.autograd.grad(result.context.sum(), call.tensors, allow_unused=True)
    assert all(g is None or torch.isfinite(g).all() for g in gradients)
    if m == 0:
        assert not result.context.any()
        assert torch.isneginf(result.logsumexp).all()


@IMPLEMENTATIONS
def test_case_43_two_runs_are_equal_to_the_bit(impl: str, generator: torch.Generator) -> None:
    """Case 43: dropout in eval; there is none here, whatever the state of random numbers."""
    call = draw(generator, n=70)
    first = attention(*call.tensors, mask=causal_mask(), impl=impl)
    torch.rand(3)
    again = attention(*call.tensors, mask=causal_mask(), impl=impl)
    assert torch.equal(first.context, again.context)
    assert torch.equal(first.logsumexp, again.logsumexp)
    assert torch.equal(first.weights.to_dense(), again.weights.to_dense())


@IMPLEMENTATIONS
def test_case_44_the_rows_of_a_sum_to_1(impl: str, generator: torch.Generator) -> None:
    """Case 44: returned weights after dropout sum to 1.25; a row of A sums to 1."""
    call = draw(generator, n=70, dtype=torch.float64)
    weights = attention(*call.tensors, mask=causal_mask(), impl=impl).weights
    sums = weights.matvec(torch.ones(2, 4, 70, 1, dtype=torch.float64))
    assert_double(sums, torch.ones_like(sums))


PATHS = ["auto", "tiles", "reference", "kernels that keep L"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("keys", [1, 2, 7, 300])
def test_case_45_l_is_a_natural_log_by_every_path(
    keys: int, path: str, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 45: L in base 2, or off by ln 2: equal scores s give s + log m."""
    if path == "kernels that keep L":
        monkeypatch.setattr(fused, "gives_logsumexp", lambda _device: False)
    impl = path if path in {"tiles", "reference"} else "auto"
    call = draw(generator, n=3, m=keys)
    key = torch.ones_like(call.key)
    scores = call.query.sum(-1) * 8**-0.5
    level = attention(call.query, key, call.value, impl=impl).logsumexp
    Yardstick(call.query, key, call.value).assert_logsumexp(level)
    assert float((level - scores - math.log(keys)).abs().max()) < 1e-5
