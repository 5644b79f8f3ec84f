"""Config keys are read once, by name, and what nobody read is refused."""

import math

import pytest

from clearhead.transformer.families.keys import ACTIVATIONS, HARMLESS, OFF, ConfigKeys
from clearhead.transformer.feed_forward import ACTIVATIONS as OURS

NULL = {"a": None}


def test_values_are_read_with_their_defaults():
    keys = ConfigKeys({"a": 3, "b": 2, "c": True, "d": None, "e": [1]})
    assert len(keys) == 4
    assert keys.size("a") == 3
    assert keys.size("d", default=5) == 5
    assert keys.number("b") == 2.0
    assert isinstance(keys.number("b", default=1.5), float)
    assert keys.flag("c", default=False)
    assert keys.flag("d", default=True)
    assert keys.value("e") == [1]
    assert keys.value("f") is None
    assert len(keys) == 0
    assert keys.finish() == []


@pytest.mark.parametrize("value", [0, -1, 2.0, "2", True, [2], 2**63, 10**400])
def test_what_is_no_size_is_a_fault(value):
    for read in (ConfigKeys.size, ConfigKeys.maybe_size):
        keys = ConfigKeys({"a": value})
        assert read(keys, "a", default=7) == 1
        assert keys.faults == [f"a must be a positive whole number, got {value!r}"]


@pytest.mark.parametrize("value", [0, -0.5, math.inf, math.nan, "2", False, 10**400])
def test_what_is_no_number_is_a_fault(value):
    for read in (ConfigKeys.number, ConfigKeys.maybe_number):
        keys = ConfigKeys({"a": value})
        assert read(keys, "a", default=7.0) == 1.0
        assert keys.faults == [f"a must be a positive number, got {value!r}"]


def test_what_is_missing_is_a_fault():
    keys = ConfigKeys({})
    keys.size("a")
    keys.number("b")
    keys.numbers("c")
    assert keys.faults == [
        "a must be a positive whole number, it is missing",
        "b must be a positive number, it is missing",
        "c must be a list of positive numbers, it is missing",
    ]


def test_null_is_none_where_none_means_something_and_else_as_if_missing():
    for given, expected in ((NULL, None), ({}, 7), ({"a": 3}, 3)):
        assert ConfigKeys(given).maybe_size("a", default=7) == expected
        assert ConfigKeys(given).maybe_number("a", default=7.0) == expected
    for given, expected in ((NULL, 7), ({}, 7), ({"a": 3}, 3)):
        assert ConfigKeys(given).size("a", default=7) == expected
        assert ConfigKeys(given).number("a", default=7.0) == expected
    assert ConfigKeys({}).maybe_number("a") is None


@pytest.mark.parametrize("value", [0, 1, "true", []])
def test_what_is_neither_on_nor_off_is_a_fault(value):
    keys = ConfigKeys({"a": value})
    keys.flag("a", default=False)
    assert keys.faults == [f"a must be true or false, got {value!r}"]


def test_lists_of_numbers():
    keys = ConfigKeys({"a": [1, 2.5]})
    assert keys.numbers("a") == (1.0, 2.5)
    assert all(isinstance(number, float) for number in ConfigKeys({"a": [1]}).numbers("a"))


@pytest.mark.parametrize("value", [[], 3.0, [1.0, 0.0], [1.0, "2"], [True], "12", [10**400]])
def test_what_is_no_list_of_numbers_is_a_fault(value):
    keys = ConfigKeys({"a": value})
    assert keys.numbers("a") == (1.0,)
    assert keys.faults == [f"a must be a list of positive numbers, got {value!r}"]


def test_lists_of_words():
    assert ConfigKeys({"a": ["x", "y", "x"]}).names("a", ["x", "y"], count=3) == ["x", "y", "x"]
    for given in ({}, NULL):
        keys = ConfigKeys(given)
        assert keys.names("a", ["x", "y"], count=3) == []
        assert keys.finish() == []


@pytest.mark.parametrize("value", [["x", "z"], ["x"], ["x"] * 3, [], "xy", [["x"], "y"], {}, 2])
def test_what_is_no_list_of_so_many_known_words_is_a_fault(value):
    keys = ConfigKeys({"a": value})
    assert keys.names("a", ["x", "y"], count=2) == []
    assert keys.finish() == [f"a must be a list of 2 words 'x' or 'y', got {value!r}"]


@pytest.mark.parametrize(("theirs", "ours"), ACTIVATIONS.items())
def test_activations_are_known_by_what_configs_call_them(theirs, ours):
    assert ConfigKeys({"a": theirs}).activation("a", default="relu") == ours
    assert ours in OURS
    assert ConfigKeys({}).activation("a", default=theirs) == ours


@pytest.mark.parametrize("value", ["mish", 3, ["gelu"]])
def test_an_activation_that_is_not_known_is_a_fault(value):
    keys = ConfigKeys({"a": value})
    keys.activation("a", default="relu")
    known = "gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, quick_gelu, relu, silu, swish"
    assert keys.faults == [f"a is {value!r}, only {known} are known"]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_that_of_transformers(name, generator):
    import torch
    from transformers.activations import ACT2FN

    x = 3 * torch.randn(99, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(OURS[ACTIVATIONS[name]](x), ACT2FN[name](x))


def test_one_known_value_is_let_through():
    keys = ConfigKeys({"a": "silu", "b": None, "d": "gelu"})
    for name in "abcd":
        keys.only(name, "silu")
    assert keys.finish() == ["d is 'gelu', only 'silu' is known"]


def test_what_was_not_read_is_refused_by_name_unless_harmless_or_null():
    keys = ConfigKeys({"z": 1, "a": 0, "quiet": 2, "null": None})
    keys.refuse("m", "is out of place")
    assert keys.finish(harmless={"quiet"}) == [
        "m is out of place",
        "a is not known here, got 0",
        "z is not known here, got 1",
    ]


def test_a_key_of_a_group_is_named_with_its_group():
    group = ConfigKeys({"group": {"a": 0, "b": 1, "c": None}}).within("group")
    assert len(group) == 2
    group.size("a")
    assert group.finish() == [
        "group.a must be a positive whole number, got 0",
        "group.b is not known here, got 1",
    ]


@pytest.mark.parametrize("value", [2.0, [1], "yarn"])
def test_what_is_no_group_is_a_fault(value):
    keys = ConfigKeys({"group": value})
    assert len(keys.within("group")) == 0
    assert keys.finish() == [f"group must be a group of keys, got {value!r}"]


def test_a_group_that_is_missing_is_empty():
    for given in ({}, {"group": None}, {"group": {}}):
        keys = ConfigKeys(given)
        assert len(keys.within("group")) == 0
        assert keys.finish() == []


def test_no_key_is_both_harmless_and_refused():
    assert not HARMLESS & OFF.keys()
