"""A cache keeps numbers: a backward pass through it is refused, whatever it would end in."""

import pytest
import torch

from clearhead.errors import InputError
from clearhead.transformer.cache import KVCache
from clearhead.transformer.cache_gradients import kept, without_backward
from tests.transformer.tiny_models import BOTH, some_ids, tiny

TOLD = (
    "backward: a cache keeps keys and values without their gradients, so nothing can be trained "
    "through it: call the model without cache="
)


def test_what_is_kept_knows_nothing_of_how_it_was_made():
    x = torch.ones(2, requires_grad=True)
    assert not kept(x * 2).requires_grad
    plain = torch.ones(2)
    assert kept(plain) is plain


def test_only_a_gradient_is_refused():
    x, y = torch.ones(2), torch.ones(2, requires_grad=True)
    assert without_backward(x) is x
    with torch.no_grad():
        assert without_backward(x, y) is x
    given = without_backward(x, y)
    assert torch.equal(given, x)
    with pytest.raises(InputError) as caught:
        given.sum().backward()
    assert str(caught.value) == TOLD


@pytest.mark.parametrize("name", ["grouped heads", "distances alone"])
@pytest.mark.parametrize("calls", [1, 3])
def test_a_model_is_not_trained_through_its_cache(name, calls, generator, seeded_weights):
    model = tiny(name)
    cache = KVCache(model.config, batch=2, capacity=9, dtype="float64")
    source = model.encode(some_ids(generator, 2, 4)) if name in BOTH else None
    for _ in range(calls):  # without no_grad, which many forget
        logits = model(some_ids(generator, 2, 3), cache=cache, source=source).logits
    assert not any(memory.key.requires_grad for memory in cache.layers)
    with pytest.raises(InputError) as caught:
        logits.sum().backward()
    assert str(caught.value) == TOLD
    assert all(parameter.grad is None for parameter in model.layers.parameters())


def test_it_is_refused_too_where_the_encoder_alone_is_trained(generator, seeded_weights):
    model = tiny("distances alone").requires_grad_(False)
    model.encoder.layers.requires_grad_(True)
    cache = KVCache(model.config, capacity=9, dtype="float64")
    source = model.encode(some_ids(generator, 1, 4))
    for _ in range(2):
        logits = model(some_ids(generator, 1, 3), cache=cache, source=source).logits
    with pytest.raises(InputError, match="backward: a cache keeps"):
        logits.sum().backward()
