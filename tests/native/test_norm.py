"""The native RMS norm: as accurate as PyTorch's operations, and left to them where it cannot be."""

import pytest
import torch
from torch.nn.functional import rms_norm as peer

from clearhead.native.norm import rms_norm
from clearhead.transformer.norms import RMSNorm

ROUNDING = {torch.float32: 4 * 2.0**-23, torch.bfloat16: 2 * 2.0**-7}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1, 576), (1, 9, 1, 64), (1, 1), (1, 1, 7), (1, 3, 1, 4097)])
@pytest.mark.parametrize(("offset", "learned"), [(0.0, True), (1.0, True), (0.0, False)])
def test_it_is_the_formula(dtype, shape, offset, learned, generator) -> None:
    x = (3 * torch.randn(shape, generator=generator)).to(dtype)
    weight = torch.randn(shape[-1], generator=generator).to(dtype) if learned else None
    rounds = dtype != torch.float32 and not offset
    made = rms_norm(x, weight, epsilon=1e-5, offset=offset, rounds=rounds)
    factor = torch.ones(shape[-1]).double() if weight is None else offset + weight.double()
    truth = peer(x.double(), shape[-1:], factor, 1e-5)
    assert made.dtype == dtype
    assert made.shape == x.shape
    assert (made.double() - truth).abs().max() <= ROUNDING[dtype] * truth.abs().max()


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_in_16_bits_it_rounds_where_pytorchs_operations_do(offset, generator, monkeypatch) -> None:
    layer = RMSNorm(64, epsilon=1e-6, offset=offset).to(torch.bfloat16).requires_grad_(False)
    torch.nn.init.normal_(layer.weight)
    x = torch.randn(1, 40, 1, 64, generator=generator).bfloat16()
    ours = layer(x)
    monkeypatch.setattr("clearhead.transformer.norms.rms_norm", lambda *_, **__: None)
    # the sums of squares differ in their last bits, which a rounding to 16 seldom shows
    assert (ours != layer(x)).double().mean() < 0.01


def test_zeros_stay_finite_and_what_is_broken_stays_broken() -> None:
    given = {"weight": None, "epsilon": 1e-6, "offset": 0.0, "rounds": False}
    assert not rms_norm(torch.zeros(1, 5), **given).any()
    broken = torch.ones(1, 2, 1, 5)
    broken[0, 1, 0, 2] = torch.nan
    made = rms_norm(broken, **given)
    assert made[0, 0].isfinite().all()
    assert made[0, 1].isnan().all()


@pytest.mark.parametrize(
    "x",
    [
        torch.zeros(1, 3, dtype=torch.float64),
        torch.zeros(1, 3, dtype=torch.float16),
        torch.zeros(0, 1, 3),
        torch.zeros(1, 1, 0),
        torch.zeros(2, 3),
        torch.zeros(1, 2, 3),
        torch.zeros(2, 1, 3),
        torch.zeros(3),
        torch.zeros(1, 3, requires_grad=True),
        torch.zeros(1, 3, device="meta"),
    ],
)
def test_what_it_does_not_serve_it_leaves(x) -> None:
    assert rms_norm(x, None, epsilon=1e-6, offset=0.0, rounds=False) is None


def test_a_weight_of_another_dtype_is_left() -> None:
    x = torch.zeros(1, 4).bfloat16()
    assert rms_norm(x, torch.zeros(4), epsilon=1e-6, offset=0.0, rounds=False) is None


def test_strided_rows_are_read_as_they_stand(generator) -> None:
    x = torch.randn(1, 1, 12, generator=generator)[..., ::2]
    made = rms_norm(x, None, epsilon=1e-6, offset=0.0, rounds=False)
    torch.testing.assert_close(made, peer(x, (6,), None, 1e-6))
