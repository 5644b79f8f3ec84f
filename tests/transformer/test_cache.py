"""The KV cache: what it costs, what it refuses, and that reading on equals reading all."""

import numpy as np
import pytest
import torch

from clearhead.errors import InputError
from clearhead.positions.kinds import Rotary
from clearhead.positions.scaling import DynamicScaling
from clearhead.transformer.cache import KVCache
from clearhead.transformer.calls import Encoded
from clearhead.transformer.config import LayerKind
from clearhead.transformer.model import Transformer
from tests.accuracy import assert_double
from tests.transformer.doubled import Doubled
from tests.transformer.tiny_models import BOTH, DECODERS, some_ids, tiny, tiny_config

SLIDING = {"pattern": (LayerKind(window=3), LayerKind())}
DYNAMIC = {"positions": Rotary(scaling=DynamicScaling(4.0, original_context=8))}


def refused(act) -> str:
    with pytest.raises(InputError) as caught:
        act()
    return str(caught.value)


def held(model: Transformer, *, batch: int = 1, capacity: int = 64) -> KVCache:
    return KVCache(model.config, batch=batch, capacity=capacity, dtype=torch.float64)


@torch.no_grad()
def read(model, ids, *, cache=None, source=None, **given) -> torch.Tensor:
    with Doubled():
        return model(ids, cache=cache, source=source, **given).hidden


# ---------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("capacity", [1, 100, 1000])
@pytest.mark.parametrize("name", [*DECODERS, *BOTH])
def test_its_bytes_are_told_by_the_configuration(name, capacity, dtype):
    config = tiny_config(name)
    cache = KVCache(config, batch=3, capacity=capacity, dtype=dtype)
    slots = 0
    for layer in range(config.layers):
        window = config.layer_kind(layer).window
        slots += capacity if window is None else min(capacity, window + 256)
    expected = 3 * config.kv_heads * slots * (config.d_k + config.d_v) * dtype.itemsize
    assert cache.nbytes == expected


@pytest.mark.parametrize("name", DECODERS)
def test_reading_on_makes_no_memory(name, generator, seeded_weights):
    model = tiny(name)
    cache, nbytes = held(model, batch=2), held(model, batch=2).nbytes
    at = [(m.key.data_ptr(), m.value.data_ptr()) for m in cache.layers]
    for tokens in (5, 1, 1, 3, 1):
        read(model, some_ids(generator, 2, tokens), cache=cache)
        assert [(m.key.data_ptr(), m.value.data_ptr()) for m in cache.layers] == at
    assert (cache.nbytes, cache.lengths) == (nbytes, (11, 11))


def test_a_window_holds_only_what_it_must_however_long_the_text(generator, seeded_weights):
    model = tiny(**SLIDING)
    cache, ids = held(model, capacity=700), some_ids(generator, 1, 640)
    planned = cache.nbytes
    read(model, ids[:, :300], cache=cache)
    for place in range(300, 640, 5):
        read(model, ids[:, place : place + 5], cache=cache)
        assert cache.nbytes == planned
    assert [memory.key.shape[2] for memory in cache.layers] == [259, 700, 259]
    assert 640 - 259 <= cache.layers[0].start <= 640 - 3 + 1


def test_its_capacity_does_not_matter(generator, seeded_weights):
    model, ids = tiny(), some_ids(generator, 2, 9)
    tight, wide = (held(model, batch=2, capacity=n) for n in (9, 500))
    for part in ids.split([4, 1, 4], 1):
        assert_double(read(model, part, cache=wide), read(model, part, cache=tight))


# ------------------------------------------------------------------------------- cached = full


@pytest.mark.parametrize("name", [*DECODERS, *BOTH])
@pytest.mark.parametrize("pieces", [[1] * 17, [8, 9], [5, 1, 1, 10], [17]], ids=str)
def test_reading_on_equals_reading_all(name, pieces, generator, seeded_weights):
    model, ids = tiny(name), some_ids(generator, 2, 17)
    source = model.encode(some_ids(generator, 2, 5)) if name in BOTH else None
    cache, begin = held(model, batch=2), 0
    for piece in pieces:
        got = read(model, ids[:, begin : begin + piece], cache=cache, source=source)
        # angles may go by the length of the text so far
        whole = read(model, ids[:, : begin + piece], source=source)
        assert_double(got, whole[:, begin:])
        begin += piece


def test_a_window_that_moved_reads_as_before(generator, seeded_weights):
    model = tiny(**SLIDING, layers=2)
    ids = some_ids(generator, 1, 540)
    cache, whole = held(model, capacity=540), read(model, ids)
    for begin in range(0, 540, 36):
        got = read(model, ids[:, begin : begin + 36], cache=cache)
        assert_double(got, whole[:, begin : begin + 36])
    assert cache.layers[0].start > 250


@pytest.mark.parametrize("name", [*DECODERS, *BOTH])
def test_after_crop_and_reorder_reading_on_equals_reading_all(name, generator, seeded_weights):
    model, ids = tiny(name), some_ids(generator, 3, 12)
    source = model.encode(some_ids(generator, 1, 5).expand(3, -1)) if name in BOTH else None
    cache = held(model, batch=3)
    read(model, ids, cache=cache, source=source)
    cache.crop(7)
    cache.reorder([2, 0, 0])
    if source is not None:
        source = Encoded(source.hidden[[2, 0, 0]])
    ids = torch.cat((ids[[2, 0, 0], :7], some_ids(generator, 3, 4)), 1)
    got = read(model, ids[:, 7:], cache=cache, source=source)
    assert_double(got, read(model, ids, source=source)[:, 7:])


@pytest.mark.parametrize("name", ["two sets of angles", "windows between", "distances alone"])
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_an_exception_leaves_a_cache_as_it_was(name, layer, generator, seeded_weights):
    model, ids = tiny(name), some_ids(generator, 2, 12)
    source = model.encode(some_ids(generator, 2, 5)) if name in BOTH else None
    cache = held(model, batch=2)
    read(model, ids[:, :7], cache=cache, source=source)

    def stop(*_given):
        raise ZeroDivisionError

    hook = model.layers[layer].register_forward_hook(stop)
    with pytest.raises(ZeroDivisionError):
        read(model, some_ids(generator, 2, 5), cache=cache, source=source)
    hook.remove()
    assert cache.lengths == (7, 7)
    for begin, end in ((7, 8), (8, 12)):
        got = read(model, ids[:, begin:end], cache=cache, source=source)
        assert_double(got, read(model, ids[:, :end], source=source)[:, begin:])


@pytest.mark.parametrize("name", [*DECODERS, *BOTH])
def test_rows_that_read_on_at_their_own_pace_are_as_if_alone(name, generator, seeded_weights):
    model, texts = tiny(name), some_ids(generator, 3, 18)
    sources = model.encode(some_ids(generator, 3, 5)) if name in BOTH else None
    cache, begins = held(model, batch=3), [0, 0, 0]
    for _ in range(4):
        counts = torch.randint(0, 5, (3,), generator=generator).tolist()
        width = max(*counts, 1)
        ids, real = some_ids(generator, 3, width), torch.zeros(3, width, dtype=torch.bool)
        for row, count in enumerate(counts):  # padding on either side, or on both
            left = int(torch.randint(0, width - count + 1, (), generator=generator))
            real[row, left : left + count] = True
            ids[row, left : left + count] = texts[row, begins[row] : begins[row] + count]
        got = read(model, ids, cache=cache, source=sources, attention_mask=real)
        for row, count in enumerate(counts):
            one = slice(row, row + 1)
            source = Encoded(sources.hidden[one]) if sources else None
            alone = read(model, texts[one, : begins[row] + count], source=source)
            assert_double(got[row, real[row]], alone[0, begins[row] :])
            begins[row] += count
        assert cache.lengths == tuple(begins)


# --------------------------------------------------------------------------------- crop, reorder


@pytest.mark.parametrize(
    ("length", "kept"),
    [(0, (0, 0)), (4, (4, 4)), (5, (5, 5)), (9, (7, 5)), (-1, (6, 4)), (-5, (2, 0))],
)
def test_crop_keeps_the_first_tokens_of_each_row(length, kept):
    cache = KVCache(tiny_config(), batch=2, capacity=10)
    cache.lengths = (7, 5)
    cache.crop(length)
    assert cache.lengths == kept


def test_more_than_a_row_holds_cannot_be_forgotten():
    cache = KVCache(tiny_config(), batch=2, capacity=10)
    cache.lengths = (7, 3)
    assert refused(lambda: cache.crop(-5)) == (
        "crop(-5) must forget at most what every row holds, got rows of 7, 3 tokens"
    )
    assert cache.lengths == (7, 3)


def test_what_a_window_forgot_cannot_be_kept(generator, seeded_weights):
    model = tiny(**SLIDING)
    cache = held(model, capacity=400)
    for _ in range(6):
        read(model, some_ids(generator, 1, 60), cache=cache)
    start = cache.layers[0].start
    assert start > 0
    assert refused(lambda: cache.crop(start + 1)) == (
        f"crop({start + 1}): a layer with a window of 3 keys holds those from position {start} on, "
        "and forgot earlier ones; read the text anew"
    )
    cache.crop(start + 2)
    assert cache.lengths == (start + 2,)
    cache.crop(0)
    ids = some_ids(generator, 1, 9)
    assert_double(read(model, ids, cache=cache), read(model, ids))


def test_after_all_is_forgotten_another_text_is_looked_at(generator, seeded_weights):
    model, ids = tiny("distances alone"), some_ids(generator, 1, 6)
    cache, first, second = held(model), *(model.encode(some_ids(generator, 1, 5)) for _ in "ab")
    read(model, ids, cache=cache, source=first)
    assert cache.nbytes == held(model).nbytes + 3 * 4 * 5 * (4 + 4) * 8
    cache.crop(0)
    assert_double(read(model, ids, cache=cache, source=second), read(model, ids, source=second))


def test_rows_may_become_more_or_fewer():
    cache = KVCache(tiny_config(), batch=2, capacity=4)
    cache.lengths = (3, 1)
    cache.reorder(torch.tensor([1, 0, 1]))
    assert (cache.batch, cache.lengths) == (3, (1, 3, 1))
    cache.reorder([1])
    assert (cache.batch, cache.lengths) == (1, (3,))
    assert cache.layers[0].key.shape[0] == 1
    told = "reorder must name rows from 0 to 0, at least one, got [1]"
    assert refused(lambda: cache.reorder([1])) == told


# ------------------------------------------------------------------------------------- bad input


def test_a_dtype_may_be_given_by_its_name():
    cache = KVCache(tiny_config(), capacity=np.int64(4), dtype="bfloat16")
    assert (cache.layers[0].key.dtype, type(cache.capacity)) == (torch.bfloat16, int)


@pytest.mark.parametrize("length", [2.5, True, None, "1", torch.tensor(2.5), torch.tensor(True)])
def test_a_length_that_is_no_whole_number(length):
    cache = KVCache(tiny_config(), capacity=8)
    cache.lengths = (5,)
    told = f"crop must be given a whole number, got {length!r}"
    assert refused(lambda: cache.crop(length)) == told
    cache.crop(np.int64(-1))
    assert cache.lengths == (4,)


def test_more_than_it_holds_is_refused_before_anything_is_read(generator, seeded_weights):
    model = tiny()
    cache = held(model, capacity=8)
    read(model, some_ids(generator, 1, 6), cache=cache)
    before = cache.layers[0].key.clone()
    assert refused(lambda: read(model, some_ids(generator, 1, 3), cache=cache)) == (
        "the cache holds 8 tokens a row, and with these there would be 9: make it with a larger "
        "capacity"
    )
    assert torch.equal(cache.layers[0].key, before)
    assert cache.lengths == (6,)


def test_another_number_of_rows_is_refused(generator, seeded_weights):
    model = tiny()
    cache = held(model, batch=2)
    assert refused(lambda: read(model, some_ids(generator, 3, 4), cache=cache)) == (
        "ids must have as many rows as the cache, 2, got 3"
    )


def test_keys_whose_angles_change_with_every_token_are_not_kept(generator, seeded_weights):
    model, ids = tiny(**DYNAMIC), some_ids(generator, 1, 12)
    cache = held(model)
    for begin, end in ((0, 5), (5, 8)):
        got = read(model, ids[:, begin:end], cache=cache)
        assert_double(got, read(model, ids[:, :end])[:, begin:])
    assert refused(lambda: read(model, ids[:, 8:9], cache=cache)) == (
        "with dynamic rotary scaling every token beyond the first 8 changes the angles of all "
        "before it, so keys cannot be kept: read without a cache"
    )
    # a long text may be read at once, but not be made shorter: its keys were turned for its length
    long = held(model)
    assert_double(read(model, ids, cache=long), read(model, ids))
    assert refused(lambda: long.crop(6)) == (
        "crop(6): with dynamic rotary scaling the angles of a text of more than 8 tokens change "
        "when it becomes shorter; read the text anew"
    )
    long.crop(0)
    assert_double(read(model, ids[:, :5], cache=long), read(model, ids[:, :5]))


def test_it_tells_what_would_be_lost_at_a_length(seeded_weights):
    both = held(tiny("two sets of angles")), KVCache(tiny_config("buckets", **DYNAMIC), capacity=9)
    assert not any(list(cache.losses(99)) for cache in both)
    both[0].lengths = both[1].lengths = (7,)
    assert [fault for cache in both for fault in cache.losses(10)] == [
        "beyond 9 tokens all angles change, and all keys with them",
        "with dynamic rotary scaling all keys change beyond 8 tokens",
    ]
