"""The same call gives the same bits, whoever else is in the batch and however tensors lie."""

import pytest
import torch
from torch import Tensor

from clearhead.pipeline.attention import attention
from clearhead.pipeline.result import AttentionResult
from tests.laws.calls import MASKS, Drawn, draw, laid_out

IMPLEMENTATIONS = pytest.mark.parametrize("impl", ["auto", "tiles", "reference"])
KINDS = pytest.mark.parametrize("kind", MASKS)
#: Below, at and above the 256 rows of a block.
SIZES = [30, 256, 300]


def _size(generator: torch.Generator) -> int:
    return SIZES[int(torch.randint(3, (), generator=generator))]


def _read(result: AttentionResult) -> list[Tensor]:
    weights, top = result.weights, result.weights.top_keys(5)
    return [
        *(result.context, result.logsumexp, weights.to_dense(), result.scores.to_dense()),
        *(weights.received(), weights.entropy(), top.keys, top.weights),
        *(weights.pooled(7, reduce="mean").values, weights.matvec(torch.eye(weights.shape[-1]))),
    ]


def _assert_same(mine: list[Tensor], other: list[Tensor]) -> None:
    for a, b in zip(mine, other, strict=True):
        assert torch.equal(a, b)


@KINDS
@IMPLEMENTATIONS
def test_two_runs_give_the_same_bits(impl: str, kind: str, generator: torch.Generator) -> None:
    n = _size(generator)
    call = draw(generator, n=n)
    runs = [attention(*call.tensors, mask=MASKS[kind](n), impl=impl) for _ in range(2)]
    _assert_same(*(_read(result) for result in runs))


@pytest.mark.parametrize("kind", ["none", "causal", "window", "causal and padding", "document"])
@IMPLEMENTATIONS
def test_what_stands_in_other_batch_rows_and_heads_does_not_matter(
    impl: str, kind: str, generator: torch.Generator
) -> None:
    n = _size(generator)
    call, other = draw(generator, n=n), draw(generator, n=n)
    mixed = []
    for mine, theirs in zip(call.tensors, other.tensors, strict=True):
        both = theirs.clone() * 1e3
        own = both.shape[1] // 2  # of each pair of heads, the first
        both[1, :own] = mine[1, :own]
        mixed.append(both)
    mixed[2][0, 0, n // 2] = torch.nan
    mask = MASKS[kind](n)
    before = attention(*call.tensors, mask=mask, impl=impl)
    after = attention(*mixed, mask=mask, impl=impl)
    for a, b in zip(_read(before), _read(after), strict=True):
        assert torch.equal(a[1, :2], b[1, :2])


@pytest.mark.parametrize("kind", ["none", "causal", "window", "document"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_kernel_gives_a_batch_row_what_it_gives_it_alone(
    dtype: torch.dtype, kind: str, generator: torch.Generator
) -> None:
    n = _size(generator)
    call = draw(generator, n=n, dtype=dtype)
    mask = MASKS[kind](n)
    together = attention(*call.tensors, mask=mask)
    alone = attention(*(tensor[1:] for tensor in call.tensors), mask=mask)
    assert torch.equal(together.context[1:], alone.context)
    assert torch.equal(together.logsumexp[1:], alone.logsumexp)


@pytest.mark.parametrize("strides", ["transposed", "expanded", "inner", "every second"])
@KINDS
def test_a_kernel_gives_the_same_bits_however_its_tensors_lie(
    kind: str, strides: str, generator: torch.Generator
) -> None:
    n = _size(generator)
    call = draw(generator, n=n)
    lying = [laid_out(tensor, strides) for tensor in call.tensors]
    dense = Drawn(*(tensor.clone(memory_format=torch.contiguous_format) for tensor in lying))
    mine = attention(*lying, mask=MASKS[kind](n))
    other = attention(*dense.tensors, mask=MASKS[kind](n))
    assert torch.equal(mine.context, other.context)
    assert torch.equal(mine.logsumexp, other.logsumexp)


@pytest.mark.parametrize("axes", [2, 3])
@IMPLEMENTATIONS
def test_leading_axes_of_one_may_be_left_out(
    axes: int, impl: str, generator: torch.Generator
) -> None:
    call = draw(generator, batch=1, heads=1, kv_heads=1, n=9)
    full = attention(*call.tensors, impl=impl)
    few = attention(*(t.reshape(t.shape[4 - axes :]) for t in call.tensors), impl=impl)
    for a, b in zip(_read(few), _read(full), strict=True):
        assert torch.equal(a, b[(0,) * (4 - axes)])
