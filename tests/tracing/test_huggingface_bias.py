"""T5's bias on its way through transformers' layers: the same numbers, never written out."""

import pytest
import torch
from torch import nn

from clearhead.errors import UnsupportedError
from clearhead.positions.bias import T5RelativeBias
from clearhead.tracing.huggingface import register_attention
from clearhead.tracing.huggingface_attention import attention_function
from clearhead.tracing.huggingface_bias import bias_of, lazy_biases
from tests.tracing.families import OURS, TRACED, made

T5 = OURS["t5"]
UMT5 = ("UMT5ForConditionalGeneration", T5[1])


def with_bias(model):
    return [
        module for module in model.modules() if getattr(module, "has_relative_attention_bias", 0)
    ]


@pytest.mark.parametrize("family", [T5, UMT5], ids=["T5", "UMT5"])
def test_a_bias_made_by_tiles_has_the_layers_own_numbers(family, seeded_weights):
    model = made(family)
    for module in with_bias(model):
        nn.init.normal_(module.relative_attention_bias.weight)
        written = module.compute_bias(9, 40)
        with lazy_biases(model):
            lazy = module.compute_bias(9, 40)
            assert isinstance(lazy, T5RelativeBias)
            assert torch.equal(lazy.tile(range(9), range(40)), written)
        assert torch.equal(module.compute_bias(9, 40), written)


def test_what_was_put_on_a_model_is_taken_off_again(seeded_weights):
    model = made(T5)
    before = [(dict(vars(m)), len(m._forward_pre_hooks)) for m in model.modules()]

    def fail():
        with lazy_biases(model):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert [(dict(vars(m)), len(m._forward_pre_hooks)) for m in model.modules()] == before


def test_a_model_without_such_layers_is_left_alone(seeded_weights):
    model = made(TRACED["llama"])
    with lazy_biases(model):
        assert not any(module._forward_pre_hooks for module in model.modules())


def test_zeros_of_a_layer_without_a_bias_are_none(seeded_weights):
    model = made(UMT5)
    across = model.decoder.block[0].layer[1].EncDecAttention
    own = model.decoder.block[0].layer[0].SelfAttention
    dense = torch.zeros(1, 4, 3, 5)
    assert bias_of(across, dense) is None
    assert bias_of(own, dense) is dense
    # a layer of T5 without a table is handed the first one's
    second = made(T5).decoder.block[1].layer[0].SelfAttention
    assert bias_of(second, dense) is dense
    assert bias_of(nn.Identity(), None) is None


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_a_mask_of_the_users_own_stands_beside_a_bias_by_position(dtype, generator):
    register_attention()
    query, key, value = (torch.randn(1, 2, 4, 8, generator=generator) for _ in range(3))
    bias = T5RelativeBias(2, buckets=8, max_distance=10).requires_grad_(requires_grad=False)
    nn.init.normal_(bias.weight, generator=generator)
    allowed = torch.ones(1, 1, 4, 4, dtype=torch.bool).tril()
    lowest = torch.finfo(torch.float32).min
    added = torch.zeros(1, 1, 4, 4).masked_fill(~allowed, lowest)
    mask = allowed if dtype == torch.bool else added
    given = {"scaling": 1.0, "position_bias": bias}
    made_context, _ = attention_function(nn.Identity(), query, key, value, mask, **given)
    scores = query @ key.mT + bias.tile(range(4), range(4))
    expected = scores.masked_fill(~allowed, -torch.inf).softmax(-1) @ value
    torch.testing.assert_close(made_context.transpose(1, 2), expected)


def test_numbers_of_a_mask_beside_a_bias_by_position_are_refused(generator):
    query, key, value = (torch.randn(1, 2, 4, 8, generator=generator) for _ in range(3))
    bias = T5RelativeBias(2, buckets=8, max_distance=10)
    with pytest.raises(UnsupportedError) as caught:
        attention_function(
            nn.Identity(), query, key, value, torch.ones(1, 1, 4, 4), position_bias=bias
        )
    assert str(caught.value) == (
        "Identity adds numbers of a mask to a bias by position; give a mask of 0 and −∞"
    )
