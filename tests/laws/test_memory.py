"""Memory is linear: nothing of n·m entries is ever made, whatever the rule and whatever is read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from clearhead.masks import Mask, causal_mask, document_mask, padding_mask, sliding_window_mask
from clearhead.pipeline.attention import attention
from clearhead.pipeline.result import AttentionResult
from clearhead.positions.bias import AlibiBias, T5RelativeBias

N = 4096


class _Largest(TorchDispatchMode):
    """Remembers the most memory that one tensor of its own took."""

    def __init__(self) -> None:
        super().__init__()
        self.nbytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(tensor, Tensor):
                # the memory behind it: a view or an expanded tensor takes none of its own
                self.nbytes = max(self.nbytes, tensor.untyped_storage().nbytes())
        return made


@contextmanager
def largest() -> Iterator[_Largest]:
    with _Largest() as watched:
        yield watched


def _documents(n: int) -> Mask:
    return document_mask(torch.arange(n) // 700) & causal_mask()


def _padded(n: int) -> Mask:
    keep = torch.ones(n, dtype=torch.bool)
    keep[: n // 8] = False
    return causal_mask() & padding_mask(keep)


RULES: dict[str, Callable[[int], dict[str, Any]]] = {
    "none": lambda _n: {},
    "causal": lambda _n: {"mask": causal_mask()},
    "window": lambda _n: {"mask": causal_mask() & sliding_window_mask(512)},
    "documents": lambda n: {"mask": _documents(n)},
    "padding": lambda n: {"mask": _padded(n)},
    "not causal": lambda _n: {"mask": ~causal_mask()},
    "sinks": lambda _n: {"mask": causal_mask(), "sinks": torch.zeros(1)},
    "soft-cap": lambda _n: {"mask": causal_mask(), "softcap": 20.0},
    "ALiBi": lambda _n: {"mask": causal_mask(), "bias": AlibiBias(1)},
    "ALiBi, one start a row": lambda _n: {"bias": AlibiBias(1), "query_start": torch.tensor([7])},
    "T5": lambda _n: {"bias": T5RelativeBias(1)},
    "one bias a key": lambda n: {"mask": causal_mask(), "bias": torch.zeros(1, n)},
}
READS: dict[str, Callable[[AttentionResult], object]] = {
    "context": lambda result: result.context,
    "a row": lambda result: result.weights[0, 0, N - 1],
    "received": lambda result: result.weights.received(),
    "top keys": lambda result: result.weights.top_keys(4),
    "pooled": lambda result: result.weights.pooled(64),
    "a product": lambda result: result.weights.matvec(torch.zeros(N, 2)),
}


def _inputs(n: int) -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(1, 1, n, 8), torch.randn(1, 1, n, 8), torch.randn(1, 1, n, 8)


@pytest.mark.parametrize("kind", RULES)
def test_no_tensor_of_n_by_m_is_made_for_the_context(kind: str) -> None:
    rule = RULES[kind](N)
    query, key, value = _inputs(N)
    with largest() as watched:
        attention(query, key, value, **rule)
    assert watched.nbytes <= N * N * 4 // 4  # a quarter of A, and A has one head here


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("kind", ["causal", "window", "padding", "ALiBi", "T5"])
def test_no_tensor_of_n_by_m_is_made_for_reading(kind: str, read: str) -> None:
    result = attention(*_inputs(N), **RULES[kind](N))
    with largest() as watched:
        READS[read](result)
    assert watched.nbytes <= N * N * 4 // 4


@pytest.mark.parametrize("rows", [list(range(N)), torch.arange(N), slice(None)], ids=type)
def test_nor_for_reading_a_few_columns_of_many_rows_in_half_precision(rows: Any) -> None:
    query, key, value = (tensor.bfloat16() for tensor in _inputs(N))
    result = attention(query, key, value, mask=causal_mask())
    with largest() as watched:
        result.weights.tile(rows, range(4))
    assert watched.nbytes <= N * N * 4 // 4


@pytest.mark.parametrize("kind", ["causal", "window", "padding", "soft-cap", "ALiBi", "T5"])
def test_no_tensor_of_n_by_m_is_made_for_gradients(kind: str) -> None:
    leaves = [tensor.requires_grad_() for tensor in _inputs(N)]
    with largest() as watched:
        attention(*leaves, **RULES[kind](N)).context.sum().backward()
    assert watched.nbytes <= N * N * 4 // 4


@pytest.mark.parametrize("kind", ["causal", "window", "padding", "documents", "ALiBi", "T5"])
def test_twice_the_length_takes_twice_the_memory(kind: str) -> None:
    peaks: list[int] = []
    for n in (N, 2 * N):
        rule = RULES[kind](n)
        inputs = _inputs(n)
        with largest() as watched:
            attention(*inputs, **rule)
        peaks.append(watched.nbytes)
    assert peaks[1] <= 2.2 * peaks[0]
