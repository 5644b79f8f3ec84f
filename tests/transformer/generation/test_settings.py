"""How a text is to be written: what is wrong with it is said, and without torch."""

import math
import subprocess
import sys

import pytest

from clearhead.transformer.generation.settings import Sampling, length_faults, stop_faults

_COLD = "temperature must be 0 (the most probable token) or a positive number, got "


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"temperature": -0.5}, _COLD + "-0.5"),
        ({"temperature": math.nan}, _COLD + "nan"),
        ({"temperature": 10**400}, _COLD + str(10**400)),
        ({"temperature": "1"}, _COLD + "'1'"),
        ({"temperature": 1, "top_k": 0}, "top_k must be a whole number of at least 1, got 0"),
        ({"temperature": 1, "top_k": 2.0}, "top_k must be a whole number of at least 1, got 2.0"),
        ({"temperature": 1, "top_p": 0}, "top_p must be above 0 and at most 1, got 0"),
        ({"temperature": 1, "top_p": 1.1}, "top_p must be above 0 and at most 1, got 1.1"),
        ({"seed": -1}, "seed must be a whole number from 0 to 2**62 - 1, got -1"),
        ({"seed": True}, "seed must be a whole number from 0 to 2**62 - 1, got True"),
        ({"top_k": 5}, "top_k: nothing is drawn at temperature 0; give temperature=1.0 to draw"),
        (
            {"top_k": 5, "top_p": 0.9},
            "top_k and top_p: nothing is drawn at temperature 0; give temperature=1.0 to draw",
        ),
    ],
)
def test_a_wrong_value_is_told(settings, told) -> None:
    assert list(Sampling(**settings).faults()) == [told]


@pytest.mark.parametrize(
    "settings",
    [{}, {"seed": 0}, {"temperature": 1e-9}, {"temperature": 1, "top_k": 1, "top_p": 1, "seed": 3}],
)
def test_right_values(settings) -> None:
    assert list(Sampling(**settings).faults()) == []


@pytest.mark.parametrize("asked", [0, -3, 1.0, True, "5"])
def test_a_wrong_length(asked) -> None:
    told = f"max_new_tokens must be a whole number of at least 1, got {asked!r}"
    assert list(length_faults(asked)) == [told]


def test_right_lengths() -> None:
    assert [*length_faults(None), *length_faults(1)] == []


def test_stop_strings() -> None:
    assert list(stop_faults(["a", "\n"])) == []
    told = "stop must be a text or several, none of them empty, got "
    assert list(stop_faults(["a", ""])) == [f"{told}''"]
    assert list(stop_faults([3])) == [f"{told}3"]


def test_it_imports_no_torch() -> None:
    code = (
        "import sys, clearhead.transformer.generation.settings, "
        "clearhead.transformer.generation.limits, clearhead.transformer.cache_cost, "
        "clearhead.transformer.available_memory; print('torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert ran.stdout == "False\n"
