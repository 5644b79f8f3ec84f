"""The way back through a block of a kernel: of C and of L, with what is broken kept out."""

import pytest
import torch
from torch import Tensor
from torch.library import opcheck

from clearhead.pipeline.kernel_gradients import Served, bias_gradient, gradients, spread
from clearhead.pipeline.kernels import kernel
from tests.accuracy import assert_double
from tests.laws.calls import Drawn, draw

N, SCALE = 9, 0.4


def _served(call: Drawn, bias: Tensor | None, *, causal: bool) -> Served:
    with torch.no_grad():
        made = kernel(*call.tensors, bias=bias, causal=causal, scale=SCALE)
    return Served(*call.tensors, bias, *made, causal=causal, scale=SCALE)


def _dense(call: Drawn, bias: Tensor | None, *, causal: bool) -> tuple[Tensor, Tensor]:
    key, value = (t.repeat_interleave(2, 1) for t in (call.key, call.value))
    scores = call.query @ key.mT * SCALE
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = scores.masked_fill(torch.ones(N, N).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ value, scores.logsumexp(-1)


@pytest.fixture
def call(generator: torch.Generator) -> Drawn:
    return draw(generator, n=N, dtype=torch.float64)


@pytest.fixture
def pulls(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """dC and dL."""
    shapes = ((2, 4, N, 8), (2, 4, N))
    return tuple(torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes)


# a kernel takes its own triangle or a bias
@pytest.mark.parametrize(
    ("causal", "shape"),
    [(True, None), *((False, s) for s in (None, (1, 1, 1, N), (2, 1, N, N), (1, 4, N, N)))],
    ids=str,
)
def test_gradients_of_c_and_l_are_those_of_the_formula(
    shape: tuple[int, ...] | None,
    causal: bool,
    call: Drawn,
    pulls: tuple[Tensor, Tensor],
    generator: torch.Generator,
) -> None:
    bias = None
    if shape is not None:
        bias = torch.randn(shape, generator=generator, dtype=torch.float64)
    leaves = call.leaves()
    learned = None if bias is None else bias.clone().requires_grad_()
    made = _dense(leaves, learned, causal=causal)
    asked = [*leaves.tensors, *([] if learned is None else [learned])]
    for d_context, d_level in (pulls, (pulls[0], None), (None, pulls[1])):
        summed = 0 * made[0].sum() if d_context is None else (made[0] * d_context).sum()
        summed = summed if d_level is None else summed + (made[1] * d_level).sum()
        truth = torch.autograd.grad(summed, asked, retain_graph=True)
        block = _served(call, bias, causal=causal)
        found = list(gradients(block, d_context, d_level))
        if bias is not None:
            found.append(bias_gradient(block, d_context, d_level))
        for mine, true in zip(found, truth, strict=True):
            assert_double(mine, true)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e308])
@pytest.mark.parametrize("which", ["key", "value"])
def test_a_row_that_does_not_see_what_is_broken_has_its_gradient(
    which: str, value: float, call: Drawn, pulls: tuple[Tensor, Tensor]
) -> None:
    broken = Drawn(*(tensor.clone() for tensor in call.tensors))
    getattr(broken, which)[:, :, N - 1] = value  # the last row alone sees it
    pulls = tuple(pull.index_fill(2, torch.tensor([N - 1]), 0.0) for pull in pulls)
    calm = gradients(_served(call, None, causal=True), *pulls)
    found = gradients(_served(broken, None, causal=True), *pulls)
    for mine, true in zip(found, calm, strict=True):
        assert torch.equal(mine, true)


@pytest.mark.parametrize("which", ["key", "value"])
def test_a_row_that_sees_what_is_broken_has_none(
    which: str, call: Drawn, pulls: tuple[Tensor, Tensor]
) -> None:
    getattr(call, which)[0, 0, 3] = torch.nan
    d_query, _, _ = gradients(_served(call, None, causal=True), *pulls)
    sees = torch.zeros(2, 4, N, dtype=torch.bool)
    sees[0, :2, 3:] = True
    assert torch.equal(d_query.isnan().all(-1), sees)
    assert torch.equal(d_query.isnan().any(-1), sees)


def test_a_bias_is_spread_without_a_copy(generator: torch.Generator) -> None:
    bias = torch.randn(2, 1, 1, 5, generator=generator)
    query, key = torch.zeros(2, 4, 7, 3), torch.zeros(2, 4, 5, 3)
    found = spread(bias, query, key)
    assert found.shape == (2, 1, 7, 5)
    assert found.data_ptr() == bias.data_ptr()
    assert spread(None, query, key) is None


def test_a_tile_that_is_made_again_gives_the_same_gradients(
    call: Drawn, pulls: tuple[Tensor, Tensor], generator: torch.Generator
) -> None:
    bias = torch.randn(2, 1, N, N, generator=generator, dtype=torch.float64)
    bias[bias > 1] = -torch.inf
    calls = 0

    def make() -> Tensor:
        nonlocal calls
        calls += 1
        return bias.clone()

    kept, again = call.leaves(), call.leaves()
    told = {"causal": False, "scale": SCALE}
    for leaves, given in ((kept, bias), (again, make)):
        context, level = kernel(*leaves.tensors, bias=given, **told)
        torch.autograd.backward((context, level), pulls)
    assert calls == 2  # on the way there and on the way back
    for mine, true in zip(again.tensors, kept.tensors, strict=True):
        assert torch.equal(mine.grad, true.grad)
    context, _ = kernel(*call.tensors, bias=make, **told)
    assert calls == 3  # nothing is kept where nothing is learned
    assert torch.equal(context, kernel(*call.tensors, bias=bias, **told)[0])


def test_the_operator_keeps_pytorch_s_rules(call: Drawn, pulls: tuple[Tensor, Tensor]) -> None:
    block = _served(call, None, causal=True)
    given = (*call.tensors, None, block.context, block.logsumexp, *pulls)
    told = {"causal": True, "scale": SCALE}
    opcheck(torch.ops.clearhead.flash_backward.default, given, told)


def test_l_alone_is_none_through_a_row_that_sees_a_broken_key(
    call: Drawn, pulls: tuple[Tensor, Tensor]
) -> None:
    clean = gradients(_served(call, None, causal=True), None, pulls[1])
    call.value[0, 0, 3] = torch.nan  # L asks nothing of V
    found = gradients(_served(call, None, causal=True), None, pulls[1])
    for mine, true in zip(found, clean, strict=True):
        assert_double(mine, true)
    call.key[0, 0, 3] = torch.nan
    d_query, d_key, _ = gradients(_served(call, None, causal=True), None, pulls[1])
    sees = torch.zeros(2, 4, N, dtype=torch.bool)
    sees[0, :2, 3:] = True
    assert torch.equal(d_query.isnan().any(-1), sees)
    assert d_key.isfinite().all()


def test_a_learned_bias_has_a_gradient_beside_a_broken_key_that_is_hidden(
    call: Drawn, pulls: tuple[Tensor, Tensor]
) -> None:
    bias = torch.zeros(1, 1, N, N, dtype=torch.float64)
    bias[..., 2] = -torch.inf
    clean = bias_gradient(_served(call, bias, causal=False), *pulls)
    call.key[0, 0, 2], call.value[1, 1, 2] = torch.nan, torch.inf
    assert torch.equal(bias_gradient(_served(call, bias, causal=False), *pulls), clean)
