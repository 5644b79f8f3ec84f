"""A factor of 0 leaves out what it meets on the way back, and nothing else does."""

import pytest
import torch

from clearhead.pipeline.skipping import learned_beside_broken, skipping_product


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_zero_times_what_is_broken_is_nothing(broken: float, generator: torch.Generator) -> None:
    left = torch.randn(2, 3, 4, generator=generator)
    right = torch.randn(2, 5, 4, generator=generator)
    pull = torch.randn(2, 3, 5, generator=generator)
    pull[:, :2, 1] = 0.0
    plain = torch.autograd.grad((left.requires_grad_() @ right.mT * pull).sum(), left)[0]
    right[:, 1, 0] = broken
    found = torch.autograd.grad((skipping_product(left, right) * pull).sum(), left)[0]
    torch.testing.assert_close(found[:, :2], plain[:, :2])
    assert found[:, 2].isnan().all()


def test_it_is_asked_only_where_a_gradient_meets_what_is_broken() -> None:
    fine, broken = torch.zeros(2, 3), torch.full((2, 3), torch.nan)
    learned = torch.zeros(2, 3, requires_grad=True)
    assert learned_beside_broken(learned, broken)
    assert not learned_beside_broken(learned, fine)
    assert not learned_beside_broken(fine, broken)
    with torch.no_grad():
        assert not learned_beside_broken(learned, broken)
