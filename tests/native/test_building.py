"""A library is compiled once, and is there whole or not at all; why it is not has a name."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clearhead.native import building, library
from clearhead.native.building import SWITCH, AbsentError, build


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> Path:
    """A cache folder in which nothing was built yet."""
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path))
    return tmp_path / "native"


def test_it_is_compiled_once(own_cache) -> None:
    made = build()
    assert list(own_cache.iterdir()) == [made]
    written = made.stat().st_mtime_ns
    assert build() == made
    assert made.stat().st_mtime_ns == written
    assert ctypes.CDLL(str(made)).linear_float32


def test_other_processors_have_their_own(monkeypatch) -> None:
    made = build()
    monkeypatch.setattr(building, "_processor", lambda: "another")
    assert build() != made


def test_it_brings_no_threads_of_its_own() -> None:
    # a library that is needed is named in the file's own strings
    assert b"libgomp" not in build().read_bytes()


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        (SWITCH, "0", f"{SWITCH} is 0"),
        ("CC", "no-such-compiler", "no C compiler named no-such-compiler"),
        ("PATH", "", "no C compiler"),
        ("CC", 'gcc "', "CC cannot be read: No closing quotation"),
        ("CLEARHEAD_CACHE", "~no-such-user/x", "no cache folder: .*"),
    ],
)
def test_why_there_can_be_none(setting, value, words, monkeypatch, own_cache) -> None:
    monkeypatch.setenv(setting, value)
    with pytest.raises(AbsentError, match=f"^{words}$"):
        build()
    assert not own_cache.exists()


def test_a_compiler_may_come_with_arguments(monkeypatch, own_cache) -> None:
    monkeypatch.setenv("CC", "env FLAG='a b' cc")
    assert build().parent == own_cache


def test_a_spoilt_one_is_made_again() -> None:
    made = build()
    whole = made.read_bytes()
    _spoil(made, whole[:-100])  # to load it would end the process
    assert build() == made
    assert len(made.read_bytes()) == len(whole)
    _spoil(made, bytes(len(whole)))
    assert build() == made
    assert library._loaded().linear_float32
    assert made.read_bytes()[:4] == whole[:4]


def _spoil(library: Path, content: bytes) -> None:
    """Put other content in its place; this process has the old file in memory until it ends."""
    library.unlink()
    library.write_bytes(content)


def test_another_system_has_none(monkeypatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(AbsentError, match=r"^not on win32$"):
        build()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo cannot >&2; echo more >&2; exit 3", "failed: cannot"),
        ("exit 4", "failed: 4"),
        (
            '[ $1 = -shared ] || exit 0; for to; do :; done; echo no library > "$to"',
            "cannot be loaded: .*",
        ),
    ],
)
def test_a_compiler_that_fails_leaves_nothing(script, words, monkeypatch, tmp_path, own_cache):
    compiler = tmp_path / "broken"
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(AbsentError, match=f"{words}$"):
        build()
    assert not list(own_cache.iterdir())


def test_a_compiler_that_never_ends_is_left(monkeypatch, tmp_path) -> None:
    compiler = tmp_path / "slow"
    compiler.write_text("#!/bin/sh\nexec sleep 60\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setattr(building, "_SECONDS", 0.2)
    with pytest.raises(subprocess.TimeoutExpired):
        build()


def test_many_processes_at_once_make_the_same(tmp_path, own_cache) -> None:
    code = "import torch\nfrom clearhead.native.building import build\nprint(build())"
    environment = {**os.environ, "CLEARHEAD_CACHE": str(tmp_path)}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment, text=True
        )
        for _ in range(3)
    ]
    said = {process.communicate()[0].strip() for process in running}
    assert len(said) == 1
    assert [str(path) for path in own_cache.iterdir()] == [*said]
