"""The layer: what it multiplies is the product of one place, and it is PyTorch's layer still."""

import torch
from torch import nn

from clearhead.native.linear import linear
from clearhead.transformer.linear import Linear


def test_it_is_pytorchs_layer_with_our_product(generator) -> None:
    layer = Linear(256, 300)
    assert isinstance(layer, nn.Linear)
    for rows in (1, 3):
        x = torch.randn(rows, 256, generator=generator)
        assert torch.equal(layer(x), linear(x, layer.weight, layer.bias))


def test_gradients_go_through(generator) -> None:
    layer = Linear(256, 257)
    layer(torch.randn(1, 256, generator=generator)).sum().backward()
    assert layer.weight.grad is not None
    assert layer.bias.grad is not None


def test_a_bias_is_not_written_into(generator) -> None:
    layer = Linear(256, 300)
    before = layer.bias.detach().clone()
    with torch.no_grad():
        layer(torch.randn(1, 256, generator=generator))
    assert torch.equal(layer.bias, before)
