"""Make any text safe and plain to see: what prints nothing, moves the cursor or reorders text.

A token may hold anything: a terminal's escape sequence, a mark that turns the rest of the line
around, half of a letter. ``visible`` keeps what prints and writes the rest as signs, so that
nothing in a text acts on the place where it is shown.
"""

import re
import unicodedata
from functools import lru_cache

from rich.cells import cell_len, chop_cells

__all__ = ["cells", "label", "one_line", "shortened", "visible"]

_SIGNS = {"\n": "↵", "\r": "␍", "\t": "⇥", "\x7f": "␡"}

# Printable by category and yet blank, or changing their neighbour without a shape of their own.
_BLANKS = (
    frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\u2065")
    | frozenset(map(chr, range(0xFE00, 0xFE10)))
    | frozenset(map(chr, range(0xFFF0, 0xFFF9)))
)
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs"})
_MOST_MARKS = 4


def visible(text: str) -> str:
    """Write a text so that every character of it can be seen, ordinary spaces kept.

    New lines, tabs and control characters become their signs (``↵ ⇥ ␍ ␛``), other unseen ones their
    code (``‹U+202E›``). A combining mark without a letter stands on a dotted circle; of more than
    four on one letter the rest are counted.

    Args:
        text: any text.

    Returns:
        A text of printable characters on one line.
    """
    shown: list[str] = []
    marks = 0
    base = False
    for character in text:
        if not _is_mark(character):
            shown.extend([_surplus(marks), _sign(character)])
            marks, base = 0, not character.isspace()
            continue
        marks += 1
        if marks <= _MOST_MARKS:
            shown.append(character if base else f"◌{character}")
            base = True
    return "".join([*shown, _surplus(marks)])


def label(text: str, *, part: int = 1, parts: int = 1) -> str:
    """Write a token for a table cell: visible, its outer and doubled spaces as ``␣``.

    Args:
        text: what the token stands for.
        part: which part of a split character it is.
        parts: how many tokens the character is split over.

    Returns:
        One line; a part of a character ends in ``[part/parts]``.
    """
    shown = re.sub(r"^ +| +$| {2,}", lambda run: "␣" * len(run.group()), visible(text))
    return f"{shown}[{part}/{parts}]" if parts > 1 else shown


def one_line(message: str) -> str:
    """Join the lines of an error message and make it safe to print.

    A list of faults, one indented line each, becomes one line joined by semicolons.

    Args:
        message: any message.

    Returns:
        One line of printable characters.
    """
    lines = [line.strip().removeprefix("- ") for line in message.splitlines()]
    joined = "; ".join(line for line in lines if line)
    return visible(joined.replace(":; ", ": "))


def cells(text: str) -> int:
    """Count the cells a text takes in a terminal: two for a wide character, none for a mark."""
    return cell_len(text)


def shortened(text: str, most: int) -> str:
    """Cut a text to at most ``most`` cells, with an ellipsis where it was cut."""
    if cells(text) <= most:
        return text
    return f"{chop_cells(text, most - 1)[0]}…"


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Me") and character not in _BLANKS


def _surplus(marks: int) -> str:
    return f"‹+{marks - _MOST_MARKS} marks›" if marks > _MOST_MARKS else ""


@lru_cache(maxsize=4096)
def _sign(character: str) -> str:
    code = ord(character)
    if character == " ":
        return character
    if character in _SIGNS:
        return _SIGNS[character]
    if code < 0x20:
        return chr(0x2400 + code)
    hidden = unicodedata.category(character) in _HIDDEN_CATEGORIES or character in _BLANKS
    if hidden or 0xE0000 <= code <= 0xE0FFF or code & 0xFFFE == 0xFFFE:
        return f"‹U+{code:04X}›"
    return character
