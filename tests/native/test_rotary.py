"""The native rotation has the bits of PyTorch's operations in 16 bits, and their accuracy in 32."""

import pytest
import torch

from clearhead.native.rotary import turned
from clearhead.positions.rotary import Phases, rotate


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("heads", "width", "turning"), [(9, 64, 64), (1, 2, 2), (3, 10, 6)])
def test_it_is_the_rotation(dtype, interleaved, heads, width, turning, generator, monkeypatch):
    # as a layer cuts it: heads side by side in one token's vector
    x = torch.randn(1, 1, heads, width, generator=generator).to(dtype).transpose(1, 2)
    parts = (torch.randn(1, 1, 1, turning, generator=generator).to(dtype) for _ in range(2))
    phases = Phases(*parts, interleaved=interleaved)
    assert turned(x[..., :turning], phases.cosine, phases.sine, interleaved=interleaved) is not None
    ours = rotate(x, phases)
    monkeypatch.setattr("clearhead.positions.rotary.turned", lambda *_, **__: None)
    theirs = rotate(x, phases)
    assert ours.dtype == dtype
    if dtype == torch.bfloat16:
        assert torch.equal(ours, theirs)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=4 * 2.0**-23 * theirs.abs().max())


@pytest.mark.parametrize(
    ("shape", "dtype", "phases"),
    [
        ((2, 3, 1, 4), torch.float32, torch.float32),  # two texts
        ((1, 3, 2, 4), torch.float32, torch.float32),  # two tokens
        ((1, 3, 1, 4), torch.float64, torch.float64),
        ((1, 3, 1, 4), torch.bfloat16, torch.float32),
    ],
)
def test_what_it_does_not_serve_it_leaves(shape, dtype, phases) -> None:
    angles = torch.zeros(1, 1, shape[2], shape[3], dtype=phases)
    assert turned(torch.zeros(shape, dtype=dtype), angles, angles, interleaved=False) is None


def test_numbers_that_do_not_lie_side_by_side_are_left() -> None:
    x, angles = torch.zeros(1, 3, 4, 1).transpose(2, 3), torch.zeros(1, 1, 1, 4)
    assert x.stride(-1) == 1
    assert turned(torch.zeros(1, 3, 1, 8)[..., ::2], angles, angles, interleaved=False) is None
    spread = torch.zeros(1, 1, 1, 8)[..., ::2]
    assert turned(torch.zeros(1, 3, 1, 4), spread, angles, interleaved=False) is None
