"""The two test sessions, the seed that repeats a run, and skips that fail under CI."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house_rules import ROOT

_TESTS = """
import pytest

@pytest.mark.compiled
def test_compiled():
    pass

def test_plain(seed):
    assert seed < 0

def test_skipped():
    pytest.skip("needs a thing: install it")
"""


@pytest.fixture
def session(tmp_path: Path):
    """Run pytest as this project is set up, on a few tests of its own."""
    (tmp_path / "test_scratch.py").write_text(_TESTS, "utf-8")

    def run(*options: str, **variables: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml")]
        command += ["-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
        kept = {k: v for k, v in os.environ.items() if k not in {"CI", "CLEARHEAD_SEED"}}
        ended = subprocess.run(
            [*command, *options, str(tmp_path)],
            cwd=ROOT,
            env={**kept, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        return ended.returncode, ended.stdout + ended.stderr

    return run


def test_the_session_with_shape_checks_leaves_out_what_is_compiled(session) -> None:
    _, output = session("--shape-checks")
    assert "run-time shape checks on" in output
    assert "1 failed, 1 skipped, 1 deselected" in output


def test_a_failure_says_what_repeats_it(session) -> None:
    _, first = session("-k", "plain")
    number = re.search(r"seed = (\d+); to repeat: CLEARHEAD_SEED=(\d+) pytest '(.+)'", first)
    assert number, first
    assert number[3] == "test_scratch.py::test_plain"
    _, second = session("-k", "plain", CLEARHEAD_SEED=number[2])
    assert f"seed = {number[1]};" in second
    _, third = session("-k", "plain")
    assert f"seed = {number[1]};" not in third


def test_a_skip_fails_the_run_under_ci_alone(session) -> None:
    code, output = session("-k", "skipped")
    assert (code, "needs a thing: install it" in output) == (0, True)
    code, output = session("-k", "skipped", CI="true")
    assert code == 1
    assert re.search(r"CI=true allows no skip =+\n\ntest_scratch.py::test_skipped\n", output)
