"""Indices of a matrix that is never formed mean what NumPy means by them."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import InputError, OutOfRangeError
from clearhead.masks import causal_mask
from clearhead.pipeline import indexing
from clearhead.pipeline.attention import attention
from clearhead.pipeline.indexing import distinct, positions, select
from clearhead.pipeline.matrix import AttentionMatrix
from tests.laws.calls import draw

SHAPE = (2, 4, 5, 5)


@pytest.fixture
def weights(generator):
    return attention(*draw(generator, n=5, dtype=torch.float64).tensors, mask=causal_mask()).weights


def same(found, expected):
    """Equal values, and a tensor or a lazy matrix of just NumPy's shape."""
    assert tuple(found.shape) == expected.shape
    np.testing.assert_allclose(np.asarray(found), expected, rtol=0, atol=1e-12)


def plain(index):
    """The index as NumPy takes it: a tensor of one number would be an integer to it."""
    return tuple(np.asarray(part) if torch.is_tensor(part) else part for part in index)


def ints(size):
    return st.integers(-size, size - 1)


def slices(size):
    return st.one_of(st.just(slice(None)), st.slices(size + 2))


@st.composite
def simple(draw_from):
    """Integers and slices, with an Ellipsis somewhere or not at all."""
    count = draw_from(st.integers(0, 4))
    dots = draw_from(st.none() | st.integers(0, count))
    axes = list(range(count)) if dots is None else [*range(dots), *range(4 - count + dots, 4)]
    parts = [draw_from(ints(SHAPE[axis]) | slices(SHAPE[axis])) for axis in axes]
    if dots is not None:
        parts.insert(dots, Ellipsis)
    return parts[0] if len(parts) == 1 and draw_from(st.booleans()) else tuple(parts)


@st.composite
def arrays(draw_from):
    """At least one array: integers or truth values, among integers and slices."""
    length = draw_from(st.integers(0, 2))
    at = draw_from(st.sets(st.integers(0, 3), min_size=1))
    parts = []
    for axis, size in enumerate(SHAPE):
        if axis not in at:
            parts.append(draw_from(ints(size) | slices(size)))
        elif length and draw_from(st.booleans()):
            seen = draw_from(st.permutations([i < length for i in range(size)]))
            parts.append(np.array(seen, dtype=bool))
        else:
            where = draw_from(st.lists(ints(size), min_size=length, max_size=length))
            kind = draw_from(st.sampled_from(["list", "numpy", "torch"]))
            array = np.array(where, dtype=np.int64)
            parts.append({"list": where, "numpy": array, "torch": torch.from_numpy(array)}[kind])
    return tuple(parts)


@given(index=simple())
def test_integers_slices_and_dots_mean_what_numpy_means(weights, index):
    same(weights[index], np.asarray(weights)[index])


@given(index=arrays())
def test_arrays_mean_what_numpy_means(weights, index):
    same(weights[index], np.asarray(weights)[plain(index)])


def test_truth_values_may_choose_nothing(weights):
    nothing = np.zeros(5, dtype=bool)
    same(weights[..., nothing], np.asarray(weights)[..., nothing])
    assert positions(nothing, 5, axis="rows") == range(0)


def test_arrays_of_two_axes_broadcast_as_in_numpy(weights, generator):
    dense = np.asarray(weights)
    rows = torch.randint(-5, 5, (3, 1), generator=generator)
    columns = torch.randint(-5, 5, (1, 4), generator=generator)
    for index in (
        np.s_[..., rows, columns],
        np.s_[:, 1, rows, columns],
        np.s_[:, rows % 4, :, columns],
        np.s_[rows % 2, columns % 4],
    ):
        same(weights[index], dense[plain(index)])


@pytest.mark.parametrize(
    ("index", "shape"),
    [
        (np.s_[:], (2, 4, 5, 5)),
        (np.s_[...], (2, 4, 5, 5)),
        (np.s_[1], (4, 5, 5)),
        (np.s_[-1, 2], (5, 5)),
        (np.s_[:, ::-2], (2, 2, 5, 5)),
        (np.s_[1:1, 0, :, :], (0, 5, 5)),
        (np.s_[0, ..., :], (4, 5, 5)),
    ],
)
def test_whole_rows_and_columns_stay_lazy(weights, index, shape):
    found = weights[index]
    assert isinstance(found, AttentionMatrix)
    assert found.shape == shape
    same(found, np.asarray(weights)[index])


def test_chosen_rows_or_columns_are_numbers(weights):
    for index in (np.s_[..., 0], np.s_[..., 1:, :], np.s_[0, 0, 0], np.s_[..., ::-1, :], [0, 1]):
        assert isinstance(weights[index], torch.Tensor)


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (2, OutOfRangeError, "index 2 is out of bounds for axis 0 with size 2"),
        (np.s_[0, -5], OutOfRangeError, "index -5 is out of bounds for axis 1 with size 4"),
        (np.s_[..., 5], OutOfRangeError, "index 5 is out of bounds for axis 3 with size 5"),
        (np.s_[..., [0, 5]], OutOfRangeError, "axis 3 must lie in [-5, 5), got 0 to 5"),
        (
            np.s_[0, 0, 0, 0, 0],
            InputError,
            "too many indices: the matrix has 4 axes, 5 were indexed",
        ),
        (
            np.s_[:, None],
            InputError,
            "a new axis (None) cannot be added to a matrix that is never formed",
        ),
        (np.s_[..., 0, ...], InputError, "an index can only have a single Ellipsis ('...')"),
        (
            np.s_[..., 1.5],
            InputError,
            (
                "an index must be integers, slices, an Ellipsis, or arrays of integers or truth "
                "values of one axis, got 1.5"
            ),
        ),
        (
            np.s_[..., [0, 1, 2], [0, 1]],
            InputError,
            "index arrays must broadcast together, got shapes (3,), (2,)",
        ),
        (
            np.s_[..., np.ones((5, 5), dtype=bool)],
            InputError,
            "axis 3: truth values must be of one axis, got shape (5, 5)",
        ),
        (
            np.s_[..., [0.5, 1.5]],
            InputError,
            (
                "axis 3 must be a slice, a range, integers in one axis or 5 truth values, "
                "got float64 of shape (2,)"
            ),
        ),
        (
            np.s_[..., [True, False]],
            InputError,
            (
                "axis 3 must be a slice, a range, integers in one axis or 5 truth values, "
                "got bool of shape (2,)"
            ),
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(weights, index, error, text):
    with pytest.raises(error) as caught:
        weights[index]
    assert str(caught.value) == text


def test_arrays_that_touch_too_much_are_refused(weights, monkeypatch):
    monkeypatch.setattr(indexing, "INDEXED_ELEMENTS", 24)
    same(
        weights[0, [1], :4, [0, 1, 2, 3, 4, 0]], np.asarray(weights)[0, [1], :4, [0, 1, 2, 3, 4, 0]]
    )
    text = (
        "these index arrays touch 25 entries (at most 24 at once): ask for fewer at a time, "
        "or use rows() and tile()"
    )
    with pytest.raises(InputError, match=re.escape(text)):
        weights[0, [1], :, [0, 1, 2, 3, 4, 0]]


def test_positions_are_a_range_where_they_can_be():
    assert positions(slice(1, 4), 5, axis="rows") == range(1, 4)
    assert positions(range(5), 5, axis="rows") == range(5)
    assert positions([], 5, axis="rows") == range(0)
    assert positions(-1, 5, axis="rows").tolist() == [4]
    assert positions(slice(None, None, -2), 5, axis="rows").tolist() == [4, 2, 0]
    assert positions(np.array([1, 0, 0, 1, 0]) == 1, 5, axis="rows").tolist() == [0, 3]
    with pytest.raises(OutOfRangeError) as caught:
        positions([-6, 1], 5, axis="rows")
    assert str(caught.value) == "rows must lie in [-5, 5), got -6 to 1"


@given(given_=st.lists(st.integers(-3, 3)))
def test_distinct_loses_nothing(given_):
    values, places = distinct(torch.tensor(given_, dtype=torch.int64))
    assert values.tolist() == sorted(set(given_))
    assert values[places].tolist() == given_


def test_only_what_is_needed_is_asked_for():
    chosen = select(np.s_[1, :, 3, [4, 4, 2]], SHAPE)
    assert [
        axis.index.tolist() if torch.is_tensor(axis.index) else axis.index
        for axis in chosen.leading
    ] == [[1], range(4)]
    assert chosen.rows.tolist() == [3]
    assert chosen.columns.tolist() == [2, 4]
    assert not chosen.lazy
