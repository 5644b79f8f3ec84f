"""What a terminal can show, and writing to it: width, colours, encoding, status, closed pipes."""

import errno
import os
import re
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import StringIO
from typing import Literal, TextIO, get_args

from rich.console import Console, RenderableType

from clearhead.errors import ClearheadError
from clearhead.report.visible import shortened, visible

__all__ = [
    "OutputError",
    "Terminal",
    "plain_for",
    "rendered",
    "status",
    "write_diagnosis",
    "write_whole",
]

Colours = Literal["standard", "256", "truecolor"]

_NARROWEST, _WIDEST = 20, 500

# Where an encoding lacks our signs (an ASCII or cp1252 stream), these say the same.
_PLAIN_SIGNS = str.maketrans(
    dict(zip("▁▂▃▄▅▆▇█", "12345678", strict=True))
    | dict(zip("⟦⟧┊━╸·×␣–‹›−‖", "[]|=-*x_-<>-|", strict=True))
    | {"…": "...", "◌": ""}
    | {"↵": "\\n", "⇥": "\\t", "␍": "\\r"}
    | {"ᵀ": "^T", "Σ": "sum", "ⱼ": "_j", "ᵢ": "_i", "ʰ": "^h"}
)


# All but the new line and the tab.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class OutputError(ClearheadError):
    """What was made cannot be written: a closed pipe, a full disk."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """What a stream can show.

    Attributes:
        width: cells a line.
        colours: the colours it shows, or None for plain text.
        encoding: how its text is encoded.
    """

    width: int
    colours: Colours | None = None
    encoding: str = "utf-8"

    @classmethod
    def of(cls, stream: TextIO | None) -> "Terminal":
        """Find out what a stream can show.

        Width follows ``COLUMNS``, then the terminal, then 80. Colours need a terminal that has them
        and no ``NO_COLOR``.
        """
        width = min(max(_NARROWEST, shutil.get_terminal_size((80, 24)).columns), _WIDEST)
        if stream is None:
            return cls(width)
        probe = Console(file=stream)
        colours = probe.color_system if probe.is_terminal and not probe.no_color else None
        shown: dict[str | None, Colours] = {name: name for name in get_args(Colours)}
        return cls(width, shown.get(colours), getattr(stream, "encoding", None) or "utf-8")


def rendered(renderable: RenderableType, terminal: Terminal) -> str:
    """Render to text for a terminal, without trailing spaces where it is plain."""
    console = Console(
        file=StringIO(),
        width=terminal.width,
        force_terminal=terminal.colours is not None,
        color_system=terminal.colours,
        no_color=terminal.colours is None,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    with console.capture() as capture:
        console.print(renderable)
    text = capture.get()
    if terminal.colours is None:
        text = "".join(f"{line.rstrip()}\n" for line in text.split("\n")).removesuffix("\n")
    return _encodable(text, terminal.encoding)


def _encodable(text: str, encoding: str) -> str:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        plain = text.translate(_PLAIN_SIGNS)
        return plain.encode("ascii", "backslashreplace").decode("ascii")
    return text


def plain_for(text: str, stream: TextIO | None) -> str:
    """Write a model's text so that a stream can take it; on a terminal, nothing in it acts there.

    Args:
        text: any text.
        stream: where it goes.

    Returns:
        The text, with signs for what the stream's encoding lacks; for a terminal, also for every
        control character but new lines and tabs.
    """
    if stream is not None and stream.isatty():
        text = _CONTROL.sub(lambda found: visible(found[0]), text)
    return _encodable(text, getattr(stream, "encoding", None) or "utf-8")


def write_whole(text: str, stream: TextIO | None) -> None:
    """Write a finished text at once.

    Raises:
        OutputError: the pipe was closed or the text could not be written.
    """
    if stream is None:
        raise OutputError("standard output is closed: nothing was written")
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        _silence(stream)
        if error.errno in (errno.EPIPE, errno.EINVAL):
            raise OutputError("the output was closed before everything was written") from error
        raise OutputError(f"cannot write the output: {error.strerror}") from error


def _silence(stream: TextIO) -> None:
    """Point a broken stream at nothing, so that the interpreter's last flush cannot complain."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def write_diagnosis(text: str) -> None:
    """Write to standard error where that can be done; there is nowhere left to complain."""
    stream: TextIO | None = sys.stderr
    if stream is None:
        return
    with suppress(OSError):
        stream.write(_encodable(text, getattr(stream, "encoding", None) or "utf-8"))
        stream.flush()


@contextmanager
def status(text: str) -> Generator[None]:
    """Show one line on standard error while something runs, and take it away again.

    Only where standard error is a terminal. The cursor rests at the line's start, so that whatever
    else writes there meanwhile (a download's progress) replaces it.

    Args:
        text: what is being done.
    """
    width = max(_NARROWEST, shutil.get_terminal_size((80, 24)).columns)
    _say(f"\x1b[2K{shortened(visible(text), width - 1)}\r")
    try:
        yield
    finally:
        _say("\x1b[2K\r")


def _say(text: str) -> None:
    stream: TextIO | None = sys.stderr  # None where the stream was closed at the start
    if stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb":
        write_diagnosis(text)
