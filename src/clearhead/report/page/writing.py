"""Writes a page to a file, whole or not at all."""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from clearhead.errors import InputError
from clearhead.report.visible import visible

__all__ = ["check_page_path", "write_page"]


def check_page_path(path: str | os.PathLike[str]) -> None:
    """Refuse a place where no page could be written, before any work is done.

    Nothing is left there, and a page that is there stays.

    Args:
        path: where the page is to be.

    Raises:
        InputError: it is a folder, its folder is not there, or nothing can be written there.
    """
    target = _target(path)
    try:
        handle, probe = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:32]}.")
    except (OSError, ValueError) as error:
        raise _refused(path, error) from error
    os.close(handle)
    Path(probe).unlink()


def write_page(html: str, path: str | os.PathLike[str]) -> None:
    """Write a page; what stood there before stays until the new one is whole.

    Args:
        html: the page.
        path: where to.

    Raises:
        InputError: it cannot be written there.
    """
    target = _target(path)
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:32]}.")
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(html)
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(target)
        temporary = None
    except (OSError, ValueError) as error:
        raise _refused(path, error) from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()


def _target(path: str | os.PathLike[str]) -> Path:
    """The file that is written: where a link points, the link stays."""
    name = os.fspath(path)
    if not name or "\0" in name:
        raise InputError(f"page: expected the path of a file; got {visible(name)!r}")
    target = Path(os.path.realpath(name))
    try:
        kind = target.stat().st_mode
    except FileNotFoundError:
        kind = stat.S_IFREG
    except OSError as error:
        raise _refused(path, error) from error
    if stat.S_ISDIR(kind) or name.endswith((os.sep, "/")):
        raise InputError(f"page: expected the path of a file; {visible(name)} is a folder")
    if not stat.S_ISREG(kind):  # a device would be replaced by a file
        raise InputError(f"page: expected the path of a file; {visible(name)} is a device or pipe")
    if target.exists() and not os.access(target, os.W_OK):
        raise InputError(f"page: cannot write {visible(name)}: it is read-only")
    return target


def _refused(path: str | os.PathLike[str], error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(f"page: cannot write {visible(os.fspath(path))}: {reason}")


def _umask() -> int:
    """What a new file's permissions leave out; a temporary file is its owner's alone."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
