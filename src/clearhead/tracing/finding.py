"""Which token a person means by a word or a number."""

import re
from collections.abc import Sequence
from operator import index
from typing import SupportsIndex

from clearhead.errors import InputError, TokenError
from clearhead.tokens.pieces import Piece

__all__ = ["occurrences"]

#: Tokens that an error lists at most.
LISTED = 60


def occurrences(token: int | str, pieces: Sequence[Piece]) -> list[int]:
    """Every token that a word or an index means, in order.

    A word of several tokens means its last, where a causal model has read all of it. A word is
    looked for whole first, then as a run of tokens that spell it; so "it" is not found inside
    "tired", unless it is a token of its own there and no other is.

    Args:
        token: an index, negative from the end, or a word.
        pieces: the tokens as shown.

    Returns:
        Indices of tokens, at least one.

    Raises:
        InputError: neither an index nor a word was given.
        TokenError: there is no such token; lists those there are.
    """
    if not isinstance(token, str):
        return [_place(token, pieces)]
    # word pieces come without the spaces between them: what a word is, only their marks say there
    spaced = any(character.isspace() for piece in pieces for character in piece.text)
    found = _words(token.strip(), pieces) if spaced else []
    found = found or _runs("".join(token.split()), pieces)
    found = found or [place for place, piece in enumerate(pieces) if _is_label(token, piece)]
    if not found:
        raise TokenError(f"token {token!r} is not in the text; the tokens are {_listed(pieces)}")
    return found


def _place(token: SupportsIndex, pieces: Sequence[Piece]) -> int:
    try:
        place = index(token)
    except TypeError as error:
        raise InputError(f"token must be an index or a word, got {token!r}") from error
    if not -len(pieces) <= place < len(pieces):
        raise TokenError(
            f"token must be an index in [{-len(pieces)}, {len(pieces)}), got {place}; "
            f"the tokens are {_listed(pieces)}"
        )
    return place % len(pieces)


def _words(word: str, pieces: Sequence[Piece]) -> list[int]:
    """Whole words of the text, each by the token that ends it."""
    if not word:
        return []
    text, owner = "", list[int]()
    for place, piece in enumerate(pieces):
        # a character cut over tokens belongs to the token that ends it
        owner[-1:] = [place] if piece.part > 1 else owner[-1:]
        text += _added(piece)
        owner += [place] * len(_added(piece))
    # only a letter beside a letter makes a word longer
    before = r"(?<!\w)" if re.match(r"\w", word) else ""
    after = r"(?!\w)" if re.search(r"\w$", word) else ""
    found = re.finditer(f"{before}{re.escape(word)}{after}", text)
    return sorted({owner[match.end() - 1] for match in found})


def _runs(word: str, pieces: Sequence[Piece]) -> list[int]:
    """Runs of tokens that spell the word, spaces aside, each by its last token."""
    if not word:
        return []
    bare = ["".join(_unmarked(piece).split()) for piece in pieces]
    found: list[int] = []
    for start, first in enumerate(bare):
        if not first or not word.startswith(first):
            continue
        end, spelled = start, first
        while end + 1 < len(bare) and (_is_rest(pieces[end + 1]) or len(spelled) < len(word)):
            end, spelled = end + 1, spelled + bare[end + 1]
        if spelled == word and not _is_marked(pieces[start]):
            found.append(end)
    return found


def _added(piece: Piece) -> str:
    """What a token adds to the text: a character that its neighbour began is there already."""
    return piece.text if piece.part == 1 else piece.text[1:]


def _is_rest(piece: Piece) -> bool:
    """Whether a token goes on with a word or a character that the one before it began."""
    return _is_marked(piece) or (piece.part > 1 and not _added(piece))


def _is_marked(piece: Piece) -> bool:
    return piece.text.startswith("##") and len(piece.text) > 2 and not piece.special


def _unmarked(piece: Piece) -> str:
    return piece.text[2:] if _is_marked(piece) else _added(piece)


def _is_label(token: str, piece: Piece) -> bool:
    word = token.strip()
    shown = (piece.label.strip(), piece.text.strip())
    return token == piece.label or (word != "" and word in shown)


def _listed(pieces: Sequence[Piece]) -> str:
    shown = [f"{place} {piece.label!r}" for place, piece in enumerate(pieces[:LISTED])]
    more = len(pieces) - LISTED
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
