"""A converted file is made once, found again, and never taken for whole when it is not."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clearhead.errors import CheckpointError
from clearhead.transformer.cache_folder import read_seal
from clearhead.transformer.fetch import sha256_of
from clearhead.transformer.gguf import convert, kept
from clearhead.transformer.gguf.kept import folder_of
from tests.transformer.gguf.tiny_gguf import random_tensors, write_gguf


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


_SECOND_START = """
import sys
from pathlib import Path
from clearhead.transformer.gguf.kept import folder_of
folder_of(Path(sys.argv[1]))
print(*sorted({"gguf", "torch", "numpy"} & set(sys.modules)))
"""


def test_a_second_start_imports_nothing_that_takes_a_while(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "x.gguf", random_tensors(0))
    folder_of(file)
    command = [sys.executable, "-c", _SECOND_START, str(file)]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "\n"


def test_a_folder_that_lost_a_file_is_made_again(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "x.gguf", random_tensors(0))
    folder = folder_of(file)
    for damage in (lambda f: f.unlink(), lambda f: f.write_bytes(f.read_bytes()[:-1])):
        damage(folder / "model.safetensors")
        assert read_seal(folder) is None
        assert read_seal(folder_of(file)) is not None


def test_a_changed_file_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "x.gguf", random_tensors(0))
    first = folder_of(file)
    write_gguf(file, random_tensors(1))  # the same length, and within a tick of the clock
    assert folder_of(file) != first


def test_the_sha256_is_remembered(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_gguf(tmp_path / "x.gguf", random_tensors(0))
    an_hour_ago = time.time() - 3600
    os.utime(file, (an_hour_ago, an_hour_ago))
    folder = folder_of(file)
    monkeypatch.setattr(kept, "sha256_of", None)  # it must not be asked again
    assert folder_of(file) == folder
    monkeypatch.undo()
    monkeypatch.setenv("CLEARHEAD_CACHE", str(cache))
    for damage in ("", "[]", '{"x": 1}', "\0"):
        (cache / "sha256.json").write_text(damage)
        assert folder_of(file) == folder


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    missing = tmp_path / "missing.gguf"
    with pytest.raises(CheckpointError) as caught:
        folder_of(missing)
    assert str(caught.value) == f"{missing} cannot be read: No such file or directory"


def test_a_file_that_cannot_be_read_is_not_said_to_be_a_full_disk(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_gguf(tmp_path / "x.gguf", random_tensors(0))

    def unreadable(source: Path, *_given: object, **_named: object) -> None:
        raise OSError(errno.EACCES, "Permission denied", str(source))

    monkeypatch.setattr(convert, "write_folder", unreadable)
    with pytest.raises(CheckpointError) as caught:
        folder_of(file)
    assert str(caught.value) == f"{file} cannot be read: Permission denied"
    assert list((cache / "models").iterdir()) == []


_ELSEWHERE = """
import sys
from pathlib import Path
from clearhead.transformer.gguf.kept import folder_of
print(folder_of(Path(sys.argv[1])))
"""


def test_two_processes_at_once_make_it_once(tmp_path: Path, cache: Path) -> None:
    file = write_gguf(tmp_path / "x.gguf", random_tensors(0))
    command = [sys.executable, "-c", _ELSEWHERE, str(file)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, **pipes) for _ in range(2)]
    outputs = [process.communicate(timeout=60) for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert outputs[0][0] == outputs[1][0]
    assert sum("are kept in" in said for _, said in outputs) == 1
    assert [folder.name for folder in (cache / "models").iterdir()] == [sha256_of(file)]


_SLOW = """
import sys, time
from pathlib import Path
from clearhead.transformer.gguf import convert, kept
weights = convert._weights
def slowly(header, places):
    for tensor in weights(header, places):
        print("writing", flush=True)
        yield tensor
        time.sleep(0.2)
convert._weights = slowly
kept.folder_of(Path(sys.argv[1]))
"""


def test_a_process_killed_while_writing_leaves_nothing_that_is_taken_for_whole(
    tmp_path: Path, cache: Path
) -> None:
    file = write_gguf(tmp_path / "x.gguf", random_tensors(0))
    with subprocess.Popen(
        [sys.executable, "-c", _SLOW, str(file)], stdout=subprocess.PIPE, text=True
    ) as dying:
        assert dying.stdout is not None
        assert dying.stdout.readline() == "writing\n"
        assert dying.stdout.readline() == "writing\n"
        dying.kill()
    left = list((cache / "models").iterdir())
    assert [folder.name.startswith(f".{sha256_of(file)}.part-") for folder in left] == [True]
    folder = folder_of(file)
    assert list((cache / "models").iterdir()) == [folder]
    assert read_seal(folder) is not None
