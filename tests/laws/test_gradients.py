"""Gradients reach Q, K, V, bias and sinks through C, L, S and A, whatever serves the call."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from clearhead.pipeline import fused
from clearhead.pipeline.attention import attention
from clearhead.pipeline.result import AttentionResult
from tests.laws.calls import MASKS, draw


def _finite(tensor: Tensor) -> Tensor:
    """−inf has no gradient: leave it out."""
    return torch.where(torch.isfinite(tensor), tensor, torch.zeros_like(tensor))


READ: dict[str, Callable[[AttentionResult], Tensor]] = {
    "context": lambda result: result.context,
    "logsumexp": lambda result: _finite(result.logsumexp),
    "scores": lambda result: _finite(result.scores.to_dense()),
    "weights": lambda result: result.weights[..., 1:, :],
    "product": lambda result: result.weights.matvec(torch.eye(6, dtype=torch.float64)),
}


def _check(read: str, generator: torch.Generator, **rule: Any) -> None:
    call = draw(generator, n=6, d_k=3, d_v=2, dtype=torch.float64).leaves()
    bias = torch.randn(4, 6, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    sinks = torch.randn(4, generator=generator, dtype=torch.float64, requires_grad=True)

    def made(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, sinks: Tensor) -> Tensor:
        return READ[read](attention(query, key, value, bias=bias, sinks=sinks, **rule))

    assert gradcheck(made, (*call.tensors, bias, sinks), fast_mode=True)


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("kind", MASKS)
def test_gradients_of_the_kernel_are_right(
    kind: str, read: str, generator: torch.Generator
) -> None:
    _check(read, generator, mask=MASKS[kind](6), impl="fused")


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("kind", ["causal", "padding", "tree"])
def test_gradients_of_tiles_are_right(kind: str, read: str, generator: torch.Generator) -> None:
    _check(read, generator, mask=MASKS[kind](6), impl="tiles", softcap=2.0)


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("kind", ["none", "causal", "causal and padding"])
def test_gradients_are_right_where_kernels_keep_l(
    kind: str, read: str, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused, "gives_logsumexp", lambda _: False)
    _check(read, generator, mask=MASKS[kind](6), impl="fused")


@pytest.mark.parametrize("kind", MASKS)
def test_without_bias_and_sinks_too(kind: str, generator: torch.Generator) -> None:
    call = draw(generator, n=6, d_k=3, d_v=4, dtype=torch.float64).leaves()

    def made(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        result = attention(query, key, value, mask=MASKS[kind](6))
        return result.context, _finite(result.logsumexp)

    assert gradcheck(made, call.tensors, fast_mode=True)


@pytest.mark.parametrize("impl", ["fused", "tiles", "reference"])
def test_a_row_that_sees_nothing_sends_nothing_back(impl: Any, generator: torch.Generator) -> None:
    # P#103963: eight rows, of which four see four keys and four see nothing
    from clearhead.masks import Mask

    allowed = torch.zeros(8, 8, dtype=torch.bool)
    allowed[:4, :4] = True
    call = draw(generator, n=8).leaves()
    result = attention(*call.tensors, mask=Mask.from_tensor(allowed), impl=impl)
    assert torch.equal(result.context[:, :, 4:], torch.zeros_like(result.context[:, :, 4:]))
    result.context.square().sum().backward()
    for tensor in call.tensors:
        assert tensor.grad is not None
        assert torch.isfinite(tensor.grad).all()
    assert not call.query.grad[:, :, 4:].any()
    assert not call.key.grad[:, :, 4:].any()


def test_a_broken_key_that_no_row_sees_spoils_no_gradient(generator: torch.Generator) -> None:
    call = draw(generator, n=8)
    keep = torch.ones(8, dtype=torch.bool)
    keep[0] = False
    from clearhead.masks import padding_mask

    clean, broken = call.leaves(), call.leaves()
    with torch.no_grad():
        broken.key[:, :, 0] = torch.nan
        broken.value[:, :, 0] = torch.inf
    for leaves in (clean, broken):
        attention(*leaves.tensors, mask=padding_mask(keep)).context.square().sum().backward()
    for mine, theirs in zip(broken.tensors, clean.tensors, strict=True):
        assert torch.equal(mine.grad, theirs.grad)
