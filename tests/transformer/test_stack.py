"""A stack: embedding, layers and final norm, one after the other."""

import pytest
import torch
from torch import nn

from clearhead.transformer.calls import Call, Encoded
from clearhead.transformer.norms import RMSNorm
from clearhead.transformer.stack import Stack
from tests.accuracy import assert_double
from tests.transformer.doubled import Doubled
from tests.transformer.tiny_models import BOTH, DECODERS, ENCODERS, some_ids, tiny, tiny_config


@torch.no_grad()
@pytest.mark.parametrize("name", [*DECODERS, *ENCODERS, *BOTH])
def test_a_stack_is_its_parts_one_after_the_other(name, generator, seeded_weights):
    stack, ids = tiny(name), some_ids(generator, 2, 7)
    real = torch.ones(2, 7, dtype=torch.bool)
    real[1, 5:] = False
    hidden = torch.randn(2, 4, 16, dtype=torch.float64, generator=generator)
    source = Encoded(hidden) if name in BOTH else None
    call = Call(stack.config, ids, real, source=source, relative_bias=stack.relative_bias)
    x = stack.embedding(stack.token_embedding(ids), positions=call.positions(), types=None)
    for index, layer in enumerate(stack.layers):
        x = layer(x, call.layer(index, dtype=x.dtype))
    x = stack.final_norm(x)
    got = stack.hidden(ids, real=real, source=source)
    assert torch.equal(got[real], x[real])


def test_a_stack_has_what_its_configuration_says():
    plain, post = Stack(tiny_config()), Stack(tiny_config("sinusoids"))
    assert isinstance(plain.final_norm, RMSNorm)
    assert isinstance(post.final_norm, nn.Identity)
    assert plain.relative_bias is None
    assert plain.token_embedding.weight.shape == (29, 16)
    assert len(plain.layers) == 3


def test_a_bias_by_distance_looks_both_ways_in_an_encoder_alone(seeded_weights):
    for name, both in (("buckets", False), ("distances", True)):
        bias = Stack(tiny_config(name)).relative_bias
        torch.nn.init.normal_(bias.weight)
        assert bias.weight.numel() == 4 * 4
        ahead = bias.at(torch.tensor([3, 5]))
        # a decoder looks back: everything ahead is in the bucket of distance 0
        same = torch.equal(ahead, bias.at(torch.tensor([0, 0])))
        assert same != both


def test_an_encoders_layers_say_where_they_stand():
    stack = Stack(tiny_config("distances alone").encoder, name="encoder.")
    assert [layer.attention.site.name for layer in stack.layers] == [
        "encoder.layers.0.attention",
        "encoder.layers.1.attention",
    ]


@torch.no_grad()
def test_types_of_tokens_are_added(generator, seeded_weights):
    stack, ids = tiny("masked"), some_ids(generator, 2, 7)
    types = torch.ones_like(ids)
    plain, typed = stack.hidden(ids), stack.hidden(ids, token_types=types)
    assert not torch.equal(plain, typed)
    stack.embedding.token_type.weight.data = stack.embedding.token_type.weight.flip(0)
    assert torch.equal(stack.hidden(ids), typed)


@torch.no_grad()
def test_documents_packed_in_a_row_are_as_if_alone(generator, seeded_weights):
    stack, ids = tiny("windows between"), some_ids(generator, 1, 9)
    documents = torch.tensor([[0, 0, 0, 0, 7, 7, 2, 2, 2]])
    with Doubled():
        packed = stack.hidden(ids, documents=documents)
        alone = [stack.hidden(part) for part in ids.split([4, 2, 3], 1)]
        assert_double(packed, torch.cat(alone, 1))
