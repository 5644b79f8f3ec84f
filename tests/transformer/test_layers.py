"""One layer: where it norms, what it adds, and what its parts are told."""

import pytest
import torch

from clearhead.errors import ClearheadError
from clearhead.masks import causal_mask, padding_mask
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tap import Site
from clearhead.positions.rotary import RotaryEmbedding
from clearhead.transformer.config import Experts, LayerKind
from clearhead.transformer.feed_forward import ExpertFeedForward
from clearhead.transformer.layers import Layer, LayerCall
from tests.transformer.tiny_models import BOTH, DECODERS, ENCODERS, tiny_config

ALL = [*DECODERS, *ENCODERS, *BOTH]


def layer(name: str, index: int = 0, **changed: object) -> Layer:
    made = Layer(tiny_config(name, **changed), index).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made


@pytest.fixture
def x(generator):
    return torch.randn(2, 7, 16, dtype=torch.float64, generator=generator)


@pytest.fixture
def call(generator):
    phases = RotaryEmbedding(4).phases(torch.arange(7)[None], dtype=torch.float64)
    return LayerCall(rule=ScoreRule(mask=causal_mask()), phases=phases)


def test_norms_before_each_part(x, call, seeded_weights):
    part = layer("grouped heads")
    y = x + part.attention(part.attention_norm(x), rule=call.rule, phases=call.phases)
    assert torch.equal(part(x, call), y + part.feed_forward(part.feed_forward_norm(y)))
    assert (part.attention_out_norm, part.feed_forward_out_norm) == (None, None)


def test_norms_after_each_sum(x, call, seeded_weights):
    part = layer("sinusoids")
    y = part.attention_norm(x + part.attention(x, rule=call.rule, phases=call.phases))
    assert torch.equal(part(x, call), part.feed_forward_norm(y + part.feed_forward(y)))


def test_norms_around_each_part(x, call, seeded_weights):
    part = layer("grouped heads", norm_place="around")
    update = part.attention(part.attention_norm(x), rule=call.rule, phases=call.phases)
    y = x + part.attention_out_norm(update)
    update = part.feed_forward(part.feed_forward_norm(y))
    assert torch.equal(part(x, call), y + part.feed_forward_out_norm(update))


def test_both_parts_side_by_side(x, call, seeded_weights):
    part = layer("side by side")
    update = part.attention(part.attention_norm(x), rule=call.rule, phases=call.phases)
    expected = x + (part.feed_forward(part.feed_forward_norm(x)) + update)
    assert torch.equal(part(x, call), expected)


@pytest.mark.parametrize("name", ["distances alone", "as first published", "norms around"])
def test_cross_attention_stands_between_the_two(name, x, generator, seeded_weights):
    part = layer(name)
    source = torch.randn(2, 9, 16, dtype=torch.float64, generator=generator)
    real = torch.ones(2, 9, dtype=torch.bool)
    real[0, 6:] = False
    rule, cross = ScoreRule(mask=causal_mask()), ScoreRule(mask=padding_mask(real))
    call = LayerCall(rule=rule, source=source, cross_rule=cross)

    def added(x, attend, norm, out):
        if name == "as first published":
            return norm(x + attend(x))
        update = attend(norm(x))
        return x + (update if out is None else out(update))

    y = added(
        x,
        lambda x: part.attention(x, rule=rule),
        part.attention_norm,
        part.attention_out_norm,
    )
    y = added(
        y,
        lambda x: part.cross_attention(x, source, rule=cross),
        part.cross_attention_norm,
        part.cross_attention_out_norm,
    )
    y = added(y, part.feed_forward, part.feed_forward_norm, part.feed_forward_out_norm)
    assert torch.equal(part(x, call), y)


@pytest.mark.parametrize("name", ALL)
def test_a_layer_has_the_sizes_of_its_configuration(name):
    config = tiny_config(name)
    for index in range(config.layers):
        part = Layer(config, index)
        shapes = {n: tuple(p.shape) for n, p in part.attention.named_parameters()}
        assert shapes["to_query.weight"] == (config.heads * config.d_k, 16)
        assert shapes["to_key.weight"] == (config.kv_heads * config.d_k, 16)
        assert shapes["to_value.weight"] == (config.kv_heads * config.d_v, 16)
        assert shapes["to_output.weight"] == (16, config.heads * config.d_v)
        assert ("to_key.bias" in shapes) == config.input_bias
        assert ("to_output.bias" in shapes) == config.output_bias
        assert ("sinks" in shapes) == config.sinks
        assert part.attention.rule.scale == config.scale
        assert part.attention.rule.softcap == config.softcap
        assert (part.cross_attention is None) == (config.encoder is None)


def test_cross_attention_has_no_sinks():
    part = Layer(tiny_config("distances alone", sinks=True), 0)
    assert part.attention.sinks is not None
    assert part.cross_attention.sinks is None


def test_what_is_particular_to_a_layer():
    kinds = (LayerKind(scale=0.7, d_ff=5), LayerKind(experts=Experts(count=3, chosen=1, d_ff=8)))
    config = tiny_config(scale=0.2, pattern=kinds)
    first, second = Layer(config, 0), Layer(config, 1)
    assert (first.attention.rule.scale, second.attention.rule.scale) == (0.7, 0.2)
    assert first.feed_forward.up.weight.shape == (5, 16)
    assert isinstance(second.feed_forward, ExpertFeedForward)


def test_a_layer_says_where_its_attention_stands():
    decoder, encoder = tiny_config("distances alone"), tiny_config("distances alone").encoder
    part = Layer(decoder, 2)
    assert part.attention.site == Site(2, "self", "layers.2.attention")
    assert part.cross_attention.site == Site(2, "cross", "layers.2.cross_attention")
    inner = Layer(encoder, 1, stack="encoder.")
    assert inner.attention.site == Site(1, "encoder", "encoder.layers.1.attention")


def test_a_mask_that_does_not_fit_is_refused(x, seeded_weights):
    real = torch.ones(2, 6, dtype=torch.bool)
    call = LayerCall(rule=ScoreRule(mask=padding_mask(real)))
    with pytest.raises(ClearheadError):
        layer("no positions")(x, call)
