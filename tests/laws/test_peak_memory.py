"""What is alive at once grows with n, not with n²: forward, read and backward.

Every allocation counts here, those inside kernels and those kept for the way back too.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from clearhead.masks import (
    Mask,
    causal_mask,
    chunked_mask,
    document_mask,
    padding_mask,
    prefix_lm_mask,
    sliding_window_mask,
)
from clearhead.pipeline import fused
from clearhead.pipeline.attention import attention
from clearhead.pipeline.observe import OBSERVABLES
from clearhead.positions.bias import AlibiBias, T5RelativeBias

N = 2048
KINDS: dict[str, Callable[[int], Mask | None]] = {
    "none": lambda _n: None,
    "causal": lambda _n: causal_mask(),
    "window": lambda _n: causal_mask() & sliding_window_mask(64),
    "padding": lambda n: padding_mask(torch.arange(n) > 5),
    "causal and padding": lambda n: causal_mask() & padding_mask(torch.arange(n) > 5),
    "document": lambda n: causal_mask() & document_mask(torch.arange(n) // 300),
    "prefix": lambda _n: prefix_lm_mask(100),
    "chunk": lambda _n: chunked_mask(128),
    "mask_mod": lambda _n: Mask.from_mask_mod(_two_of_three, batch=1, heads=1),
}


def _two_of_three(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return (i + j) % 3 != 0


@dataclass(frozen=True)
class Memory:
    """Bytes: all that was alive at once, and the largest piece."""

    peak: int
    largest: int


def memory_of(work: Callable[[], object]) -> Memory:
    """Run something and look at every allocation on the way."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        kept = work()
    assert kept is not None  # its memory is alive until here
    events = watched.profiler.kineto_results.events()
    moves = [e for e in events if e.name() == "[memory]"]
    alive = peak = largest = 0
    for move in sorted(moves, key=lambda event: event.start_ns()):
        alive += move.nbytes()
        peak, largest = max(peak, alive), max(largest, move.nbytes())
    assert moves
    return Memory(peak, largest)


def _inputs(n: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return list(torch.randn(3, 1, 1, n, 8).to(dtype))


def _assert_linear(work: Callable[[int], Callable[[], object]]) -> None:
    once, twice = memory_of(work(N)), memory_of(work(2 * N))
    assert twice.peak <= 2.2 * once.peak
    assert twice.largest < (2 * N) ** 2  # not even n·m numbers of one byte


SOME = ("none", "window", "causal and padding")


@pytest.mark.parametrize(
    ("impl", "kind"), [*(("fused", kind) for kind in KINDS), *(("tiles", kind) for kind in SOME)]
)
def test_the_context_and_l_take_linear_memory(impl: str, kind: str) -> None:
    def work(n: int) -> Callable[[], object]:
        inputs, mask = _inputs(n), KINDS[kind](n)
        return lambda: attention(*inputs, mask=mask, impl=impl)

    _assert_linear(work)


@pytest.mark.parametrize("kind", KINDS)
def test_observing_takes_linear_memory(kind: str) -> None:
    def work(n: int) -> Callable[[], object]:
        inputs, mask = _inputs(n), KINDS[kind](n)
        return lambda: attention(*inputs, mask=mask, observe=OBSERVABLES)

    _assert_linear(work)


@pytest.mark.parametrize("path", ["kernels that give L", "kernels that keep L"])
def test_training_a_position_bias_takes_linear_memory(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path == "kernels that keep L":
        monkeypatch.setattr(fused, "gives_logsumexp", lambda _device: False)

    def work(n: int) -> Callable[[], object]:
        leaves, bias = [tensor.requires_grad_() for tensor in _inputs(n)], T5RelativeBias(1)

        def step() -> object:
            result = attention(*leaves, bias=bias)
            loss = result.context.sum() + result.logsumexp.sum()
            return torch.autograd.grad(loss, [*leaves, bias.weight])

        return step

    _assert_linear(work)


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        *((torch.float32, kind) for kind in KINDS),
        (torch.bfloat16, "padding"),
        (torch.bfloat16, "causal and padding"),
    ],
    ids=str,
)
def test_training_takes_linear_memory(dtype: torch.dtype, kind: str) -> None:
    def work(n: int) -> Callable[[], object]:
        leaves = [tensor.requires_grad_() for tensor in _inputs(n, dtype)]
        mask = KINDS[kind](n)

        def step() -> object:
            result = attention(*leaves, mask=mask)
            return torch.autograd.grad(result.context.float().sum(), leaves)

        return step

    _assert_linear(work)


@pytest.mark.parametrize("kind", ["none", "causal", "causal and padding", "window"])
def test_so_it_does_where_kernels_keep_l(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "gives_logsumexp", lambda _device: False)
    test_training_takes_linear_memory(torch.float32, kind)


def test_so_does_a_learned_bias_where_kernels_keep_l(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of L alone: Q and K may be frozen."""
    monkeypatch.setattr(fused, "gives_logsumexp", lambda _device: False)

    def work(n: int) -> Callable[[], object]:
        inputs, bias = _inputs(n), torch.zeros(n).requires_grad_()

        def step() -> object:
            result = attention(*inputs, mask=causal_mask(), bias=bias)
            return torch.autograd.grad(result.logsumexp.sum(), bias)

        return step

    _assert_linear(work)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_product_with_a_takes_linear_memory_under_autograd(dtype: torch.dtype) -> None:
    def work(n: int) -> Callable[[], object]:
        leaves = [tensor.requires_grad_() for tensor in _inputs(n, dtype)]

        def step() -> object:
            result = attention(*leaves, mask=causal_mask())
            product = result.weights.matvec(torch.ones(n, 2))
            return torch.autograd.grad(product.sum(), leaves, allow_unused=True)

        return step

    _assert_linear(work)


PARTS = {
    "softcap": {"softcap": 3.0},
    "sinks": {"sinks": torch.zeros(1)},
    "ALiBi": {"bias": AlibiBias(1)},
    "T5": {"bias": T5RelativeBias(1)},
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_training_by_tiles_and_with_other_parts_takes_linear_memory(
    parts: dict[str, object],
) -> None:
    def work(n: int) -> Callable[[], object]:
        leaves = [tensor.requires_grad_() for tensor in _inputs(n)]

        def step() -> object:
            result = attention(*leaves, mask=causal_mask(), **parts)
            return torch.autograd.grad(result.context.sum() + result.logsumexp.sum(), leaves)

        return step

    _assert_linear(work)
