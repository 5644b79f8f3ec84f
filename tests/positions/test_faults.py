"""Judges of numbers give a line or none."""

import subprocess
import sys

import pytest

from clearhead.errors import InputError
from clearhead.positions.faults import positive, refuse, whole


@pytest.mark.parametrize("value", [1, 0.5, 1e300])
def test_a_positive_number_is_no_fault(value):
    assert positive("factor", value) == []


@pytest.mark.parametrize("value", [0, -1.0, float("inf"), float("nan"), True, "2", None])
def test_anything_else_is_one(value):
    assert positive("factor", value) == [f"factor must be a positive finite number, got {value!r}"]


def test_whole_numbers_have_a_least_one():
    assert whole("n", 1) == whole("n", 0, least=0) == whole("n", 4, least=4) == []
    assert whole("n", 0) == ["n must be a positive whole number, got 0"]
    assert whole("n", -1, least=0) == ["n must be a whole number, at least 0, got -1"]
    assert whole("n", 2.0) == ["n must be a positive whole number, got 2.0"]
    assert whole("n", True) == ["n must be a positive whole number, got True"]


def test_all_faults_stand_in_one_message_under_the_name_of_their_owner():
    refuse(3, [])
    with pytest.raises(InputError) as caught:
        refuse(3, ["one", "two"])
    assert str(caught.value) == "int, 2 faults:\n  - one\n  - two"


def test_plain_values_need_no_torch():
    code = "import sys, clearhead.positions.kinds; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
