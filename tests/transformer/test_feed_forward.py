"""Feed-forward parts: formulas by hand, and the bits of the released models."""

import math

import pytest
import torch
from torch import nn

from clearhead.transformer.config import Experts, LayerKind
from clearhead.transformer.feed_forward import (
    ACTIVATIONS,
    BLOCK,
    ExpertFeedForward,
    FeedForward,
    make_feed_forward,
)
from clearhead.transformer.generation.plain import plain
from tests.accuracy import assert_double
from tests.transformer.doubled import Doubled
from tests.transformer.test_config import config

BY_HAND = {
    "gelu": lambda x: x * (1 + torch.erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "quick_gelu": lambda x: x / (1 + torch.exp(-1.702 * x)),
    "relu": lambda x: x.clamp(min=0),
    "silu": lambda x: x / (1 + torch.exp(-x)),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_activations_by_hand(name, generator):
    x = 3 * torch.randn(99, dtype=torch.float64, generator=generator)
    assert ACTIVATIONS.keys() == BY_HAND.keys()
    assert_double(ACTIVATIONS[name](x), BY_HAND[name](x))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("activation", BY_HAND)
def test_feed_forward_by_hand(activation, gated, bias, seeded_weights):
    part = FeedForward(6, 10, activation=activation, gated=gated, bias=bias).double()
    x, act = torch.randn(2, 3, 6, dtype=torch.float64), BY_HAND[activation]
    zero = torch.zeros((), dtype=torch.float64)

    def linear(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        assert (layer.bias is not None) == bias
        return x @ layer.weight.T + (layer.bias if bias else zero)

    if gated:
        inner = act(linear(part.gate, x)) * linear(part.up, x)
    else:
        assert part.gate is None
        inner = act(linear(part.up, x))
    assert inner.shape == (2, 3, 10)
    assert_double(part(x), linear(part.down, inner))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_feed_forward_is_bit_for_bit_that_of_llama(dtype, seeded_weights):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaMLP

    mlp = LlamaMLP(LlamaConfig(hidden_size=32, intermediate_size=48, mlp_bias=True)).to(dtype)
    ours, x = FeedForward(32, 48, bias=True).to(dtype), torch.randn(2, 5, 32).to(dtype)
    ours.load_state_dict({k.replace("_proj", ""): v for k, v in mlp.state_dict().items()})
    assert torch.equal(ours(x), mlp(x))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("chosen", [1, 2, 5])
def test_experts_by_hand(chosen, shared, seeded_weights):
    experts = Experts(count=5, chosen=chosen, d_ff=7, shared=shared)
    part = ExpertFeedForward(6, experts, activation="gelu").double()
    x = torch.randn(2, 4, 6, dtype=torch.float64)
    expected = part.shared(x) if shared else torch.zeros_like(x)
    for row, place in torch.cartesian_prod(torch.arange(2), torch.arange(4)).tolist():
        token = x[row, place]
        logits = part.router.weight @ token
        for expert in logits.argsort(descending=True)[:chosen].tolist():
            given = token * logits[expert].sigmoid()
            gate, up = given @ part.gates[expert], given @ part.ups[expert]
            expected[row, place] += (BY_HAND["gelu"](gate) * up) @ part.downs[expert]
    with Doubled():  # a share is else float32, as the released models have it
        assert_double(part(x), expected)


def test_a_tokens_experts_do_not_depend_on_its_neighbours(seeded_weights):
    part = ExpertFeedForward(6, Experts(count=4, chosen=1, d_ff=7), activation="silu").double()
    x = torch.randn(1, 9, 6, dtype=torch.float64)
    with Doubled():
        assert_double(torch.cat([part(x[:, i : i + 1]) for i in range(9)], 1), part(x))
    assert part(x[:, :0]).shape == (1, 0, 6)


def test_an_expert_that_nobody_chose_gets_no_gradient(seeded_weights):
    part = ExpertFeedForward(6, Experts(count=4, chosen=1, d_ff=7), activation="silu")
    part(torch.randn(1, 1, 6)).sum().backward()
    assert part.gates.grad.flatten(1).any(1).sum() == 1


def test_a_configuration_names_its_feed_forward_part():
    made = config(d_ff=48, activation="relu", gated=False, feed_forward_bias=True)
    plain = make_feed_forward(made, LayerKind())
    assert isinstance(plain, FeedForward)
    assert (plain.gate, plain.up.weight.shape, plain.activation) == (None, (48, 32), "relu")
    assert plain.down.bias is not None
    assert make_feed_forward(made, LayerKind(d_ff=5)).up.weight.shape == (5, 32)
    some = Experts(count=3, chosen=2, d_ff=9, shared=False)
    mixed = make_feed_forward(made, LayerKind(experts=some, d_ff=5))
    assert isinstance(mixed, ExpertFeedForward)
    assert (mixed.gates.shape, mixed.shared, mixed.chosen) == ((3, 32, 9), None, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("batch", "tokens"), [(1, 2 * BLOCK), (1, 2 * BLOCK + 437), (3, BLOCK)])
@pytest.mark.parametrize("gated", [False, True])
def test_many_tokens_go_by_blocks_with_the_bits_of_all(
    gated, batch, tokens, dtype, monkeypatch, seeded_weights
):
    part = FeedForward(96, 256, gated=gated).to(dtype).requires_grad_(False)
    x = torch.randn(batch, tokens, 96).to(dtype)
    unlike, widths = plain(part), []
    down = unlike.down
    unlike.down = lambda x: (widths.append(x.shape[:-1].numel()), down(x))[1]
    assert torch.equal(unlike(x), part(x))
    assert sum(widths) == batch * tokens
    assert len(widths) > 1
    assert BLOCK <= min(widths) <= max(widths) < 2 * BLOCK


def test_whoever_looks_on_sees_all_tokens_at_once(seeded_weights):
    part, seen = FeedForward(16, 32).requires_grad_(False), []
    part.gate.register_forward_hook(lambda _module, _given, made: seen.append(made))
    x = torch.randn(1, 2 * BLOCK, 16)
    for model in (part, plain(part)):
        model(x)
    assert [made.shape for made in seen] == [(1, 2 * BLOCK, 32)]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_nothing_a_gradient_needs_is_overwritten(activation, seeded_weights):
    part = FeedForward(6, 10, activation=activation).double()
    x = torch.randn(1, 3, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(part, x)
    held = part.gate(x).detach()
    gate = held.clone()
    part.gate.forward = lambda _x: gate
    with torch.no_grad():
        part(x)
    assert torch.equal(gate, held)
