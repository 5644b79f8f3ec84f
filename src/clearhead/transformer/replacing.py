"""Files of a folder replaced by new ones: all of them, or none.

New files are written into a folder beside the old ones, under a name that nobody reads, and flushed
to the disk. Then they are renamed into place; where a rename fails, those before it are undone.
"""

import os
import secrets
import shutil
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from clearhead.errors import CheckpointError

__all__ = ["Replacement", "replacing"]

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

    Args:
        folder: the folder.

    Yields:
        Where to write the new files, and what puts them into place.

    Raises:
        CheckpointError: the disk refuses; what stood in the folder is as it was.
    """
    made = _missing(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _clean(folder)
        new = folder / f"{_MARK}{secrets.token_hex(4)}"
        new.mkdir()
        try:
            yield Replacement(folder, new)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise CheckpointError(
            f"{folder} cannot be written: {reason}; what stood there is as it was"
        ) from fault
    finally:
        for one in made:
            with suppress(OSError):
                one.rmdir()  # goes only where it is empty


def _missing(folder: Path) -> list[Path]:
    """The folders of a path that have to be made, the innermost first."""
    chain = [folder, *folder.parents]
    return [one for one in chain if not one.exists()]


def _clean(folder: Path) -> None:
    """Remove what a process that died left behind, and no other can be writing still."""
    for stale in folder.glob(f"{_MARK}*"):
        if time.time() - stale.stat().st_mtime > _STALE_SECONDS:
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
