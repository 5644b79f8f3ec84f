"""A scaling is a plain value."""

import subprocess
import sys

import pytest

from clearhead.positions.scaling import LinearScaling, Llama3Scaling


def test_scalings_compare_by_what_they_say():
    assert LinearScaling(2.0) == LinearScaling(2.0) != LinearScaling(3.0)
    scalings = {Llama3Scaling(8.0, 1.0, 4.0, 64), Llama3Scaling(8.0, 1.0, 4.0, 64)}
    assert len(scalings) == 1
    with pytest.raises(AttributeError):
        LinearScaling(2.0).factor = 3.0


def test_a_scaling_is_named_without_torch():
    code = "import sys, clearhead.positions.scaling; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
