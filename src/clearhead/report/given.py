"""Read what a person gave on the command line: a text, a token, some layers."""

import re
import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import BinaryIO

from clearhead.errors import ClearheadError, InputError, TokenError, gathered

__all__ = ["given_layers", "given_passages", "given_text", "given_token"]

_LARGEST_TEXT = 64 * 2**20  # bytes; no model reads a text near this size


def given_text(text: str | None, file: str | None) -> str:
    """Read the text to look at from where it was given.

    The new line that ends a file or a pipe is dropped: it is the editor's or the shell's, not a
    token to look from.

    Args:
        text: the text itself, or ``-`` for standard input.
        file: a file that holds it.

    Returns:
        A text with at least one character that is no white space.

    Raises:
        InputError: none or two texts were given, one cannot be read, or it is not UTF-8 text.
        TokenError: the text is empty.
    """
    if (text is None) == (file is None):
        got = "none" if text is None else "TEXT and --file"
        raise InputError(f"text: expected one of TEXT, --file FILE, - (standard input); got {got}")
    name = file if file is not None else "standard input" if text == "-" else "TEXT"
    if text is not None and text != "-":
        # What the shell gave in another encoding stands in it as lone surrogates.
        read = _decoded(text.encode("utf-8", "surrogateescape"), name)
    else:
        read = _decoded(_bytes_of(file, "--file"), name).removesuffix("\n").removesuffix("\r")
    if not read.strip():
        raise TokenError(f"text: expected at least one word; {name} is empty")
    return read


def given_passages(files: Sequence[str]) -> dict[str, str]:
    """Read the passages to ask about, each named by as much of its path as tells it from others.

    Args:
        files: files that hold them, in order.

    Returns:
        Texts by name, each with at least one character that is no white space.

    Raises:
        InputError: some cannot be read, are not UTF-8 text, or are empty; all faults at once.
    """
    texts, faults = list[str](), list[str]()
    for file in files:
        try:
            text = _decoded(_bytes_of(file, "--passage"), file, "--passage")
        except ClearheadError as fault:
            faults.append(str(fault))
        else:
            texts.append(text)
            if not text.strip():
                faults.append(f"--passage: expected at least one word; {file} is empty")
    if faults:
        raise InputError(gathered("cannot read the passages", faults))
    return dict(zip(_names(files), texts, strict=True))


def _names(files: Sequence[str]) -> list[str]:
    """The last part of each path, or as many as it takes to tell them apart."""
    parts = [PurePath(file).parts or (file,) for file in files]
    taken = [1] * len(files)
    while True:
        names = ["/".join(own[-count:]) for own, count in zip(parts, taken, strict=True)]
        alike = [names.count(name) > 1 for name in names]
        longer = [
            count + (same and count < len(own))
            for own, count, same in zip(parts, taken, alike, strict=True)
        ]
        if longer == taken:
            return _numbered(names)
        taken = longer


def _numbered(names: Sequence[str]) -> list[str]:
    """Names of which none is another: the same file given again is told by a number."""
    found: list[str] = []
    for name in names:
        number, own = 1, name
        while own in found:
            number += 1
            own = f"{name} ({number})"
        found.append(own)
    return found


def given_token(token: str) -> int | str:
    """Tell a position from a word: only digits, with or without a minus sign, are a position.

    Raises:
        InputError: nothing was given.
    """
    if not token:
        raise InputError("--token: expected a word or a position; got an empty one")
    return int(token) if re.fullmatch(r"-?[0-9]{1,9}", token) else token


def given_layers(layers: str | None) -> list[int] | None:
    """Read layers and ranges of layers, such as ``0-5,9``.

    Args:
        layers: the list as it was written, or None for all.

    Returns:
        The layers, ascending, each once; None for all.

    Raises:
        InputError: it is no such list.
    """
    if layers is None:
        return None
    chosen: set[int] = set()
    for part in layers.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,4})(?:-([0-9]{1,4}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise InputError(f"--layers: expected layers and ranges such as 0-5,9; got {layers!r}")
        chosen.update(range(first, last + 1))
    return sorted(chosen)


def _bytes_of(file: str | None, option: str) -> bytes:
    if file is None:
        stdin: BinaryIO | None = getattr(sys.stdin, "buffer", None)
        if stdin is None:
            raise InputError("text: standard input is closed")
        return stdin.read(_LARGEST_TEXT + 1)
    try:
        with open(file, "rb") as stream:  # noqa: PTH123  Path would refuse or change some names
            return stream.read(_LARGEST_TEXT + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{option}: cannot read {file or repr(file)}: {reason}") from error


def _decoded(data: bytes, name: str, option: str = "text") -> str:
    if len(data) > _LARGEST_TEXT:
        raise TokenError(f"{option}: expected at most {_LARGEST_TEXT:,} bytes; {name} is longer")
    if b"\0" in data:
        raise InputError(f"{option}: expected text; {name} is binary, it holds NUL bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{option}: expected UTF-8; {name} is not, at byte {error.start:,}; convert it first"
        ) from error
