"""Tokens and the characters they stand for: which tokens are this part of a text?"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from clearhead.errors import TokenError
from clearhead.tokens.backend import Backend

__all__ = ["ControlName", "PlacedText", "placed_text"]


class ControlName(NamedTuple):
    """The name of a control token that stood in what a person gave, and was read as plain text.

    Attributes:
        name: such as ``<|im_end|>``.
        start: the character it begins at.
    """

    name: str
    start: int


@dataclass(frozen=True)
class PlacedText:
    """The tokens of a text, and where each stands in it.

    Attributes:
        text: the text.
        ids: the tokens; the one that begins every text, where there is one, comes first.
        spans: first character and last plus one of each; (-1, -1) for one that is not in the text.
        plain: names of control tokens that were read as plain text, in order.
    """

    text: str
    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    plain: tuple[ControlName, ...] = ()

    def tokens_of(self, characters: range) -> range:
        """The tokens that belong to a part of the text.

        A token belongs where the first of its characters stands that is no white space, and one of
        white space alone where it begins. So a token that straddles a border has one side.

        Args:
            characters: places in the text, without steps.

        Returns:
            Places of the tokens; empty where the part has none of its own.
        """
        start = bisect_left(self._anchors, characters.start)
        return range(start, max(start, bisect_left(self._anchors, characters.stop)))

    @cached_property
    def _anchors(self) -> list[int]:
        """The character each token belongs to; never falling, whatever a normalizer moved."""
        return list(accumulate((self._anchor(*span) for span in self.spans), max))

    def _anchor(self, start: int, stop: int) -> int:
        inside = self.text[start:stop] if start >= 0 else ""
        visible = len(inside) - len(inside.lstrip())
        return start + (visible if visible < len(inside) else 0)


def placed_text(
    backend: Backend, text: str, *, contents: Sequence[range], begins: int | None, once: bool
) -> PlacedText:
    """Cut a text into tokens, so that nothing in what a person gave becomes a control token.

    A template writes control tokens by their names. The same name inside ``contents`` is cut into
    the tokens of its letters, so that a passage cannot end its message; it is told in ``plain``.

    Args:
        backend: cuts.
        text: the text.
        contents: the parts of it that a person gave.
        begins: the token that begins a text, or None.
        once: whether it begins a text that does not name it, too.

    Returns:
        The tokens and their places.

    Raises:
        TokenError: the tokenizer does not say where its tokens stand.
    """
    tokens = _placed(backend, text)
    forged = [
        (start, stop)
        for token_id, start, stop in tokens
        if _is_named(backend, token_id, text[start:stop])
        and any(part.start < stop and start < part.stop for part in contents)
    ]
    if forged:
        tokens = list(_without_control(backend, text, forged))
    own = next((at for at, token in enumerate(tokens) if token[0] != begins), len(tokens))
    if begins is not None:
        first = [(begins, -1, -1)] * (own > 0 or once)
        tokens = [*first, *tokens[own:]]
    names = (ControlName(text[start:stop].strip(), start) for start, stop in forged)
    return PlacedText(
        text=text,
        ids=tuple(token_id for token_id, _, _ in tokens),
        spans=tuple((start, stop) for _, start, stop in tokens),
        plain=tuple(names),
    )


_Token = tuple[int, int, int]


def _placed(backend: Backend, text: str, *, plain: bool = False) -> list[_Token]:
    tokens = backend.placed(text, plain=plain)
    if tokens is None:
        raise TokenError(
            "this tokenizer does not say which characters its tokens stand for, so that passages "
            "and messages cannot be told apart: give one with a tokenizer.json"
        )
    return tokens


def _is_named(backend: Backend, token_id: int, characters: str) -> bool:
    """Whether a control token stands there by its name, and not for unknown text."""
    return backend.is_special(token_id) and backend.spelled(token_id) == characters.strip()


def _without_control(
    backend: Backend, text: str, forged: Sequence[tuple[int, int]]
) -> Iterator[_Token]:
    """The tokens of a text in which some names of control tokens are plain text."""
    at = 0
    for start, stop in (*forged, (len(text), len(text))):
        for part, plain in ((range(at, start), False), (range(start, stop), True)):
            if part:
                found = _placed(backend, text[part.start : part.stop], plain=plain)
                yield from ((one, part.start + a, part.start + b) for one, a, b in found)
        at = stop
