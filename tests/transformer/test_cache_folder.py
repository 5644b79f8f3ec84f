"""A folder in the cache is there whole or not at all, whatever happens while it is made."""

import errno
import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clearhead.errors import CheckpointError
from clearhead.transformer.cache_folder import (
    alone,
    read_seal,
    seal,
    whole_file,
    whole_folder,
)


def make(target: Path, content: str = "all of it") -> None:
    with whole_folder(target) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_text(content)
        seal(folder, {"origin": "made here"})


def test_a_folder_takes_its_place_when_it_is_done(tmp_path: Path) -> None:
    target = tmp_path / "new" / "target"
    with whole_folder(target) as folder:
        assert not target.exists()
        assert folder.parent == target.parent  # a rename within one file system
    assert list(target.parent.iterdir()) == [target]


def test_an_error_leaves_nothing_and_the_old_one_stays(tmp_path: Path) -> None:
    target = tmp_path / "target"
    make(target)

    def interrupted(folder: Path) -> None:
        (folder / "file").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), whole_folder(target) as folder:
        interrupted(folder)
    assert list(tmp_path.iterdir()) == [target]
    assert read_seal(target) is not None


def test_a_new_one_replaces_the_old_one_and_what_the_dead_left(tmp_path: Path) -> None:
    target = tmp_path / "target"
    make(target, "old")
    (tmp_path / ".target.part-0badcafe").mkdir()
    (tmp_path / ".targetother.part-0badcafe").mkdir()
    make(target, "new")
    assert (target / "inner" / "file").read_text() == "new"
    names = sorted(entry.name for entry in tmp_path.iterdir())
    assert names == [".targetother.part-0badcafe", "target"]


_REFUSALS = [
    (errno.ENOSPC, "No space left on device", None),  # a write names no file
    (errno.EDQUOT, "Disk quota exceeded", None),
    (errno.EACCES, "Permission denied", "inner/file"),
]


@pytest.mark.parametrize(("number", "reason", "file"), _REFUSALS)
def test_a_disk_that_refuses_says_what_to_do(
    number: int, reason: str, file: str | None, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    with pytest.raises(CheckpointError) as caught, whole_folder(target) as folder:
        raise OSError(number, reason, None if file is None else str(folder / file))
    assert str(caught.value) == (
        f"{target} cannot be written: {reason}; make room, or set CLEARHEAD_CACHE to another folder"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.ENOSPC])
def test_what_cannot_be_read_elsewhere_is_not_said_to_be_written(
    number: int, tmp_path: Path
) -> None:
    elsewhere = str(tmp_path / "source")
    with pytest.raises(OSError, match="the source") as caught, whole_folder(tmp_path / "target"):
        raise OSError(number, "the source", elsewhere)
    assert caught.value.filename == elsewhere
    with pytest.raises(OSError, match="Input/output error"), whole_folder(tmp_path / "target"):
        raise OSError(errno.EIO, "Input/output error")  # a read names no file either
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "file"))
    with pytest.raises(CheckpointError) as locked, alone("x", what="x"):
        pass
    with pytest.raises(CheckpointError) as written:
        whole_file(tmp_path / "file" / "x.json", "{}")
    for caught, place in ((locked, "locks"), (written, "x.json")):
        there = re.escape(str(tmp_path / "file" / place))
        said = rf"{there} cannot be written: (Not a directory|File exists); make room, or set CLEA"
        assert re.match(said, str(caught.value))


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "x.json"
    whole_file(target, "1")
    whole_file(target, "é")
    assert target.read_text(encoding="utf-8") == "é"
    assert list(tmp_path.iterdir()) == [target]


def test_a_seal_counts_the_bytes(tmp_path: Path) -> None:
    make(tmp_path / "target")
    assert read_seal(tmp_path / "target") == {
        "origin": "made here",
        "layout": 1,
        "bytes": 9,
        "files": {"inner/file": 9},
    }


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        "{}",
        "\0",
        '{"layout": 1, "files": {"inner/file": 8}}',
        '{"layout": 1, "files": {"inner/other": 9}}',
        '{"layout": 0, "files": {"inner/file": 9}}',
        '{"layout": 1, "files": 9}',
    ],
)
def test_a_seal_that_does_not_fit_is_none(damage: str, tmp_path: Path) -> None:
    make(tmp_path / "target")
    (tmp_path / "target" / "clearhead.json").write_text(damage)
    assert read_seal(tmp_path / "target") is None
    assert read_seal(tmp_path / "absent") is None


_HOLDING = """
import sys, time
from clearhead.transformer.cache_folder import alone
with alone("name", what="it"):
    print("held", flush=True)
    time.sleep(float(sys.argv[1]))
"""


def hold(seconds: float, cache: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDING, str(seconds)],
        env={"CLEARHEAD_CACHE": str(cache), "PATH": ""},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_lock_is_waited_for_and_the_wait_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path))
    with hold(1.0, tmp_path) as holding, alone("name", what="it"):
        assert holding.wait(timeout=10) == 0
    said = "clearhead: another process is preparing it; waiting for it\n"
    assert capsys.readouterr() == ("", said)


def test_the_lock_of_a_killed_process_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path))
    with hold(60.0, tmp_path) as holding:
        holding.kill()
        holding.wait()
    with alone("name", what="it"):
        assert capsys.readouterr() == ("", "")  # nobody was waited for


_MAKING = """
import sys
from pathlib import Path
from clearhead.transformer.cache_folder import seal, whole_folder
print("ready", flush=True)
while True:
    with whole_folder(Path(sys.argv[1])) as folder:
        for number in range(20):
            (folder / str(number)).write_bytes(b"x" * 10_000)
        seal(folder, {})
"""


def test_killed_at_any_moment_it_is_whole_or_not_there(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    target = tmp_path / "target"
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", _MAKING, str(target)], stdout=subprocess.PIPE, text=True
        ) as making:
            assert making.stdout is not None
            assert making.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0.0, 0.1))
            making.kill()
        if target.exists():
            assert read_seal(target) is not None
            assert len(json.loads((target / "clearhead.json").read_text())["files"]) == 20
    make(target)
    assert list(tmp_path.iterdir()) == [target]
