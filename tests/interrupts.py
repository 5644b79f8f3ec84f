"""Programs that tests start and interrupt from the keyboard."""

import signal
import subprocess
from collections.abc import Sequence

__all__ = ["interruptible"]


def interruptible(command: Sequence[str], *, stdin: int | None = None) -> "subprocess.Popen[bytes]":
    """Start a program that hears interrupts, with pipes for what it says.

    A shell has what it runs in the background ignore them, and that its children: the tests among
    them, and what these start.
    """
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_hear,  # noqa: PLW1509  no thread of the tests holds a lock that it takes
    )


def _hear() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
