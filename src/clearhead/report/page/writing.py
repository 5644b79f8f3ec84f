"""Writes a page to a file, whole or not at all."""

import os
import secrets
import stat
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
    probe = _beside(target)
    try:
        os.close(_opened(probe))
    except (OSError, ValueError) as error:
        raise _refused(path, error) from error
    finally:
        probe.unlink(missing_ok=True)


def write_page(html: str, path: str | os.PathLike[str]) -> None:
    """Write a page; what stood there before stays until the new one is whole.

    A program that is killed (not interrupted) meanwhile leaves a hidden file beside it.

    Args:
        html: the page.
        path: where to.

    Raises:
        InputError: it cannot be written there.
    """
    target = _target(path)
    temporary = _beside(target)
    try:
        with os.fdopen(_opened(temporary), "w", encoding="utf-8", newline="\n") as stream:
            stream.write(html)
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)
    except (OSError, ValueError) as error:
        raise _refused(path, error) from error
    finally:
        with suppress(OSError):  # also where the program is interrupted
            temporary.unlink(missing_ok=True)


def _beside(target: Path) -> Path:
    """A new name in the same folder, hidden."""
    return target.with_name(f".{target.name[:32]}.{secrets.token_hex(6)}")


def _opened(path: Path) -> int:
    """A new file, with the permissions that any new file there gets."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)


def _target(path: str | os.PathLike[str]) -> Path:
    """The file that is written: where a link points, the link stays."""
    try:
        name = os.fspath(path)
    except TypeError as error:
        raise InputError(f"page: expected the path of a file; got {path!r}") from error
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may not check
        raise InputError(f"page: expected the path of a file as text; got {path!r}")
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
