"""What a cache cannot be made of, and which models and sources it does not belong to."""

from functools import partial

import numpy as np
import pytest
import torch

from clearhead.errors import InputError
from clearhead.positions.kinds import Rotary
from clearhead.transformer.cache import KVCache
from clearhead.transformer.cache_faults import check_made, misfits, rows_there
from clearhead.transformer.calls import Encoded
from clearhead.transformer.config import LayerKind
from tests.transformer.tiny_models import some_ids, tiny, tiny_config

OTHER = "cache must be made from this model's config, got one made from another, with "
SOURCE = (
    "source must be the one that the cache's keys and values were made of, got another: reorder "
    "its rows as the cache's, or cache.crop(0) to begin anew"
)


def refused(act) -> str:
    with pytest.raises(InputError) as caught:
        act()
    return str(caught.value)


def test_all_that_a_cache_cannot_be_made_of_is_told_at_once():
    sizes = {"batch": 0, "capacity": 1.5}
    assert refused(lambda: check_made(tiny_config("masked"), sizes, torch.int8)) == (
        "no such cache, 4 faults:\n"
        "  - a cache is for a decoder: an encoder reads its text only once\n"
        "  - batch must be a positive whole number, got 0\n"
        "  - capacity must be a positive whole number, got 1.5\n"
        "  - dtype: expected one of float64, float32, bfloat16, float16, got torch.int8"
    )
    assert refused(lambda: check_made(None, {}, "float32")) == (
        "no such cache: config must be a TransformerConfig, got NoneType"
    )


@pytest.mark.parametrize("rows", [[1, 0], (1, 0), np.array([1, 0]), torch.tensor([1, 0])])
def test_rows_that_are_there(rows):
    assert rows_there(rows, 2) == [1, 0]


@pytest.mark.parametrize(
    "rows", [None, 1, [], [0.5], [True], [2], [-1], [0, 5], [[0]], "0", torch.tensor([0.0])]
)
def test_rows_that_are_no_rows(rows):
    got = rows.tolist() if isinstance(rows, torch.Tensor) else list(rows) if rows == "0" else rows
    assert refused(lambda: rows_there(rows, 2)) == (
        f"reorder must name rows from 0 to 1, at least one, got {got!r}"
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"layers": 2}, "layers 2 and not 3"),
        ({"d_k": 6, "d_v": 3}, "d_k 6 and not 4, d_v 3 and not 4"),
        ({"pattern": (LayerKind(), LayerKind(window=3))}, "a window of 3 and not None in layer 1"),
        ({"positions": Rotary(theta=7.0)}, "other rotary positions"),
    ],
)
def test_a_cache_of_another_model_is_refused(fields, told):
    cache = KVCache(tiny_config(**fields), capacity=8)
    assert list(misfits(cache, tiny_config(), None)) == [OTHER + told]
    model = tiny(dtype=torch.float32)
    assert refused(lambda: model(torch.zeros(1, 2).long(), cache=cache)) == (
        f"the model cannot read this: {OTHER}{told}"
    )


def test_a_cache_of_a_model_with_an_encoder_is_another():
    cache = KVCache(tiny_config("distances alone"), capacity=8)
    (told,) = misfits(cache, tiny_config(), None)
    assert "an encoder" in told
    (told,) = misfits(KVCache(tiny_config(), capacity=8), tiny_config("distances alone"), None)
    assert "no encoder" in told


def test_an_equal_configuration_will_do():
    assert not list(misfits(KVCache(tiny_config(), capacity=8), tiny_config(), None))
    cache = KVCache(tiny_config(vocabulary_size=99), capacity=8)  # which no key depends on
    assert not list(misfits(cache, tiny_config(), None))


@torch.no_grad()
def test_another_source_is_refused_while_anything_is_held(generator, seeded_weights):
    model, ids = tiny("distances alone"), some_ids(generator, 2, 3)
    cache = KVCache(model.config, batch=2, capacity=32, dtype="float64")
    first, second = (model.encode(some_ids(generator, 2, 5)) for _ in "ab")
    model(ids, cache=cache, source=first)
    padded = Encoded(first.hidden, torch.arange(5).expand(2, -1) > 0)
    for other in (second, Encoded(first.hidden[:, :4]), padded):
        assert SOURCE in refused(lambda given=other: model(ids, cache=cache, source=given))
    assert cache.lengths == (3, 3)
    model(ids, cache=cache, source=Encoded(first.hidden.clone()))
    cache.reorder([1, 0, 0])
    ids, turned = ids[[1, 0, 0]], Encoded(first.hidden[[1, 0, 0]])
    model(ids, cache=cache, source=turned)
    assert cache.source is turned  # no copy of it is kept for longer than a call
    whole = torch.cat((ids, ids, ids, ids), 1)
    got = model(ids, cache=cache, source=turned).logits
    torch.testing.assert_close(got, model(whole, source=turned).logits[:, -3:])
    cache.crop(0)
    assert cache.source is None
    model(ids, cache=cache, source=Encoded(second.hidden[[0, 1, 1]]))


@torch.no_grad()
def test_a_vector_that_is_no_number_is_still_the_same():
    model, hidden = tiny("distances alone"), torch.full((1, 2, 16), torch.nan).double()
    cache, ids = KVCache(model.config, capacity=8, dtype="float64"), torch.zeros(1, 1).long()
    model(ids, cache=cache, source=Encoded(hidden))
    model(ids, cache=cache, source=Encoded(hidden.clone()))
    assert cache.lengths == (2,)


@torch.no_grad()
def test_after_a_first_call_that_failed_another_source_may_follow(generator, seeded_weights):
    model, ids = tiny("distances alone"), some_ids(generator, 1, 3)
    cache = KVCache(model.config, capacity=32, dtype="float64")
    first, second = (model.encode(some_ids(generator, 1, 5)) for _ in "ab")

    def stop(*_given):
        raise ZeroDivisionError

    hook = model.layers[1].register_forward_hook(stop)
    with pytest.raises(ZeroDivisionError):
        model(ids, cache=cache, source=first)
    hook.remove()
    got = model(ids, cache=cache, source=second).logits
    torch.testing.assert_close(got, model(ids, source=second).logits)


def test_a_device_or_a_memory_that_is_not_there():
    told = refused(lambda: KVCache(tiny_config(), capacity=4, device="nowhere"))
    assert "device: expected one of this machine, got 'nowhere'" in told
    for batch, capacity in ((1, 10**15), (1, 10**30), (10**12, 1), (10**400, 1)):
        told = refused(partial(KVCache, tiny_config(), batch=batch, capacity=capacity))
        assert told == (
            f"not enough memory: a cache of {batch:,} × {capacity:,} tokens cannot be laid out on "
            "cpu; give a smaller batch or capacity, or a smaller dtype"
        )
