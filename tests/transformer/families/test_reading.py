"""What many families spell alike: rotary positions, in both spellings."""

import math

import pytest

from clearhead.positions.kinds import Rotary
from clearhead.positions.scaling import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    YarnScaling,
    longrope_attention_factor,
    yarn_attention_factor,
)
from clearhead.transformer.families.keys import ConfigKeys
from clearhead.transformer.families.reading import read_rotary

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
SHORT, LONG = [1.0, 1.5, 2.0, 2.5], [2, 3, 4, 5]
LONGROPE = {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG}
ORIGINAL = "original_max_position_embeddings"


def read(written: dict[str, object], **given: object) -> tuple[Rotary, list[str]]:
    keys = ConfigKeys(written)
    rotary = read_rotary(keys, **{"d_k": 8, "context": 64, **given})
    return rotary, keys.finish()


def scaling_of(group: dict[str, object], **beside: object) -> object:
    """The scaling that a group gives, in the new spelling and, the same, in the old one."""
    new, faults = read({"rope_parameters": group, **beside})
    old = {"type" if name == "rope_type" else name: value for name, value in group.items()}
    assert read({"rope_scaling": old, **beside}) == (new, faults)
    assert read({"rope_scaling": group, **beside}) == (new, faults)
    assert faults == []
    assert (new.theta, new.width, new.interleaved) == (10_000.0, None, False)
    return new.scaling


# ------------------------------------------------------------------------------- base and width


@pytest.mark.parametrize(
    ("written", "theta"),
    [
        ({}, 10_000.0),
        ({"rope_theta": 500}, 500.0),
        ({"rope_scaling": None, "rope_theta": 5.0}, 5.0),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}}, 7.0),
        ({"rope_parameters": {"rope_theta": 7.0}, "rope_theta": 5.0}, 7.0),
        ({"rope_parameters": {}, "rope_scaling": {}, "rope_theta": 5.0}, 5.0),
        ({"rope_parameters": None, "rope_scaling": None}, 10_000.0),
    ],
)
def test_the_base_in_every_spelling(written, theta):
    assert read(written) == (Rotary(theta=theta), [])


def test_a_family_has_a_base_a_part_and_pairs_of_its_own():
    assert read({}, theta=3.0, fraction=0.5, interleaved=True) == (
        Rotary(theta=3.0, width=4, interleaved=True),
        [],
    )


@pytest.mark.parametrize(
    "written",
    [
        {"partial_rotary_factor": 0.5},
        {"rope_parameters": {"partial_rotary_factor": 0.5}},
        {"rope_parameters": {"partial_rotary_factor": 0.5}, "partial_rotary_factor": 0.25},
    ],
)
def test_part_of_a_head_in_every_spelling(written):
    assert read(written, fraction=1.0) == (Rotary(width=4), [])
    assert read(written, fraction=0.25) == (Rotary(width=4), [])
    assert read(written) == (Rotary(), [])  # a family that turns the whole of a head


def test_where_all_of_a_head_turns_a_part_cannot_be_scaled():
    group = {"rope_type": "linear", "factor": 2.0}
    for written in (
        {"rope_parameters": {**group, "partial_rotary_factor": 0.5}},
        {"rope_scaling": group, "partial_rotary_factor": 0.5},
    ):
        assert read(written)[1] == [
            "partial_rotary_factor is 0.5, only 1.0 is known where all of a head turns"
        ]


def test_a_part_that_is_all_is_no_part():
    assert read({"partial_rotary_factor": 1.0}, fraction=0.5) == (Rotary(), [])
    assert read({"partial_rotary_factor": 1}, fraction=0.5) == (Rotary(), [])


# ------------------------------------------------------------------------------------- scalings


def test_linear():
    assert scaling_of({"rope_type": "linear", "factor": 2}) == LinearScaling(2.0)


def test_dynamic_goes_by_the_whole_context():
    group = {"rope_type": "dynamic", "factor": 2.0}
    assert scaling_of(group) == DynamicScaling(2.0, original_context=64)
    assert scaling_of({**group, ORIGINAL: 16}) == DynamicScaling(2.0, original_context=64)


@pytest.mark.parametrize("kind", ["llama3", "yarn", "longrope"])
def test_the_original_context_in_every_place(kind):
    group = {
        "llama3": LLAMA3,
        "yarn": {"rope_type": "yarn", "factor": 4.0},
        "longrope": LONGROPE,
    }[kind]
    assert scaling_of(group).original_context == 64
    assert scaling_of(group, **{ORIGINAL: 32}).original_context == 32
    assert scaling_of({**group, ORIGINAL: 16}).original_context == 16
    # as transformers has it: what stands outside goes first
    assert scaling_of({**group, ORIGINAL: 16}, **{ORIGINAL: 32}).original_context == 32
    assert scaling_of({**group, ORIGINAL: 16}, **{ORIGINAL: None}).original_context == 16


def test_llama3():
    expected = Llama3Scaling(8.0, 1.0, 4.0, original_context=16)
    assert scaling_of({**LLAMA3, ORIGINAL: 16}) == expected


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, {"attention_factor": yarn_attention_factor(4.0)}),
        ({"attention_factor": 1.5}, {"attention_factor": 1.5}),
        ({"attention_factor": None}, {"attention_factor": 0.1 * math.log(4.0) + 1}),
        (
            {"mscale": 0.7, "mscale_all_dim": 0.4},
            {"attention_factor": yarn_attention_factor(4.0, mscale=0.7, mscale_all_dim=0.4)},
        ),
        ({"mscale": 0.7}, {"attention_factor": yarn_attention_factor(4.0)}),
        ({"mscale": 0.7, "mscale_all_dim": 0.4, "attention_factor": 2}, {"attention_factor": 2.0}),
        (
            {"beta_fast": 16, "beta_slow": 2, "truncate": False},
            {
                "attention_factor": yarn_attention_factor(4.0),
                "beta_fast": 16.0,
                "beta_slow": 2.0,
                "truncate": False,
            },
        ),
    ],
)
def test_yarn(told, expected):
    group = {"rope_type": "yarn", "factor": 4, ORIGINAL: 16, **told}
    assert scaling_of(group) == YarnScaling(4.0, 16, **expected)


@pytest.mark.parametrize("name", ["longrope", "su"])
def test_longrope(name):
    group = {**LONGROPE, "rope_type": name, ORIGINAL: 16}
    factors = (1.0, 1.5, 2.0, 2.5), (2.0, 3.0, 4.0, 5.0)
    natural = longrope_attention_factor(64 / 16, original_context=16)
    assert scaling_of(group) == LongRopeScaling(*factors, 16, natural)
    told = longrope_attention_factor(8.0, original_context=16)
    assert scaling_of({**group, "factor": 8}) == LongRopeScaling(*factors, 16, told)
    assert scaling_of({**group, "attention_factor": 2}) == LongRopeScaling(*factors, 16, 2.0)


def test_longrope_may_turn_part_of_a_head():
    group = {**LONGROPE, "short_factor": SHORT[:2], "long_factor": LONG[:2], ORIGINAL: 16}
    rotary, faults = read({"rope_scaling": group, "partial_rotary_factor": 0.5}, fraction=1.0)
    assert faults == []
    assert rotary.width == 4
    assert rotary.scaling.short_factors == (1.0, 1.5)


# --------------------------------------------------------------------------------------- faults

EACH = "must have one number a pair each"
KNOWN = "default, linear, dynamic, yarn, longrope, su, llama3"


@pytest.mark.parametrize(
    ("written", "faults"),
    [
        (
            {"rope_scaling": {"type": "ntk"}},
            [f"rope_scaling.rope_type is 'ntk', only {KNOWN} are known"],
        ),
        (
            {"rope_parameters": {"rope_type": ["linear"]}},
            [f"rope_parameters.rope_type is \"['linear']\", only {KNOWN} are known"],
        ),
        (
            {"rope_parameters": {"rope_type": "linear"}},
            ["rope_parameters.factor must be a positive number, it is missing"],
        ),
        (
            {"rope_parameters": {"beta_fast": 32}},
            ["rope_parameters.beta_fast is not known here, got 32"],
        ),
        (
            {"rope_scaling": {"type": "yarn", "factor": 0, "beta_slow": "x", "gamma": 1}},
            [
                "rope_scaling.factor must be a positive number, got 0",
                "rope_scaling.beta_slow must be a positive number, got 'x'",
                "rope_scaling.gamma is not known here, got 1",
            ],
        ),
        (
            {"rope_parameters": {**LONGROPE, "short_factor": None, "long_factor": [1, 0]}},
            [
                "rope_parameters.short_factor must be a list of positive numbers, it is missing",
                "rope_parameters.long_factor must be a list of positive numbers, got [1, 0]",
            ],
        ),
        (
            {"rope_parameters": {**LONGROPE, "long_factor": LONG[:3]}},
            [f"LongRopeScaling: short_factors and long_factors {EACH}, got 4 and 3"],
        ),
        (
            {"rope_parameters": {**LONGROPE, ORIGINAL: 1}},
            ["LongRopeScaling: attention_factor must be a positive finite number, got inf"],
        ),
        (
            {"rope_parameters": {**LONGROPE, ORIGINAL: "x"}},
            [f"rope_parameters.{ORIGINAL} must be a positive whole number, got 'x'"],
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"a": 5}},
            ["rope_parameters and rope_scaling are both set, only one of them may be"],
        ),
        ({"rope_scaling": 2.0}, ["rope_scaling must be a group of keys, got 2.0"]),
        ({"partial_rotary_factor": 1.5}, ["partial_rotary_factor must be at most 1, got 1.5"]),
        ({"rope_theta": -1}, ["rope_theta must be a positive number, got -1"]),
    ],
)
def test_what_is_not_understood_is_refused_by_name(written, faults):
    assert read(written)[1] == faults


def test_an_odd_part_of_a_head_cannot_turn():
    said = "Rotary: width must be even and positive, got 3: numbers turn in pairs"
    assert read({"partial_rotary_factor": 0.4}, fraction=1.0)[1] == [said]
