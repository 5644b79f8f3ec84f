"""Which token a person means by a word or a number."""

import re
from collections.abc import Sequence

from clearhead.errors import TokenError
from clearhead.tokens.pieces import Piece

__all__ = ["occurrences"]

#: Tokens that an error lists at most.
LISTED = 60


def occurrences(token: int | str, pieces: Sequence[Piece]) -> list[int]:
    """Every token that a word or an index means, in order.

    A word of several tokens means its last, where a causal model has read all of it. A word is looked
    for whole first; then as one token; so "it" is not found inside "tired".

    Args:
        token: an index, negative from the end, or a word.
        pieces: the tokens as shown.

    Returns:
        Indices of tokens, at least one.

    Raises:
        TokenError: there is no such token; lists those there are.
    """
    if isinstance(token, int):
        if not -len(pieces) <= token < len(pieces):
            raise TokenError(
                f"token must be an index in [{-len(pieces)}, {len(pieces)}), got {token}; "
                f"the tokens are {_listed(pieces)}"
            )
        return [token % len(pieces)]
    word = token.strip()
    found = _words(word, pieces) if word else []
    if not found:
        found = [i for i, piece in enumerate(pieces) if token in (piece.label, piece.text.strip())]
    if not found:
        raise TokenError(f"token {token!r} is not in the text; the tokens are {_listed(pieces)}")
    return found


def _words(word: str, pieces: Sequence[Piece]) -> list[int]:
    text, owner = "", list[int]()
    for place, piece in enumerate(pieces):
        # a character cut over tokens stands in the text once, and belongs to the token that ends it
        if piece.part > 1:
            owner = owner[:-1] + [place] * bool(owner) if piece.text == text[-1:] else owner
            continue
        text += piece.text
        owner += [place] * len(piece.text)
    pattern = rf"(?<!\w){re.escape(word)}(?!\w)"
    return sorted({owner[match.end() - 1] for match in re.finditer(pattern, text)})


def _listed(pieces: Sequence[Piece]) -> str:
    shown = [f"{place} {piece.label!r}" for place, piece in enumerate(pieces[:LISTED])]
    more = len(pieces) - LISTED
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
