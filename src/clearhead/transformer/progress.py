"""What is said on standard error while a model is fetched or converted."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

__all__ = ["megabytes", "said_progress", "say"]


def say(line: str) -> None:
    """Say one line on standard error.

    Args:
        line: the line, without the program's name.
    """
    console = Console(stderr=True, soft_wrap=True)
    console.print(f"clearhead: {line}", markup=False, highlight=False)


def megabytes(count: int) -> str:
    """A number of bytes as people read it.

    Args:
        count: bytes.

    Examples:
        >>> megabytes(92_871_040), megabytes(1_600)
        ('93 MB', '2 kB')
    """
    return f"{count / 1e6:.0f} MB" if count >= 999_500 else f"{count / 1e3:.0f} kB"


@contextmanager
def said_progress(what: str) -> Generator[Callable[[int, int], None]]:
    """Show a transfer as a bar on a terminal; elsewhere say one line when it starts and ends.

    Nothing is said before the first byte, so that a transfer that never starts leaves only its
    error.

    Args:
        what: what is being transferred.

    Yields:
        A function of (bytes done, bytes in all).
    """
    terminal = sys.stderr is not None and sys.stderr.isatty()
    with _bar(what) if terminal else _lines(what) as advance:
        yield advance


@contextmanager
def _bar(what: str) -> Generator[Callable[[int, int], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    bar = Progress(*columns, TransferSpeedColumn(), console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=None)

    def advance(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield advance
    finally:
        bar.stop()


@contextmanager
def _lines(what: str) -> Generator[Callable[[int, int], None]]:
    began: list[float] = []

    def advance(_done: int, total: int) -> None:
        if not began:
            say(f"{what}, {megabytes(total)}")
            began.append(time.monotonic())

    yield advance
    if began:
        say(f"{what}: done in {time.monotonic() - began[0]:.0f} s")


@contextmanager
def said_reading(tokens: int, *, least: int) -> Generator[Callable[[int], None]]:
    """Show on a terminal how far a long prompt was read; elsewhere nothing.

    Args:
        tokens: of the prompt.
        least: a prompt of fewer is read without a word.

    Yields:
        A function of how many were read.
    """
    if tokens < least or sys.stderr is None or not sys.stderr.isatty():
        yield lambda _read: None
        return
    read = TextColumn("{task.completed:,} of {task.total:,} tokens")
    columns = (TextColumn("reading the prompt"), BarColumn(), read)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=tokens)
        yield lambda done: bar.update(task, completed=done)
