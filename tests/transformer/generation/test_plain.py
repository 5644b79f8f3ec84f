"""A model as plain objects: the same numbers, and whatever is not plain is called as ever."""

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

import clearhead as ch
from clearhead.transformer.cache import KVCache
from clearhead.transformer.generation.plain import KINDS, hooks_of, plain
from tests.transformer.tiny_models import BOTH, DECODERS, some_ids, tiny


@pytest.mark.parametrize("name", [*DECODERS, *BOTH])
@torch.no_grad()
def test_plain_says_what_the_model_says(name, generator, seeded_weights) -> None:
    model = tiny(name)
    source = None if model.encoder is None else model.encode(some_ids(generator, 4)[None])
    ids, twin = some_ids(generator, 7)[None], plain(model)
    assert not isinstance(twin, nn.Module)
    dtype = model.token_embedding.weight.dtype
    caches = [KVCache(model.config, capacity=9, dtype=dtype) for _ in range(2)]
    for start, end in ((0, 5), (5, 6), (6, 7)):
        both = [
            one(ids[:, start:end], cache=cache, source=source).logits
            for one, cache in zip((model, twin), caches, strict=True)
        ]
        assert torch.equal(*both)


def test_every_part_is_plain_or_left_as_it_is() -> None:
    model = tiny("grouped heads")
    layer = plain(model).layers[0]
    assert layer.attention.to_query.weight is model.layers[0].attention.to_query.weight
    assert not isinstance(layer.attention.to_query, nn.Module)
    assert plain(nn.LayerNorm(2)).__class__ is nn.LayerNorm
    assert all(issubclass(kind, nn.Module) for kind in KINDS)


class Doubling(nn.Module):
    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x):
        return 2 * self.part(x)


def doubled(model, monkeypatch) -> None:
    down = model.layers[0].feed_forward.down
    model.layers[0].feed_forward.down = Doubling(down)


def doubled_in_place(model, monkeypatch) -> None:
    down = model.layers[0].feed_forward.down
    forward = down.forward
    monkeypatch.setattr(down, "forward", lambda x: 2 * forward(x), raising=False)


def doubled_by_a_hook(model, monkeypatch) -> None:
    model.layers[0].feed_forward.down.register_forward_hook(lambda _part, _given, made: 2 * made)


def doubled_before(model, monkeypatch) -> None:
    model.layers[0].feed_forward.down.register_forward_pre_hook(
        lambda _part, given: (2 * given[0],)
    )


@pytest.mark.parametrize("change", [doubled, doubled_in_place, doubled_by_a_hook, doubled_before])
def test_whoever_changes_a_part_is_heard(change, generator, seeded_weights, monkeypatch) -> None:
    model, ids = tiny("grouped heads"), some_ids(generator, 5)[None]
    as_was = model(ids).logits
    change(model, monkeypatch)
    changed = model(ids).logits
    assert not torch.equal(as_was, changed)
    written = ch.generate(model, ids, max_new_tokens=3, end_tokens=()).token_ids
    for place, token in enumerate(written):
        so_far = torch.cat((ids, torch.tensor([written[:place]], dtype=ids.dtype)), dim=1)
        assert model(so_far).logits[0, -1].argmax() == token


def test_hooks_are_told_at_any_time_and_those_on_all_modules_too() -> None:
    model = tiny("grouped heads")
    hooked = hooks_of(model)
    assert not hooked()
    for begin in (
        model.register_forward_hook,
        model.layers[1].attention.to_key.register_forward_pre_hook,
        register_module_forward_hook,
    ):
        handle = begin(lambda *_: None)
        assert hooked()
        handle.remove()
        assert not hooked()
