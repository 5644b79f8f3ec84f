"""How quickly pairs turn: by hand, and the bits of transformers for every scaling."""

import math

import pytest
import torch

from clearhead.positions.frequencies import frequencies
from clearhead.positions.kinds import Rotary
from clearhead.positions.scaling import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    YarnScaling,
)
from tests.positions.released import (
    D_K,
    KINDS,
    ORIGINAL,
    WIDTHS,
    released_of,
    their_config,
    theta_of,
)


def lengths_of(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers)


def test_frequencies_by_hand():
    assert frequencies(Rotary(), width=4).tolist() == pytest.approx([1.0, 0.01])
    stretched = frequencies(Rotary(scaling=LinearScaling(4.0)), width=4)
    assert stretched.tolist() == pytest.approx([0.25, 0.0025])


def test_llama3_keeps_quick_pairs_blends_the_middle_and_stretches_slow_ones():
    # Wavelengths 6.28, 628.3 and 62,832 positions, against 1,000/4 and 1,000/1.
    scaling = Llama3Scaling(8.0, 1.0, 4.0, original_context=1000)
    got = frequencies(Rotary(1e6, scaling), width=6)
    blend = (1000 / (200 * math.pi) - 1) / (4 - 1)
    middle = (1 - blend) * 0.01 / 8 + blend * 0.01
    assert got.tolist() == pytest.approx([1.0, middle, 1e-4 / 8], rel=1e-5)


def test_yarn_keeps_quick_pairs_blends_the_middle_and_stretches_slow_ones():
    # Turns of pair p in 2,000π positions: 1000 · 10^(−p). So 90 and 1.1 turns stand a little above
    # place 1 and a little below place 3, and the blend goes from 1 to 3.
    rotary = Rotary(1e5, YarnScaling(8.0, 6283, 1.0, beta_fast=90.0, beta_slow=1.1))
    got = frequencies(rotary, width=10)
    kept = 0.5  # pair 2 stands midway between them
    middle = (1 - kept) * 1e-2 / 8 + kept * 1e-2
    assert got.tolist() == pytest.approx([1.0, 0.1, middle, 1e-3 / 8, 1e-4 / 8], rel=1e-5)


def test_dynamic_grows_the_base_with_the_length():
    rotary = Rotary(100.0, DynamicScaling(2.0, 50))
    got = frequencies(rotary, width=4, lengths=lengths_of(50, 100))
    grown = 100.0 * (2.0 * 100 / 50 - 1) ** 2
    expected = [[1.0, 0.1], [1.0, grown**-0.5]]
    assert torch.allclose(got, torch.tensor(expected))


def test_longrope_changes_all_factors_one_token_past_the_original_context():
    # Case 21 (T#33129): short within, long beyond.
    rotary = Rotary(100.0, LongRopeScaling((1.0, 2.0), (4.0, 5.0), 50, 1.0))
    got = frequencies(rotary, width=4, lengths=lengths_of(50, 51))
    torch.testing.assert_close(got, torch.tensor([[1.0, 0.05], [0.25, 0.02]]))
    assert torch.equal(frequencies(rotary, width=4), got[0])


@pytest.mark.parametrize("length", [1, ORIGINAL - 1, ORIGINAL, ORIGINAL + 1, 5 * ORIGINAL])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS[1:])
def test_frequencies_are_bit_for_bit_those_of_transformers(kind, width, length, generator):
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    released = released_of(kind, generator, width=width)
    rotary = Rotary(theta_of(generator), released.scaling, width=width)
    config = their_config(released, rotary)
    # At run time transformers hands over a tensor, and only beyond the original context.
    seq_len = torch.tensor(length) if length > ORIGINAL else None
    theirs, attention_factor = ROPE_INIT_FUNCTIONS[kind](config, seq_len=seq_len)
    ours = frequencies(rotary, width=width, lengths=lengths_of(length))
    assert torch.equal(ours.reshape(-1), theirs)
    assert getattr(released.scaling, "attention_factor", 1.0) == attention_factor


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize(("beta_fast", "beta_slow"), [(32.0, 1.0), (2.0, 1.9), (1e6, 1e5)])
def test_yarn_blends_where_transformers_does(beta_fast, beta_slow, truncate, generator):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    theta = theta_of(generator)
    rope = {
        "rope_type": "yarn",
        "rope_theta": theta,
        "factor": 4.0,
        "beta_fast": beta_fast,
        "beta_slow": beta_slow,
        "truncate": truncate,
        "original_max_position_embeddings": ORIGINAL,
    }
    config = LlamaConfig(head_dim=D_K, max_position_embeddings=4 * ORIGINAL, rope_parameters=rope)
    theirs, _ = ROPE_INIT_FUNCTIONS["yarn"](config)
    scaling = YarnScaling(4.0, ORIGINAL, 1.0, beta_fast, beta_slow, truncate)
    assert torch.equal(frequencies(Rotary(theta, scaling), width=D_K), theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_matter_only_where_frequencies_depend_on_them(kind, generator):
    released = released_of(kind, generator)
    rotary = Rotary(theta_of(generator), released.scaling)
    short, long = (
        frequencies(rotary, width=D_K, lengths=lengths_of(length)).reshape(-1)
        for length in (ORIGINAL, ORIGINAL + 1)
    )
    assert torch.equal(short, frequencies(rotary, width=D_K))
    assert torch.equal(short, long) != rotary.depends_on_length


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_a_text_has_its_frequencies_whoever_stands_beside_it(kind, generator):
    released = released_of(kind, generator)
    rotary = Rotary(theta_of(generator), released.scaling)
    lengths = torch.randint(1, 5 * ORIGINAL, (33,), generator=generator)
    together = frequencies(rotary, width=D_K, lengths=lengths)
    alone = [frequencies(rotary, width=D_K, lengths=length) for length in lengths.split(1)]
    assert torch.equal(together, torch.cat(alone))
    assert frequencies(rotary, width=D_K, lengths=lengths[:0]).shape == (0, D_K // 2)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_scaling_is_applied(kind, generator):
    # Case 22 (mlx-vlm#1710): read from the config, never applied.
    released = released_of(kind, generator)
    theta, long = theta_of(generator), lengths_of(5 * ORIGINAL)
    plain = frequencies(Rotary(theta), width=D_K)
    scaled = frequencies(Rotary(theta, released.scaling), width=D_K, lengths=long)
    assert not torch.equal(scaled.reshape(-1), plain)
