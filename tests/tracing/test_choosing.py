"""Layers, tokens and quantities as a person names them."""

import numpy as np
import pytest
import torch

from clearhead.errors import InputError
from clearhead.tracing.choosing import (
    chosen_layers,
    chosen_queries,
    integer,
    integers,
    wanted,
)

NO_COLLECTION = "layers must be a slice or a collection of integers, got {}"
ALONE = NO_COLLECTION + "; give layers=[{}] for that one alone"
TRUTHS = "layers must hold integers, got truth values: give the places where they are True, by .{}"


@pytest.mark.parametrize("given", [3, np.int64(3), torch.tensor(3), torch.tensor([3])])
def test_integers_of_every_kind_are_read(given):
    assert integer(given) == 3


@pytest.mark.parametrize(
    "given",
    [
        *(True, np.True_, torch.tensor(True)),
        *(3.0, np.float64(3), torch.tensor(3.0)),
        *("3", None, [3], torch.tensor([3, 4])),
    ],
)
def test_what_is_no_integer_is_none(given):
    assert integer(given) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([2, -1], [2, -1]),
        ((0,), [0]),
        (range(2), [0, 1]),
        ({5}, {5}),
        (np.array([1, 2]), [1, 2]),
        (torch.tensor([1, 2], dtype=torch.uint8), [1, 2]),
        ([np.int32(1), torch.tensor(2)], [1, 2]),
        ([], []),
        (slice(1, None), [7, 9]),
        (slice(None, None, -1), [9, 7, 4]),
    ],
)
def test_collections_and_slices_are_read_in_order(given, expected):
    assert integers(given, of=(4, 7, 9), name="layers") == list(expected)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (1, ALONE.format(1, 1)),
        (np.int64(-2), ALONE.format("np.int64(-2)", -2)),
        (torch.tensor(5), ALONE.format("tensor(5)", 5)),
        (True, NO_COLLECTION.format("True")),
        (1.0, NO_COLLECTION.format("1.0")),
        (torch.tensor(True), NO_COLLECTION.format("tensor(True)")),
        ("12", NO_COLLECTION.format("'12'")),
        (b"12", NO_COLLECTION.format("b'12'")),
        (torch.tensor([True, False]), TRUTHS.format("nonzero().flatten()")),
        (np.array([True, False]), TRUTHS.format("nonzero()[0]")),
        ([True, 2], "layers must hold integers, got [True, 2]"),
        ([1.0], "layers must hold integers, got [1.0]"),
        (["1"], "layers must hold integers, got ['1']"),
        ([None], "layers must hold integers, got [None]"),
        (torch.tensor([1.0]), "layers must hold integers, got tensor([1.])"),
        (slice(1.5, None), "layers must be a slice of integers, got slice(1.5, None, None)"),
    ],
)
def test_what_is_no_collection_of_integers_is_said(given, text):
    with pytest.raises(InputError) as caught:
        integers(given, of=range(3), name="layers")
    assert str(caught.value) == text


def test_queries_count_from_the_end_and_stay_in_order():
    assert chosen_queries([4, -1, 0], 5) == [4, 4, 0]
    assert chosen_queries(slice(-2, None), 5) == [3, 4]
    for beyond in ([5], [-6], []):
        with pytest.raises(InputError) as caught:
            chosen_queries(beyond, 5)
        assert str(caught.value) == f"queries must choose some of the 5 tokens, got {beyond}"


def test_layers_are_numbers_the_model_has():
    assert chosen_layers(None, {"": [0, 1, 2]}) == {"": {0, 1, 2}}
    assert chosen_layers([2, 2], {"": [0, 1, 2]}) == {"": {2}}
    assert chosen_layers(slice(-1, None), {"": [0, 1, 2]}) == {"": {2}}
    for given, shown in (([0, -1], [-1]), ([3], [3]), ([], [])):
        with pytest.raises(InputError) as caught:
            chosen_layers(given, {"": [0, 1, 2]})
        assert str(caught.value) == (
            f"layers must choose some of the model's 3 layers (0 to 2), got {shown}"
        )


def test_quantities_are_named_in_a_collection():
    assert wanted(["a", "a"], ("a", "b")) == {"a"}
    assert wanted((), ("a", "b")) == frozenset()
    for given in ("a", 5, None):
        with pytest.raises(InputError) as caught:
            wanted(given, ("a", "b"))
        assert str(caught.value) == (
            f"keep must be a collection of names, some of a, b; got {given!r}"
        )
    with pytest.raises(InputError) as caught:
        wanted(["a", "c", 5], ("a", "b"))
    assert str(caught.value) == "keep must name some of a, b; got c, 5"
