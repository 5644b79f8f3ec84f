"""One call's way into a cache: who stands where, what is taken in, what is then there."""

from functools import partial

import pytest
import torch

from clearhead.errors import InputError
from clearhead.positions.kinds import Rotary
from clearhead.positions.scaling import LongRopeScaling
from clearhead.transformer.cache import KVCache
from clearhead.transformer.config import LayerKind
from clearhead.transformer.model import Transformer
from tests.transformer.tiny_models import some_ids, tiny_config

CPU = torch.device("cpu")
REAL = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]]).bool()


def cache(*lengths: int, capacity: int = 12, **fields: object) -> KVCache:
    made = KVCache(tiny_config(**fields), batch=len(lengths), capacity=capacity)
    made.lengths = lengths
    return made


def test_places_and_ends_of_a_call_without_padding():
    step = cache(5, 5).step(None, rows=2, tokens=3)
    assert step.ends == (8, 8)
    assert step.positions(CPU).tolist() == [[5, 6, 7]]
    assert step.query_start == 5
    assert [places.tolist() for places in step.places(CPU)] == [
        [0, 0, 0, 1, 1, 1],
        [0, 1, 2, 0, 1, 2],
    ]


def test_rows_of_different_length_have_places_of_their_own():
    step = cache(5, 2).step(None, rows=2, tokens=3)
    assert step.ends == (8, 5)
    assert step.positions(CPU).tolist() == [[5, 6, 7], [2, 3, 4]]
    assert step.query_start.tolist() == [5, 2]


def test_padding_is_left_out_on_whichever_side_it_stands():
    step = cache(5, 2, 0).step(REAL, rows=3, tokens=4)
    assert step.ends == (7, 5, 0)
    positions = step.positions(CPU)
    assert positions[0, 2:].tolist() == [5, 6]
    assert positions[1, :3].tolist() == [2, 3, 4]
    # the first real token of row 0 stands in column 2 and at position 5
    assert step.query_start.tolist() == [3, 2, 0]
    assert [places.tolist() for places in step.places(CPU)] == [[0, 0, 1, 1, 1], [2, 3, 0, 1, 2]]


@pytest.mark.parametrize("real", [None, REAL])
@pytest.mark.parametrize("lengths", [(5, 5, 5), (5, 2, 0)])
def test_each_real_token_is_taken_in_at_its_position(real, lengths, generator):
    held = cache(*lengths)
    step = held.step(real, rows=3, tokens=4)
    key, value = (torch.randn(3, 2, 4, 4, generator=generator) for _ in range(2))
    memory = step.enter(1, dtype=torch.float32, device=CPU)
    assert (memory.complete, memory.start) == (False, 0)
    got_key, got_value = memory.extend(key, value)
    assert got_key.shape == got_value.shape == (3, 2, max(step.ends), 4)
    rows, columns = step.places(CPU)
    positions = step.positions(CPU).expand(3, -1)[rows, columns]
    assert torch.equal(got_key[rows, :, positions], key[rows, :, columns])
    assert torch.equal(got_value[rows, :, positions], value[rows, :, columns])
    # views of the cache, and of this layer alone
    assert got_key.data_ptr() == held.layers[1].key.data_ptr()
    assert not held.layers[0].key.any()
    others = held.layers[1].key.clone()
    others[rows, :, positions] = 0.0
    assert not others.any()


def test_keys_of_another_dtype_are_refused():
    step = cache(0).step(None, rows=1, tokens=2)
    with pytest.raises(InputError) as caught:
        step.enter(0, dtype=torch.float64, device=CPU)
    assert str(caught.value) == (
        "the cache holds torch.float32 on cpu, and the model's keys are torch.float64 on cpu: make "
        "it with that dtype= and device="
    )


def test_nothing_counts_as_read_before_it_is_done(generator):
    held = cache(5, 5)
    step = held.step(None, rows=2, tokens=3)
    step.enter(0, dtype=torch.float32, device=CPU).extend(
        *torch.randn(2, 2, 2, 3, 4, generator=generator)
    )
    assert held.lengths == (5, 5)
    step.done(torch.zeros(2, 3, dtype=torch.int64))
    assert held.lengths == (8, 8)


def test_after_a_window_moved_keys_begin_where_it_begins(generator):
    held = KVCache(tiny_config(pattern=(LayerKind(window=3),)), batch=1, capacity=900)
    slots = held.layers[0].key.shape[2]
    assert slots == 3 + 256
    held.lengths = (slots,)
    memory = held.step(None, rows=1, tokens=2).enter(0, dtype=torch.float32, device=CPU)
    key, value = torch.randn(2, 1, 2, 2, 4, generator=generator)
    got, _ = memory.extend(key, value)
    assert memory.start == slots - 2
    assert got.shape == (1, 2, 4, 4)
    assert torch.equal(got[:, :, 2:], key)


LONG = LongRopeScaling((1.0, 1.2), (2.0, 3.0), original_context=9, attention_factor=1.1)


@pytest.mark.parametrize(
    ("begins", "tokens", "outgrown"),
    [((0,), 12, False), ((3,), 6, False), ((3,), 7, True), ((9,), 1, True), ((10,), 1, False)],
)
def test_a_text_that_outgrows_its_angles_is_seen(begins, tokens, outgrown):
    held = cache(*begins, capacity=20, positions=Rotary(scaling=LONG))
    assert held.step(None, rows=1, tokens=tokens).outgrown == outgrown
    assert not cache(*begins, capacity=20).step(None, rows=1, tokens=tokens).outgrown


def test_one_row_that_outgrows_them_is_enough():
    held = cache(10, 8, capacity=20, positions=Rotary(scaling=LONG))
    assert not held.step(None, rows=2, tokens=1).outgrown
    assert held.step(None, rows=2, tokens=2).outgrown


def test_what_may_have_to_be_read_again_is_kept():
    held = cache(0, 0, positions=Rotary(scaling=LONG))
    ids = torch.tensor([[7, 8, 3, 4], [5, 6, 9, 9]])
    real = torch.tensor([[0, 0, 1, 1], [1, 1, 0, 0]]).bool()
    held.step(real, rows=2, tokens=4).done(ids)
    assert held.ids[:, :3].tolist() == [[3, 4, 0], [5, 6, 0]]
    text = held.step(None, rows=2, tokens=1).text(torch.tensor([[1], [2]]))
    assert text[:, :4].tolist() == [[3, 4, 1, 0], [5, 6, 2, 0]]
    assert held.ids[:, :3].tolist() == [[3, 4, 0], [5, 6, 0]]
    assert cache(0, 0).ids.shape == (2, 0)


WINDOWS = {"pattern": (LayerKind(window=3), LayerKind())}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("read", [4, 259, 262])
def test_a_cache_filled_in_inference_mode_is_read_on_in_it(
    inside, read, generator, seeded_weights
) -> None:
    """Also where a window moves, which then is made anew in that mode."""
    model = Transformer(tiny_config(context_length=900, **WINDOWS)).double()
    ids = some_ids(generator, 1, read)
    made = partial(KVCache, model.config, capacity=900, dtype=torch.float64)
    held = None if inside else made()
    with torch.inference_mode():
        held = held or made()
        model(ids, cache=held)
    moved = [one.start for one in held.layers]
    if inside:
        with torch.no_grad(), pytest.raises(InputError, match="filled in inference_mode: read on"):
            model(ids[:, :1], cache=held)
        assert held.lengths == (read,)
        assert [one.start for one in held.layers] == moved
    with torch.inference_mode(inside):
        assert model(ids[:, :1], cache=held).logits.isfinite().all()


def test_a_refused_call_moves_no_window(generator, seeded_weights) -> None:
    model = Transformer(tiny_config(context_length=900, **WINDOWS))
    held = KVCache(model.config, capacity=900)
    with torch.no_grad():
        model(some_ids(generator, 1, 258), cache=held)
        moved = [one.start for one in held.layers]
        with pytest.raises(InputError, match=r"the cache holds torch\.float32 on cpu"):
            model.double()(some_ids(generator, 1, 9), cache=held)
    assert held.lengths == (258,)
    assert [one.start for one in held.layers] == moved


def test_a_call_that_fails_moves_no_window_it_did_not_reach(generator, seeded_weights) -> None:
    model = Transformer(tiny_config(context_length=900, **WINDOWS))
    held, ids = KVCache(model.config, capacity=900), some_ids(generator, 1, 500)
    with torch.no_grad():
        model(ids[:, :200], cache=held)
        handle = model.layers[0].register_forward_pre_hook(lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model(ids[:, 200:], cache=held)
        handle.remove()
        held.crop(150)
        again = model(ids[:, 150:], cache=held).logits
        assert (again - model(ids).logits[:, 150:]).abs().max() < 1e-4
