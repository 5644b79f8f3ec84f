"""A model as plain objects: the same numbers, and whatever is not plain is called as ever."""

import pytest
import torch
from torch import nn

import clearhead as ch
from clearhead.transformer.cache import KVCache
from clearhead.transformer.feed_forward import FeedForward
from clearhead.transformer.generation.plain import KINDS, plain
from clearhead.transformer.linear import Linear
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


def test_every_part_is_plain_and_shares_its_tensors() -> None:
    model = tiny("chunks and experts")
    twins = list(parts_of(model, plain(model)))
    assert len(twins) == sum(type(part) in KINDS for part in model.modules()) > 20
    for part, twin in twins:
        assert not isinstance(twin, nn.Module)
        for name, parameter in part.named_parameters(recurse=False):
            assert getattr(twin, name) is parameter


def parts_of(part, twin):
    """Each module of a kind that is made plain, and what it was made."""
    if isinstance(part, nn.ModuleList):
        for one, its in zip(part, twin, strict=True):
            yield from parts_of(one, its)
    elif type(part) in KINDS:
        yield part, twin
        for name, one in part.named_children():
            yield from parts_of(one, getattr(twin, name))


def test_what_is_of_no_such_kind_stays_what_it_is() -> None:
    norm = nn.LayerNorm(2)
    assert plain(norm) is norm


def test_generating_calls_no_module_unless_somebody_looks_on(
    generator, seeded_weights, monkeypatch
) -> None:
    called: list[str] = []
    call = Linear.__call__
    monkeypatch.setattr(Linear, "__call__", lambda part, x: called.append("") or call(part, x))
    model, ids = tiny("grouped heads"), some_ids(generator, 5)[None]
    ch.generate(model, ids, max_new_tokens=3, end_tokens=())
    assert not called
    model.register_forward_hook(lambda *_: None)
    ch.generate(model, ids, max_new_tokens=3, end_tokens=())
    assert called


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


class DoublingList(nn.ModuleList):
    def forward(self, x):
        return 2 * self[0](x)


def doubled_by_a_list(model, monkeypatch) -> None:
    model.layers[0].feed_forward = DoublingList([model.layers[0].feed_forward])


def doubled_in_its_class(model, monkeypatch) -> None:
    ch.generate(model, [1, 2], max_new_tokens=2, end_tokens=())  # what was seen then is not kept
    forward = FeedForward.forward
    monkeypatch.setattr(FeedForward, "forward", lambda part, x: 2 * forward(part, x))


def doubled_by_compiling(model, monkeypatch) -> None:
    def twice(graph, _inputs):
        return lambda *given: tuple(2 * one for one in graph(*given))

    model.layers[0].feed_forward.down.compile(backend=twice)


def doubled_by_a_hook(model, monkeypatch) -> None:
    model.layers[0].feed_forward.down.register_forward_hook(lambda _part, _given, made: 2 * made)


def doubled_before(model, monkeypatch) -> None:
    model.layers[0].feed_forward.down.register_forward_pre_hook(
        lambda _part, given: (2 * given[0],)
    )


@pytest.mark.parametrize(
    "change",
    [
        doubled,
        doubled_in_place,
        doubled_in_its_class,
        doubled_by_a_list,
        doubled_by_a_hook,
        doubled_before,
        pytest.param(doubled_by_compiling, marks=pytest.mark.compiled),
    ],
)
@torch.no_grad()
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
