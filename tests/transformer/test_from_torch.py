"""PyTorch's own attention, taken over: equal outputs, though its masks mean the opposite."""

import pytest
import torch
from torch import nn

import clearhead as ch
from clearhead.errors import InputError, UnsupportedError
from clearhead.transformer.attention import MultiHeadAttention
from tests.accuracy import assert_double


def _pair(**settings: object) -> tuple[nn.MultiheadAttention, MultiHeadAttention]:
    theirs = nn.MultiheadAttention(24, 4, batch_first=True, dtype=torch.float64, **settings).eval()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.5)
    return theirs, MultiHeadAttention.from_torch(theirs)


@pytest.mark.parametrize("bias", [True, False])
def test_self_attention_gives_the_same(bias, generator):
    theirs, ours = _pair(bias=bias)
    x = torch.randn(2, 7, 24, generator=generator, dtype=torch.float64)
    assert_double(ours(x), theirs(x, x, x)[0])


def test_cross_attention_gives_the_same(generator):
    theirs, ours = _pair(kdim=10, vdim=10)
    x = torch.randn(2, 7, 24, generator=generator, dtype=torch.float64)
    y = torch.randn(2, 5, 10, generator=generator, dtype=torch.float64)
    assert_double(ours(x, y), theirs(x, y, y)[0])


def test_true_in_its_masks_means_must_not_look(generator):
    theirs, ours = _pair()
    x = torch.randn(2, 6, 24, generator=generator, dtype=torch.float64)
    hidden = torch.ones(6, 6, dtype=torch.bool).triu(1)
    padding = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    expected = theirs(x, x, x, attn_mask=hidden, key_padding_mask=padding)[0]
    mask = ch.Mask.from_tensor(~hidden) & ch.padding_mask(~padding)
    assert_double(ours(x, mask=mask), expected)
    assert_double(ours(x, mask=ch.causal_mask() & ch.padding_mask(~padding)), expected)


def test_weights_are_copies_in_the_same_dtype_and_mode():
    theirs = nn.MultiheadAttention(8, 2, dtype=torch.bfloat16)
    ours = MultiHeadAttention.from_torch(theirs)
    assert ours.training
    assert {parameter.dtype for parameter in ours.parameters()} == {torch.bfloat16}
    nn.init.zeros_(theirs.in_proj_weight)
    assert bool(ours.to_query.weight.any())


def test_what_cannot_be_taken_over_is_said_at_once():
    theirs = nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True, kdim=4, vdim=6)
    with pytest.raises(UnsupportedError) as caught:
        MultiHeadAttention.from_torch(theirs)
    assert str(caught.value) == (
        "this nn.MultiheadAttention cannot be taken over, 3 faults:\n"
        "  - kdim (4) and vdim (6) must be one source's width\n"
        "  - add_bias_kv: a learned key and value beside the source's are not known\n"
        "  - add_zero_attn: a key of zeros is not known; sinks=True is close to it"
    )


@pytest.mark.parametrize("given", [None, nn.Linear(2, 2)])
def test_what_is_no_attention_of_pytorch(given):
    with pytest.raises(InputError) as caught:
        MultiHeadAttention.from_torch(given)
    assert str(caught.value) == (
        f"module must be a torch.nn.MultiheadAttention, got {type(given).__name__}"
    )
