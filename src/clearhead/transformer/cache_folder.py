"""The folder where models are kept, written so that nothing half-done is ever taken for whole.

A folder is made under another name beside its place, flushed to the disk, and renamed. A lock lets
one process make it while others wait; a process that dies leaves at most a folder with a name that
nobody reads, which the next one removes. A finished folder carries a list of its files' sizes, so
that one that lost a file is made again.
"""

import errno
import json
import os
import secrets
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from clearhead.errors import CheckpointError
from clearhead.transformer.progress import say
from clearhead.user_cache import VARIABLE, cache_folder

__all__ = ["SEAL", "alone", "read_seal", "seal", "whole_file", "whole_folder"]

#: The file that says where a folder's weights come from, and what belongs to it.
SEAL = "clearhead.json"

#: Counted up when what this version writes differs from what an older one wrote.
_LAYOUT = 1


@contextmanager
def alone(name: str, *, what: str) -> Generator[None]:
    """Let one process at a time prepare what goes by this name; the system frees a dead one's lock.

    Args:
        name: a name that can be a file's.
        what: the same for people, said while another process is waited for.

    Raises:
        CheckpointError: the cache folder cannot be written.
    """
    # A tenth of a second, which most starts have no need of.
    from filelock import FileLock, Timeout

    folder = cache_folder() / "locks"
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"another process is preparing {what}; waiting for it")
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def whole_folder(target: Path) -> Generator[Path]:
    """Make a folder that is there whole or not at all; call it under the lock of its name.

    Args:
        target: the folder's place; one that stands there is replaced.

    Yields:
        An empty folder to fill. When the block ends it is flushed to the disk and takes its place;
        when it raises it is removed.

    Raises:
        CheckpointError: the disk refuses to hold it. What the block cannot read stays an OSError.
    """
    with _writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        for stale in target.parent.glob(f".{target.name}.part-*"):
            _remove(stale)
        part, old = (
            target.with_name(f".{target.name}.part-{secrets.token_hex(4)}") for _ in range(2)
        )
        part.mkdir()
    try:
        with _writing(target, within=part):
            yield part
        with _writing(target):
            for file in (*part.rglob("*"), part):
                _flush(file)
            # put aside at once, and removed bit by bit only where nobody looks for it
            with suppress(FileNotFoundError):
                target.rename(old)
            part.rename(target)
            _flush(target.parent)
    finally:
        with _writing(target):
            _remove(part)
            _remove(old)


def _remove(path: Path) -> None:
    """Remove a folder, or a file that stands where one belongs; nothing where there is none."""
    if path.is_file():
        path.unlink()
    shutil.rmtree(path, ignore_errors=True)


def whole_file(target: Path, content: str) -> None:
    """Write a small file that is there whole or not at all.

    Args:
        target: the file's place; one that stands there is replaced.
        content: its text.

    Raises:
        CheckpointError: the disk refuses.
    """
    part = target.with_name(f".{target.name}.part-{secrets.token_hex(4)}")
    with _writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_text(content, encoding="utf-8")
            _flush(part)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)


def seal(folder: Path, facts: Mapping[str, Any]) -> int:
    """Write down where a folder's weights come from and how long each of its files is.

    Args:
        folder: the folder, with all its other files in place.
        facts: what to write down; ``origin`` says in words what the weights are.

    Returns:
        The bytes of its files.
    """
    sizes = {
        file.relative_to(folder).as_posix(): file.stat().st_size
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
    total = sum(sizes.values())
    content = {**facts, "layout": _LAYOUT, "bytes": total, "files": sizes}
    (folder / SEAL).write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
    return total


def read_seal(folder: Path) -> dict[str, Any] | None:
    """What `seal` wrote down, or None where a file is missing, cut short or of an older layout.

    Args:
        folder: a folder in the cache.
    """
    try:
        facts = cast("dict[str, Any]", json.loads((folder / SEAL).read_text(encoding="utf-8")))
        sizes = cast("dict[str, int]", facts["files"])
        whole = all((folder / name).stat().st_size == size for name, size in sizes.items())
        return facts if whole and facts["layout"] == _LAYOUT else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


@contextmanager
def _writing(place: Path, *, within: Path | None = None) -> Generator[None]:
    """Turn what the disk refuses into an error that says what to do.

    Args:
        place: what is being written.
        within: where the block is somebody else's and may read other places too: the folder whose
            faults are meant; all by default.
    """
    try:
        yield
    except OSError as fault:
        if within is not None and not _concerns(fault, within):
            raise
        reason = fault.strerror or str(fault)
        raise CheckpointError(
            f"{place} cannot be written: {reason}; make room, or set {VARIABLE} to another folder"
        ) from fault


def _concerns(fault: OSError, folder: Path) -> bool:
    """Whether a fault is of a path in a folder; one that names none, of the room for writing."""
    if fault.filename is None:
        return fault.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return Path(str(fault.filename)).is_relative_to(folder)


def _flush(path: Path) -> None:
    """Have the disk hold a file's content or a folder's names before anything relies on them."""
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no folders; its renames are flushed by the file system
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
