"""The context compiles into one graph, and is what it was."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.pipeline.attention import attention
from tests.accuracy import assert_double
from tests.laws.calls import MASKS, draw

pytestmark = pytest.mark.compiled


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    torch._dynamo.reset()


def _compiled(backend: str, **rule: Any) -> Callable[..., Tensor]:
    def context(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return attention(query, key, value, **rule).context

    return torch.compile(context, fullgraph=True, backend=backend)


RULES: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": dict,
    "bias": lambda: {"bias": torch.randn(4, 30, 30, dtype=torch.float64)},
    "sinks": lambda: {"sinks": torch.randn(4, dtype=torch.float64)},
    "soft-cap": lambda: {"softcap": 2.0},
}


@pytest.mark.parametrize("part", RULES)
@pytest.mark.parametrize("kind", ["none", "causal", "window", "causal and padding", "document"])
def test_one_graph_gives_the_same_context(kind: str, part: str, generator: torch.Generator) -> None:
    call = draw(generator, n=30, dtype=torch.float64)
    rule = {"mask": MASKS[kind](30), **RULES[part]()}
    expected = attention(*call.tensors, **rule).context
    assert_double(_compiled("aot_eager", **rule)(*call.tensors), expected)


@pytest.mark.parametrize("kind", ["none", "causal", "causal and padding"])
def test_one_graph_gives_the_same_gradients(kind: str, generator: torch.Generator) -> None:
    call = draw(generator, n=30, dtype=torch.float64)
    plain, compiled = call.leaves(), call.leaves()
    rule = {"mask": MASKS[kind](30)}
    attention(*plain.tensors, **rule).context.square().sum().backward()
    _compiled("aot_eager", **rule)(*compiled.tensors).square().sum().backward()
    for mine, theirs in zip(compiled.tensors, plain.tensors, strict=True):
        assert_double(mine.grad, theirs.grad)


def test_inductor_compiles_it_too(generator: torch.Generator) -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs a C++ compiler: install g++")
    call = draw(generator, n=30, dtype=torch.float64)
    rule = {"mask": MASKS["causal and padding"](30)}
    expected = attention(*call.tensors, **rule).context
    assert_double(_compiled("inductor", **rule)(*call.tensors), expected)


def test_a_broken_key_that_no_row_sees_does_not_matter(generator: torch.Generator) -> None:
    call = draw(generator, n=30, dtype=torch.float64)
    rule = {"mask": MASKS["causal"](30)}
    context = _compiled("aot_eager", **rule)
    expected = context(*call.tensors)
    key, value = call.key.clone(), call.value.clone()
    key[:, :, 20], value[:, :, 20] = torch.nan, torch.inf
    found = context(call.query, key, value)
    assert torch.equal(found[:, :, :20], expected[:, :, :20])
    assert torch.isnan(found[:, :, 20:]).all()
