"""The memory of one layer: laid out once, moved along with a window, stretched and given back."""

import pytest
import torch

from clearhead.transformer.cache_memory import CrossMemory, LayerMemory


def memory(*, slots: int = 8, window: int | None = None, dtype=torch.float32) -> LayerMemory:
    return LayerMemory(
        (2, 3, slots), widths=(4, 5), window=window, dtype=dtype, device=torch.device("cpu")
    )


def numbered(*, slots: int, window: int, start: int = 0) -> LayerMemory:
    """Slot s holds the number of its position, start + s."""
    made = memory(slots=slots, window=window)
    made.start = start
    places = torch.arange(start, start + slots, dtype=torch.float32)[:, None]
    made.key[:], made.value[:] = places, 100 + places
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_its_bytes_are_those_of_keys_and_values(dtype):
    made = memory(slots=7, dtype=dtype)
    assert (made.key.shape, made.value.shape) == ((2, 3, 7, 4), (2, 3, 7, 5))
    assert made.nbytes == 2 * 3 * 7 * (4 + 5) * dtype.itemsize


def test_without_a_window_nothing_ever_moves():
    made = memory(slots=8)
    before = made.key.data_ptr(), made.value.data_ptr()
    made.make_room([0, 5], 8)
    assert (made.key.data_ptr(), made.value.data_ptr(), made.start) == (*before, 0)


def test_a_window_stays_while_there_is_room():
    made = numbered(slots=8, window=3)
    before = made.key.data_ptr()
    made.make_room([7, 7], 8)
    assert (made.key.data_ptr(), made.start) == (before, 0)
    assert made.key[0, 0, 0, 0] == 0


@pytest.mark.parametrize(
    ("begins", "end", "oldest"),
    [((8, 8), 9, 6), ((8, 7), 9, 5), ((8, 2), 9, 0), ((8, 8), 14, 6)],
)
def test_a_window_moves_along_to_what_the_shortest_row_still_sees(begins, end, oldest):
    made = numbered(slots=8, window=3)
    made.make_room(begins, end)
    assert made.start == oldest
    kept = torch.arange(oldest, max(begins), dtype=torch.float32)
    assert torch.equal(made.key[1, 2, : len(kept), 0], kept)
    assert torch.equal(made.value[1, 2, : len(kept), 0], 100 + kept)


def test_moving_reuses_the_memory_though_it_overlaps():
    made = numbered(slots=8, window=6, start=3)
    before = made.key.data_ptr(), made.value.data_ptr()
    made.make_room([11, 11], 12)
    assert (made.key.data_ptr(), made.value.data_ptr()) == before
    assert made.key[0, 0, :5, 0].tolist() == [6, 7, 8, 9, 10]


def test_many_tokens_at_once_stretch_it_and_the_next_call_gives_that_back():
    made = numbered(slots=8, window=3)
    small = made.nbytes
    made.make_room([8, 8], 30)
    assert (made.start, made.key.shape[2]) == (6, 24)
    made.key[:] = torch.arange(6, 30, dtype=torch.float32)[:, None]
    made.make_room([30, 30], 31)
    assert (made.start, made.nbytes) == (28, small)
    assert made.key[0, 0, :2, 0].tolist() == [28, 29]


def test_a_reordered_row_is_a_copy():
    made = memory(slots=2)
    made.key[0], made.key[1] = 1.0, 2.0
    made.value[0], made.value[1] = 3.0, 4.0
    made.reorder([1, 1, 0])
    assert made.key[:, 0, 0, 0].tolist() == [2.0, 2.0, 1.0]
    assert made.value[:, 0, 0, 0].tolist() == [4.0, 4.0, 3.0]
    made.key[0] = 9.0
    assert made.key[1, 0, 0, 0] == 2.0


def test_what_was_forgotten_begins_at_0():
    made = numbered(slots=8, window=3, start=5)
    made.forget()
    assert made.start == 0


def test_a_source_is_kept_the_first_time_and_given_from_then_on(generator):
    made = CrossMemory()
    assert (made.complete, made.start, made.nbytes) == (False, 0, 0)
    key, value = (torch.randn(2, 3, 6, d, generator=generator) for d in (4, 5))
    assert made.extend(key, value) == (key, value)
    assert (made.complete, made.nbytes) == (True, 2 * 3 * 6 * (4 + 5) * 4)
    kept = made.extend(None, None)
    assert kept[0] is key
    assert kept[1] is value


def test_a_sources_rows_are_reordered_and_forgotten(generator):
    made = CrossMemory()
    made.reorder([0, 0])  # nothing yet
    key, value = (torch.randn(2, 3, 6, d, generator=generator) for d in (4, 5))
    made.extend(key, value)
    made.reorder([1, 0, 1])
    got = made.extend(None, None)
    assert torch.equal(got[0], key[[1, 0, 1]])
    assert torch.equal(got[1], value[[1, 0, 1]])
    made.forget()
    assert not made.complete


@pytest.mark.parametrize(
    ("start", "begins", "end", "all_kept"),
    [(0, (7, 7), 8, True), (0, (8, 8), 9, False), (0, (2, 8), 9, True), (1, (7, 7), 8, False)],
)
def test_it_tells_beforehand_whether_it_keeps_all_that_was_read(start, begins, end, all_kept):
    made = numbered(slots=8, window=3, start=start)
    assert made.keeps_all(begins, end) == all_kept
    made.make_room(begins, end)
    assert (made.start == 0) == all_kept
    assert memory().keeps_all(begins, end)
