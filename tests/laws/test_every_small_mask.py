"""Tiles and kernels equal the reference for every boolean mask up to 3×4 and every setting to 8."""

import itertools
from collections.abc import Iterable, Iterator

import pytest
import torch
from torch import Tensor

from clearhead.masks import Mask, causal_mask, chunked_mask, sliding_window_mask
from clearhead.pipeline.attention import attention
from clearhead.pipeline.result import AttentionResult
from tests.accuracy import (
    assert_context_accurate,
    assert_double,
    assert_logsumexp_accurate,
    plain_attention,
)
from tests.laws.calls import Drawn, draw

SIZES = [(n, m) for n in (1, 2, 3) for m in (1, 2, 3, 4)]


def _every_mask(n: int, m: int) -> Tensor:
    """All 2^(n·m) boolean masks, one a batch row."""
    bits = torch.arange(2 ** (n * m))[:, None] >> torch.arange(n * m) & 1
    return bits.bool().reshape(-1, 1, n, m)


def _agree(ours: AttentionResult, truth: AttentionResult) -> None:
    """The same −inf pattern, and 1e-12 of the largest number for what float64 computes."""
    scores = truth.scores.to_dense()
    assert_double(ours.scores.to_dense(), scores, name="S")
    assert_double(ours.weights.to_dense(), truth.weights.to_dense(), name="A")
    assert torch.equal(ours.weights.to_dense() == 0, torch.isneginf(scores))
    assert_double(ours.context, truth.context, name="C")
    assert_double(ours.logsumexp, truth.logsumexp, name="logsumexp")


@pytest.mark.parametrize("impl", ["fused", "tiles"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_boolean_mask_equals_the_reference(
    size: tuple[int, int], impl: str, generator: torch.Generator
) -> None:
    n, m = size
    allowed = _every_mask(n, m)
    shape = {"batch": len(allowed), "heads": 2, "kv_heads": 1, "n": n, "m": m, "d_k": 3, "d_v": 2}
    call = draw(generator, **shape, dtype=torch.float64)
    mask = Mask.from_tensor(allowed)
    sinks = torch.randn(2, dtype=torch.float64, generator=generator)
    for parts in ({}, {"sinks": sinks}):
        ours = attention(*call.tensors, mask=mask, impl=impl, **parts)
        assert ours.implementation == impl
        _agree(ours, attention(*call.tensors, mask=mask, impl="reference", **parts))
        empty = ~allowed.any(-1)
        assert torch.equal(torch.isneginf(ours.logsumexp), empty.expand(-1, 2, -1))
        assert not ours.context[empty.expand(-1, 2, -1)].any()


@pytest.mark.parametrize("impl", ["fused", "tiles"])
def test_every_boolean_mask_is_accurate_in_float32(impl: str, generator: torch.Generator) -> None:
    allowed = _every_mask(3, 4)
    call = draw(generator, batch=4096, heads=2, kv_heads=2, n=3, m=4, d_k=16, d_v=16)
    ours = attention(*call.tensors, mask=Mask.from_tensor(allowed), impl=impl)
    plain = plain_attention(*call.tensors, allowed=allowed)
    truth = plain_attention(*call.double, allowed=allowed)
    scores, weights, level = ours.scores.to_dense(), ours.weights.to_dense(), ours.logsumexp
    # one group of all masks: 8,192 draws apart would break by chance a rule that a right path
    # breaks 3 times in 100
    for name, tensor in (("context", ours.context), ("scores", scores)):
        pair = getattr(plain, name), getattr(truth, name)
        assert_context_accurate(*(x.flatten(0, 2) for x in (tensor, *pair)))
    levels = (x.logsumexp.flatten() for x in (ours, plain, truth))
    assert_logsumexp_accurate(*levels, dtype=torch.float32)
    # A has no error of its own: it is made of these S and L
    level = level.masked_fill(torch.isneginf(level), 0.0).unsqueeze(-1)
    assert torch.equal(weights, (scores - level).exp())


# ------------------------------------------------------------------------------- settings up to 8

LENGTHS = range(1, 9)


def _calls(
    generator: torch.Generator, *, batch: int = 1, lengths: Iterable[int] = LENGTHS
) -> Iterator[tuple[Drawn, int]]:
    """Calls of up to 8 keys: all as queries, or the last one after a cache."""
    for m in lengths:
        for n in {1, m}:
            shape = {"batch": batch, "heads": 2, "kv_heads": 1, "n": n, "m": m, "d_k": 3, "d_v": 2}
            yield draw(generator, **shape, dtype=torch.float64), m - n


def _both(call: Drawn, start: int, **parts: object) -> None:
    truth = attention(*call.tensors, query_start=start, impl="reference", **parts)
    for impl in ("fused", "tiles"):
        _agree(attention(*call.tensors, query_start=start, impl=impl, **parts), truth)


@pytest.mark.parametrize("width", LENGTHS)
def test_every_window_equals_the_reference(width: int, generator: torch.Generator) -> None:
    for call, start in _calls(generator):
        for mask in (sliding_window_mask(width), causal_mask() & sliding_window_mask(width)):
            _both(call, start, mask=mask)


@pytest.mark.parametrize("size", LENGTHS)
def test_every_chunk_equals_the_reference(size: int, generator: torch.Generator) -> None:
    for call, start in _calls(generator, batch=size):
        chunks = chunked_mask(size, start=torch.arange(size))
        for mask in (chunks, causal_mask() & chunks):
            _both(call, start, mask=mask)


@pytest.mark.parametrize("sink", [-torch.inf, -50.0, 0.0, 3.0, 50.0])
def test_every_sink_equals_the_reference(sink: float, generator: torch.Generator) -> None:
    sinks = torch.tensor([sink, 1.0], dtype=torch.float64)
    for call, start in _calls(generator):
        for mask in (None, causal_mask(), sliding_window_mask(1)):
            _both(call, start, mask=mask, sinks=sinks)


@pytest.mark.parametrize("start", range(-9, 10, 3))
def test_every_place_of_the_queries_equals_the_reference(
    start: int, generator: torch.Generator
) -> None:
    masks = (causal_mask(), causal_mask() & sliding_window_mask(3), chunked_mask(4))
    for (call, _), mask in itertools.product(_calls(generator, lengths=(1, 4, 8)), masks):
        _both(call, start, mask=mask)
