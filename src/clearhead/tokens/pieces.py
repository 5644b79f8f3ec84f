"""Tokens as a person reads them: characters stay whole, however many tokens they were cut into."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

__all__ = ["Piece", "pieces"]


@dataclass(frozen=True, slots=True)
class Piece:
    r"""One token as shown: all characters it touches, and which part of a cut character it is.

    Args:
        text: every character that at least one byte of the token belongs to; bytes that are no
            UTF-8 stand as ``\xNN``.
        part: 1 for a token that shares no character with its neighbours, else its place among the
            tokens that are chained by shared characters.
        parts: how many tokens that chain has.
        special: True for a control token, whose text was never part of the input's text.
    """

    text: str
    part: int = 1
    parts: int = 1
    special: bool = False

    @property
    def label(self) -> str:
        """The text, followed by ``[part/parts]`` where a character was cut."""
        return self.text if self.parts == 1 else f"{self.text}[{self.part}/{self.parts}]"


@dataclass(frozen=True, slots=True)
class _Character:
    """One character, or one byte that belongs to none, and the bytes [start, end) it stands on."""

    text: str
    start: int
    end: int


def pieces(token_bytes: Sequence[bytes], *, special: Collection[int] = ()) -> list[Piece]:
    r"""Show each token with whole characters, joining those that were cut.

    Two neighbouring tokens are chained when a character has bytes in both. A chain of n tokens is
    numbered 1 to n. A control token ends every chain: a character never runs through it.

    Args:
        token_bytes: the bytes of each token, in the order of the text.
        special: places (not ids) of control tokens in ``token_bytes``.

    Returns:
        One piece for each token, in the same order.

    Examples:
        >>> [piece.label for piece in pieces([b"ab\xf0\x9f", b"\x98", b"\x80", b"!"])]
        ['ab😀[1/3]', '😀[2/3]', '😀[3/3]', '!']
        >>> pieces([b"\xff"])[0].label
        '\\xff'

    Cost:
        Linear in the number of bytes.
    """
    control = frozenset(special)
    shown: list[Piece] = []
    for places in _runs(len(token_bytes), control):
        run = [token_bytes[place] for place in places]
        made = _chained(run)
        if places[0] in control:
            made = [replace(piece, special=True) for piece in made]
        shown.extend(made)
    return shown


def _runs(count: int, special: Collection[int]) -> Iterator[range]:
    """Cut 0..count into runs of ordinary tokens; each control token is a run of its own."""
    cuts = sorted({0, count, *special, *(place + 1 for place in special)})
    yield from (range(start, end) for start, end in pairwise(cuts))


def _chained(run: Sequence[bytes]) -> list[Piece]:
    """Pieces of one run: the characters each token touches, and its place in its chain."""
    texts: list[list[str]] = [[] for _ in run]
    joined = [False] * (len(run) + 1)  # joined[i]: tokens i - 1 and i share a character
    token, token_end = 0, len(run[0])
    for character in _characters(b"".join(run)):
        # A token that ends where the character starts has no byte of it.
        while token_end <= character.start:
            token, token_end = token + 1, token_end + len(run[token + 1])
        texts[token].append(character.text)
        while token_end < character.end:
            token, token_end = token + 1, token_end + len(run[token + 1])
            joined[token] = True
            texts[token].append(character.text)
    return list(_numbered(["".join(text) for text in texts], joined))


def _numbered(texts: Sequence[str], joined: Sequence[bool]) -> Iterator[Piece]:
    """Number every chain: ``joined[i]`` says that i continues the chain of i - 1."""
    starts = [place for place in range(len(texts)) if not joined[place]]
    for start, end in pairwise([*starts, len(texts)]):
        for place in range(start, end):
            yield Piece(texts[place], part=place - start + 1, parts=end - start)


def _characters(data: bytes) -> Iterator[_Character]:
    r"""The characters of ``data``; a byte that belongs to none stands alone as ``\xNN``."""
    start = 0
    while start < len(data):
        end = start + _length(data[start])
        try:
            text = data[start:end].decode()
        except UnicodeDecodeError:
            end, text = start + 1, f"\\x{data[start]:02x}"
        yield _Character(text, start, end)
        start = end


def _length(lead: int) -> int:
    """How many bytes a UTF-8 character has whose first byte is ``lead``."""
    return 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
