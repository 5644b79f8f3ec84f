"""Files of a folder replaced by new ones: all of them, or none.

New files are written into a folder beside the old ones, under a name that nobody reads, and flushed
to the disk. Then they are renamed into place; where a rename fails, those before it are undone. A
folder is locked meanwhile, and the system frees the lock of a process that dies: what such a one
left is known by that, and the next save removes it.
"""

import os
import secrets
import shutil
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from clearhead.errors import CheckpointError
from clearhead.transformer.progress import say

__all__ = ["Replacement", "cut_off", "refused", "replacing"]

_MARK = ".saving-"
_STALE_SECONDS = 24 * 3600


class Replacement:
    """New files of a folder, not yet in place.

    Attributes:
        new: an empty folder, to write them into.
        folder: the folder that they are for.
    """

    def __init__(self, folder: Path, new: Path) -> None:
        self.folder = folder
        self.new = new
        self._old = new / "old"
        self._undone: list[tuple[Path, Path]] = []

    def place(self, *, away: Sequence[str], names: Sequence[str]) -> None:
        """Take old files away, then put the new ones into place, each in the order given.

        Args:
            away: names of old files, which need not be there.
            names: names of new files; an old file of that name is replaced at once.
        """
        for name in names:
            _flush(self.new / name)
        self._old.mkdir()
        try:
            for name in away:
                with suppress(FileNotFoundError):
                    self._move(self.folder / name, self._old / name)
            for name in names:
                self._keep(name)
                self._move(self.new / name, self.folder / name)
            _flush(self.folder)
        except BaseException:
            for before, after in reversed(self._undone):
                after.replace(before)
            raise

    def _keep(self, name: str) -> None:
        """Give an old file a second name, so that its place is never empty; else move it away."""
        place, kept = self.folder / name, self._old / name
        try:
            os.link(place, kept)
            self._undone.append((place, kept))
        except FileNotFoundError:
            return
        except OSError:  # a file system without second names
            self._move(place, kept)

    def _move(self, before: Path, after: Path) -> None:
        before.replace(after)
        self._undone.append((before, after))


@contextmanager
def replacing(folder: Path) -> Generator[Replacement]:
    """Replace files of a folder, which is made where it is not there; other files in it stay.

    One process at a time does so; another one waits.

    Args:
        folder: the folder.

    Yields:
        Where to write the new files, and what puts them into place.

    Raises:
        CheckpointError: the disk refuses; what stood in the folder is as it was.
    """
    made = _missing(folder)
    try:
        with _alone(folder) as is_alone:
            _clean(folder, oldest=0 if is_alone else _STALE_SECONDS)
            new = folder / f"{_MARK}{secrets.token_hex(4)}"
            try:
                new.mkdir()
                yield Replacement(folder, new)
            finally:
                shutil.rmtree(new, ignore_errors=True)
                _unmake(made)  # while nobody else is in there
    except OSError as fault:
        _unmake(made)
        raise refused(folder, fault) from fault


def _missing(folder: Path) -> list[Path]:
    """The folders of a path that have to be made, the innermost first."""
    chain = [folder, *folder.parents]
    return [one for one in chain if not one.exists()]


def _unmake(made: Sequence[Path]) -> None:
    for one in made:
        with suppress(OSError):
            one.rmdir()  # goes only where it is empty


def refused(folder: Path, fault: OSError) -> CheckpointError:
    """The error of a folder that the disk refuses.

    Args:
        folder: the folder.
        fault: what the disk said.
    """
    reason = fault.strerror or str(fault)
    return CheckpointError(f"{folder} cannot be written: {reason}; what stood there is as it was")


def cut_off(folder: Path) -> str | None:
    """What is left of a save that was cut off, or has still to put its files into place; or None.

    Args:
        folder: the folder that it was for.
    """
    return next((one.name for one in sorted(folder.glob(f"{_MARK}*"))), None)


@contextmanager
def _alone(folder: Path) -> Generator[bool]:
    """Make a folder, and keep other processes' saves out of it until the block ends.

    Yields:
        False where the system locks no folders: Windows, and some disks that machines share.
    """
    handle = _locked(folder)
    try:
        yield handle is not None
    finally:
        if handle is not None:
            _unlock(handle)


def _locked(folder: Path) -> int | None:
    """The handle whose lock keeps others out, or None; the folder's own lock leaves no file."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        if sys.platform == "win32":
            return None
        try:
            handle = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            is_locked, is_there = _lock(handle, folder), _is_at(handle, folder)
        except BaseException:
            os.close(handle)
            raise
        if is_locked and is_there:
            return handle
        _unlock(handle)
        if not is_locked:
            return None


def _is_at(handle: int, folder: Path) -> bool:
    """Whether an open folder has its name still: a save that failed takes away what it made."""
    try:
        return os.path.samestat(os.fstat(handle), folder.stat())
    except FileNotFoundError:
        return False


def _lock(handle: int, folder: Path) -> bool:
    """Wait for the lock of an open folder; False where there are none."""
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"another save into {folder} is running; waiting for it")
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:  # a disk without locks
        return False
    return True


def _unlock(handle: int) -> None:
    """Free a lock, for processes too that were forked meanwhile and hold the handle as well."""
    import fcntl

    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


def _clean(folder: Path, *, oldest: float) -> None:
    """Remove what saves left that were cut off: all that is at least so many seconds old."""
    for stale in folder.glob(f"{_MARK}*"):
        if time.time() - stale.stat().st_mtime >= oldest:
            shutil.rmtree(stale, ignore_errors=True)


def _flush(path: Path) -> None:
    """Have the disk hold a file's content or a folder's names before anything relies on them."""
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no folders; its renames are flushed by the file system
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
