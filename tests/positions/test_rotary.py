"""Rotary positions: angles by hand, laws of turning, and the bits of the released models."""

import math

import pytest
import torch

from clearhead.errors import InputError
from clearhead.positions.rotary import RotaryEmbedding, rotate
from clearhead.positions.scaling import LinearScaling, Llama3Scaling

EPS32 = 2.0**-23
SCALINGS = [
    pytest.param(None, {"rope_type": "default"}, id="none"),
    pytest.param(LinearScaling(3.0), {"rope_type": "linear", "factor": 3.0}, id="linear"),
    pytest.param(
        Llama3Scaling(8.0, 1.0, 4.0, 64),
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
        id="llama3",
    ),
]


def test_frequencies_by_hand():
    assert RotaryEmbedding(4).frequencies().tolist() == pytest.approx([1.0, 0.01])
    stretched = RotaryEmbedding(4, scaling=LinearScaling(4.0)).frequencies()
    assert stretched.tolist() == pytest.approx([0.25, 0.0025])


def test_llama3_keeps_quick_pairs_blends_the_middle_and_stretches_slow_ones():
    # Wavelengths 6.28, 628.3 and 62,832 positions, against 1,000/4 and 1,000/1.
    scaling = Llama3Scaling(8.0, 1.0, 4.0, original_context=1000)
    got = RotaryEmbedding(6, theta=1e6, scaling=scaling).frequencies()
    blend = (1000 / (200 * math.pi) - 1) / (4 - 1)
    middle = (1 - blend) * 0.01 / 8 + blend * 0.01
    assert got.tolist() == pytest.approx([1.0, middle, 1e-4 / 8], rel=1e-5)


def test_a_pair_turns_by_its_position():
    x = torch.tensor([1.0, 0.0]).expand(1, 1, 3, 2)
    phases = RotaryEmbedding(2).phases(torch.tensor([[0, 1, 2]]), dtype=torch.float32)
    expected = [[math.cos(i), math.sin(i)] for i in range(3)]
    torch.testing.assert_close(rotate(x, phases), torch.tensor([[expected]]))


def test_a_product_depends_on_the_distance_alone(generator):
    q, k = torch.randn(2, 1, 1, 1, 16, generator=generator, dtype=torch.float64)
    rotary, furthest = RotaryEmbedding(16), 1000

    def product(i: int, j: int) -> float:
        at_i, at_j = (rotary.phases(torch.tensor([[p]]), dtype=torch.float64) for p in (i, j))
        return float((rotate(q, at_i) * rotate(k, at_j)).sum())

    # An angle of p rounds by p · eps at most, in four places.
    allowed = 4 * furthest * EPS32 * float(q.norm() * k.norm())
    assert product(furthest, furthest - 7) == pytest.approx(product(7, 0), abs=allowed)
    assert product(furthest, furthest - 7) != pytest.approx(product(8, 0), abs=allowed)


def test_turning_keeps_lengths(generator):
    x = torch.randn(2, 3, 5, 8, generator=generator, dtype=torch.float64)
    phases = RotaryEmbedding(8).phases(torch.arange(5)[None], dtype=torch.float64)
    lengths = rotate(x, phases).norm(dim=-1) / x.norm(dim=-1)
    assert (lengths - 1).abs().max() <= 4 * EPS32


def test_no_phases_turn_nothing(generator):
    x = torch.randn(1, 2, 3, 4, generator=generator)
    assert rotate(x, None) is x


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_positions_are_never_rounded_to_sixteen_bits(dtype):
    # bfloat16 has no 15,962: it would read 15,936, another angle altogether.
    phases = RotaryEmbedding(2).phases(torch.tensor([[15962]]), dtype=dtype)
    assert phases.cosine.dtype == dtype
    assert float(phases.cosine) == float(torch.tensor(math.cos(15962)).to(dtype))
    assert abs(float(phases.cosine) - math.cos(15936)) > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("scaling", "rope"), SCALINGS)
def test_turns_bit_for_bit_as_the_released_models(scaling, rope, dtype, generator):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import (
        LlamaRotaryEmbedding,
        apply_rotary_pos_emb,
    )

    config = LlamaConfig(head_dim=16, rope_parameters={"rope_theta": 500.0, **rope})
    x = torch.randn(2, 3, 9, 16, generator=generator).to(dtype)
    positions = torch.randint(0, 8192, (2, 9), generator=generator)
    theirs, _ = apply_rotary_pos_emb(x, x, *LlamaRotaryEmbedding(config)(x, positions))
    phases = RotaryEmbedding(16, 500.0, scaling).phases(positions, dtype=dtype)
    assert torch.equal(rotate(x, phases), theirs)


def test_a_width_that_makes_no_pairs_is_refused():
    with pytest.raises(InputError) as caught:
        RotaryEmbedding(5, theta=0.0)
    assert str(caught.value) == (
        "RotaryEmbedding, 2 faults:\n"
        "  - d_k must be even and positive, got 5: numbers turn in pairs\n"
        "  - theta must be positive and finite, got 0.0"
    )
