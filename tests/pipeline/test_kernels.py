"""PyTorch's kernels, called so that what they get wrong cannot happen."""

import pytest
import torch
from torch.library import opcheck

from clearhead.pipeline import kernels
from clearhead.pipeline.kernels import gives_logsumexp, kernel, kernel_without_logsumexp
from tests.accuracy import assert_double
from tests.laws.calls import draw, laid_out


def _dense(query, key, value, *, bias, causal, scale):
    group = query.shape[1] // key.shape[1]
    key, value = (t.double().repeat_interleave(group, 1) for t in (key, value))
    scores = query.double() @ key.mT * scale
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(-1) @ value, scores.logsumexp(-1)


@pytest.mark.parametrize("run", [kernel, kernel_without_logsumexp])
# a kernel takes its own triangle or a bias
@pytest.mark.parametrize(("causal", "rows"), [(True, None), (False, None), (False, 1), (False, 9)])
def test_both_ways_to_a_kernel_are_right(run, causal, rows, generator) -> None:
    call = draw(generator, n=9, dtype=torch.float64)
    bias = None
    if rows is not None:
        bias = torch.randn(2, 1, rows, 9, generator=generator, dtype=torch.float64)
    told = {"bias": bias, "causal": causal, "scale": 0.3}
    context, logsumexp = run(*call.tensors, **told)
    truth, level = _dense(*call.tensors, **told)
    assert_double(context, truth)
    assert_double(logsumexp, level)


@pytest.mark.parametrize("strides", ["transposed", "inner", "every second", "expanded"])
def test_strides_do_not_matter(strides: str, generator: torch.Generator) -> None:
    # P#181133, P#187506: the operator itself reads a strided last axis as if it were dense
    tensors = [laid_out(tensor, strides) for tensor in draw(generator, n=33).tensors]
    told = {"bias": None, "causal": True, "scale": 0.3}
    mine = kernel(*tensors, **told)
    theirs = kernel(*(tensor.contiguous() for tensor in tensors), **told)
    assert torch.equal(mine[0], theirs[0])
    assert torch.equal(mine[1], theirs[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_logsumexp_is_a_natural_log_and_wide(
    dtype: torch.dtype, generator: torch.Generator
) -> None:
    # P#181645, flashinfer#4485
    call = draw(generator, n=20, dtype=dtype)
    told = {"bias": None, "causal": False, "scale": 0.3}
    _, level = kernel(*call.tensors, **told)
    assert level.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    truth = _dense(*call.tensors, **told)[1]
    assert (level - truth).abs().max() <= 5e-5 * truth.abs().max().clamp(min=1)


@pytest.mark.parametrize("rows", [1, 4])
def test_our_operator_keeps_pytorch_s_rules(rows: int, generator: torch.Generator) -> None:
    leaves = draw(generator, n=4, dtype=torch.float64).leaves()
    bias = torch.randn(1, 1, rows, 4, generator=generator, dtype=torch.float64)
    bias.requires_grad_()
    told = {"causal": False, "scale": 0.5}
    opcheck(torch.ops.clearhead.flash.default, (*leaves.tensors, bias), told)


def test_only_the_cpu_has_such_a_kernel_here() -> None:
    assert gives_logsumexp(torch.device("cpu"))
    assert not gives_logsumexp(torch.device("cuda"))
    assert not gives_logsumexp(torch.device("mps"))


def _watched(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the way back was given as the gradient of L, call by call."""
    given: list[object] = []
    original = kernels.gradients

    def watching(block, d_context, d_logsumexp):
        given.append((d_context is None, d_logsumexp is None))
        return original(block, d_context, d_logsumexp)

    monkeypatch.setattr(kernels, "gradients", watching)
    return given


@pytest.mark.parametrize("made", [True, False])
def test_only_what_was_used_comes_back(
    made: bool, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = _watched(monkeypatch)
    leaves = draw(generator, n=9, dtype=torch.float64).leaves()
    bias = torch.randn(1, 1, 9, 9, generator=generator, dtype=torch.float64)
    told = {"bias": (lambda: bias) if made else bias, "causal": False, "scale": 0.3}
    context, level = kernel(*leaves.tensors, **told)
    truth, true_level = _dense(*leaves.tensors, **{**told, "bias": bias})
    for mine, true in ((context, truth), (level, true_level)):
        ours = torch.autograd.grad(mine.sum(), leaves.tensors, retain_graph=True, allow_unused=True)
        dense = torch.autograd.grad(
            true.sum(), leaves.tensors, retain_graph=True, allow_unused=True
        )
        for found, expected in zip(ours, dense, strict=True):
            assert_double(found, torch.zeros_like(found) if expected is None else expected)
    assert given == [(False, True), (True, False)]


def test_gradients_of_the_context_have_the_bits_of_pytorch_s_own(
    generator: torch.Generator,
) -> None:
    leaves = draw(generator, kv_heads=4, n=70, d_k=64, d_v=64).leaves()
    pull = torch.randn(2, 4, 70, 64, generator=generator)
    mine, _ = kernel(*leaves.tensors, bias=None, causal=True, scale=0.125)
    theirs = torch.nn.functional.scaled_dot_product_attention(*leaves.tensors, is_causal=True)
    for ours, true in zip(
        torch.autograd.grad(mine, leaves.tensors, pull),
        torch.autograd.grad(theirs, leaves.tensors, pull),
        strict=True,
    ):
        assert torch.equal(ours, true)
