"""Config keys are read once, by name, and what nobody read is refused."""

import math

import pytest

from clearhead.positions.scaling import LinearScaling, Llama3Scaling
from clearhead.transformer.families.keys import HARMLESS, OFF, ConfigKeys, rotary_fields


def test_values_are_read_with_their_defaults():
    keys = ConfigKeys({"a": 3, "b": 2, "c": True, "d": None, "e": [1]})
    assert keys.size("a") == 3
    assert keys.size("d", default=5) == 5
    assert keys.number("b") == 2.0
    assert isinstance(keys.number("b", default=1.5), float)
    assert keys.flag("c", default=False)
    assert keys.flag("d", default=True)
    assert keys.value("e") == [1]
    assert keys.value("f") is None
    assert keys.finish() == []


@pytest.mark.parametrize("value", [0, -1, 2.0, "2", True, [2]])
def test_what_is_no_size_is_a_fault(value):
    keys = ConfigKeys({"a": value})
    assert keys.size("a", default=7) == 1
    assert keys.faults == [f"a must be a positive whole number, got {value!r}"]


@pytest.mark.parametrize("value", [0, -0.5, math.inf, math.nan, "2", False])
def test_what_is_no_number_is_a_fault(value):
    keys = ConfigKeys({"a": value})
    assert keys.number("a", default=7.0) == 1.0
    assert keys.faults == [f"a must be a positive number, got {value!r}"]


def test_what_is_missing_is_a_fault():
    keys = ConfigKeys({})
    keys.size("a")
    keys.number("b")
    assert keys.faults == [
        "a must be a positive whole number, it is missing",
        "b must be a positive number, it is missing",
    ]


@pytest.mark.parametrize("value", [0, 1, "true", []])
def test_what_is_neither_on_nor_off_is_a_fault(value):
    keys = ConfigKeys({"a": value})
    keys.flag("a", default=False)
    assert keys.faults == [f"a must be true or false, got {value!r}"]


def test_one_known_value_is_let_through():
    keys = ConfigKeys({"a": "silu", "b": None})
    keys.only("a", "silu")
    keys.only("b", "silu")
    keys.only("c", "silu")
    assert keys.finish() == []


def test_what_was_not_read_is_refused_by_name_unless_harmless_or_null():
    keys = ConfigKeys({"z": 1, "a": 0, "quiet": 2, "null": None})
    assert keys.finish(harmless={"quiet"}) == [
        "a is not known here, got 0",
        "z is not known here, got 1",
    ]


def test_a_key_of_a_group_is_named_with_its_group():
    group = ConfigKeys({"group": {"a": 0, "b": 1}}).within("group")
    group.size("a")
    assert group.finish() == [
        "group.a must be a positive whole number, got 0",
        "group.b is not known here, got 1",
    ]


def test_no_key_is_both_harmless_and_refused():
    assert not HARMLESS & OFF.keys()


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


@pytest.mark.parametrize(
    ("written", "theta", "scaling"),
    [
        ({}, 10_000.0, None),
        ({"rope_theta": 500}, 500.0, None),
        ({"rope_scaling": None, "rope_theta": 5.0}, 5.0, None),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}}, 7.0, None),
        ({"rope_parameters": {"rope_theta": 7.0}, "rope_theta": 5.0}, 7.0, None),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, 10_000.0, LinearScaling(2.0)),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2.0}}, 10_000.0, LinearScaling(2.0)),
        (
            {"rope_theta": 5.0, "rope_scaling": LLAMA3},
            5.0,
            Llama3Scaling(8.0, 1.0, 4.0, original_context=64),
        ),
        (
            {"rope_parameters": {"original_max_position_embeddings": 16, **LLAMA3}},
            10_000.0,
            Llama3Scaling(8.0, 1.0, 4.0, original_context=16),
        ),
    ],
)
def test_rotary_positions_are_read_in_both_spellings(written, theta, scaling):
    keys = ConfigKeys(written)
    assert rotary_fields(keys, context=64) == {"rotary_theta": theta, "rotary_scaling": scaling}
    assert keys.finish() == []


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        (
            {"rope_scaling": {"type": "yarn"}},
            "rope_scaling.rope_type is 'yarn', only default, linear and llama3 are known",
        ),
        (
            {"rope_parameters": {"rope_type": ["linear"]}},
            "rope_parameters.rope_type is ['linear'], only default, linear and llama3 are known",
        ),
        (
            {"rope_parameters": {"rope_type": "linear"}},
            "rope_parameters.factor must be a positive number, it is missing",
        ),
        (
            {"rope_parameters": {"beta_fast": 32}},
            "rope_parameters.beta_fast is not known here, got 32",
        ),
        (
            {"rope_parameters": {"partial_rotary_factor": 0.5}},
            "rope_parameters.partial_rotary_factor is 0.5, only 1.0 is known",
        ),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5, only 1.0 is known"),
        (
            {
                "rope_scaling": {"factor": 2.0, "type": "linear"},
                "rope_parameters": {"rope_theta": 5},
            },
            "rope_parameters and rope_scaling are both set, only one of them may be",
        ),
        ({"rope_scaling": 2.0}, "rope_scaling must be a group of keys, got 2.0"),
    ],
)
def test_rotary_positions_that_are_not_understood_are_refused_by_name(written, fault):
    keys = ConfigKeys(written)
    rotary_fields(keys, context=64)
    assert keys.finish() == [fault]
