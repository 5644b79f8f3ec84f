"""Rotary positions turn queries and keys as released models do: the same bits where they can be."""

import pytest
import torch

from clearhead.positions.kinds import Rotary
from clearhead.positions.rotary import RotaryEmbedding, rotate
from tests.accuracy import assert_context_accurate
from tests.positions.released import (
    D_K,
    KINDS,
    ORIGINAL,
    WIDTHS,
    draw,
    places,
    released_of,
    their_config,
    theta_of,
    turned_by_them,
)

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_turns_bit_for_bit_as_the_released_models(kind, width, dtype, generator):
    released = released_of(kind, generator, width=width)
    rotary = Rotary(theta_of(generator), released.scaling, width)
    x, where = draw(generator).to(dtype), places(generator)
    theirs = turned_by_them(x, where, their_config(released, rotary))
    phases = RotaryEmbedding(D_K, rotary).phases(where, dtype=dtype)
    assert torch.equal(rotate(x, phases), theirs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_turns_neighbours_bit_for_bit_as_gptj(width, dtype, generator):
    from transformers.models.gptj import modeling_gptj

    x, where = draw(generator).to(dtype), places(generator)
    table = modeling_gptj.create_sinusoidal_positions(8 * ORIGINAL, width)
    sine, cosine = table[where].to(dtype).chunk(2, dim=-1)
    turned = modeling_gptj.apply_rotary_pos_emb(x.transpose(1, 2)[..., :width], sine, cosine)
    theirs = torch.cat((turned.transpose(1, 2), x[..., width:]), dim=-1)
    rotary = RotaryEmbedding(D_K, Rotary(width=width, interleaved=True))
    assert torch.equal(rotate(x, rotary.phases(where, dtype=dtype)), theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_turns_in_float32_as_accurately_as_llama4(dtype, generator):
    # Llama 4 turns in float32 whatever the dtype of Q and K, by torch.polar, whose cosines are
    # another library's: the last bit may differ.
    from transformers import Llama4TextConfig
    from transformers.models.llama4.modeling_llama4 import (
        Llama4TextRotaryEmbedding,
        apply_rotary_emb,
    )

    x, where, theta = draw(generator).to(dtype), places(generator), theta_of(generator)
    released = released_of("llama3", generator)
    config = Llama4TextConfig(head_dim=D_K, rope_parameters={"rope_theta": theta, **released.rope})
    between = x.transpose(1, 2)
    plain, _ = apply_rotary_emb(between, between, Llama4TextRotaryEmbedding(config)(x, where))
    rotary = RotaryEmbedding(D_K, Rotary(theta, released.scaling, interleaved=True))
    ours = rotate(x, rotary.phases(where, dtype=torch.float32))
    angles = (where[..., None].float() * rotary.frequencies()).double()
    turns = torch.polar(torch.ones_like(angles), angles)[:, None]
    pairs = torch.view_as_complex(x.double().reshape(3, 2, 9, D_K // 2, 2))
    truth = torch.view_as_real(pairs * turns).flatten(-2)
    assert ours.dtype == dtype
    assert_context_accurate(ours, plain.transpose(1, 2), truth)
