"""From tokens to text that can be shown as it comes: whole characters, cut before a stop string.

A character may be cut into several tokens, and a stop string too. So text is held back while it
may still become either, and no longer.
"""

import codecs
from collections.abc import Sequence

from clearhead.tokens.tokenizer import TextTokenizer

__all__ = ["StopStrings", "Wording"]


class StopStrings:
    """Lets text through up to the first of some strings.

    Args:
        stops: the strings, none of them empty.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found: str | None = None
        """The string that was found."""

    def through(self, text: str) -> str:
        """Take more text, and give what can no longer be part of a stop string.

        Args:
            text: what follows what was given before.
        """
        self._held += text
        places = {stop: self._held.find(stop) for stop in self._stops}
        found = [stop for stop in self._stops if places[stop] >= 0]
        if found:
            self.found = min(found, key=lambda stop: places[stop])
            end = places[self.found]
        else:
            end = len(self._held) - self._beginning()
        shown, self._held = self._held[:end], "" if found else self._held[end:]
        return shown

    def rest(self) -> str:
        """What is held back, where nothing more comes."""
        rest, self._held = self._held, ""
        return rest

    def _beginning(self) -> int:
        """Length of the longest end of the text that begins a stop string."""
        longest = min(len(self._held), max(map(len, self._stops), default=1) - 1)
        return next(
            (
                length
                for length in range(longest, 0, -1)
                if any(stop.startswith(self._held[-length:]) for stop in self._stops)
            ),
            0,
        )


class Wording:
    """Makes text of a row's tokens, one at a time.

    Control tokens have no text. Bytes that are no UTF-8 become U+FFFD; those of a character that
    never ends are left out.

    Args:
        tokenizer: whose tokens they are.
        follows: the token they follow, or None where they begin a text: a space that only says
            that a word begins is then left out.
        stops: strings before which the text ends.
    """

    def __init__(
        self, tokenizer: TextTokenizer, *, follows: int | None = None, stops: Sequence[str] = ()
    ) -> None:
        self._tokenizer = tokenizer
        self._previous = None if follows is None or self._is_control(follows) else follows
        self._begins = follows is None
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = StopStrings(stops)
        self._shown: list[str] = []

    @property
    def text(self) -> str:
        """What has been given so far."""
        return "".join(self._shown)

    @property
    def stopped(self) -> str | None:
        """The stop string that was met."""
        return self._stops.found

    def add(self, token: int) -> str:
        """Take a token, and give the text that can now be shown.

        Args:
            token: its id.
        """
        if self._is_control(token):
            self._previous = None
            # no character runs through a control token
            return self._show(self._stops.through(self._characters.decode(b"", final=True)))
        return self._show(self._stops.through(self._characters.decode(self._bytes(token))))

    def finish(self) -> str:
        """Give what was held back: no more tokens come."""
        return self._show(self._stops.rest())

    def _show(self, text: str) -> str:
        self._shown.append(text)
        return text

    def _is_control(self, token: int) -> bool:
        """Whether a token is a control token, or a row of the model that stands for no token."""
        return self._tokenizer.pieces([token])[0].special

    def _bytes(self, token: int) -> bytes:
        data = self._tokenizer.token_bytes(token)
        if self._begins and data:
            self._begins = False
            if data.startswith(b" ") and not self._tokenizer.decode([token]).startswith(" "):
                data = data[1:]
        elif self._previous is not None:
            data = self._between(self._previous, token) + data
        self._previous = token
        return data

    def _between(self, first: int, second: int) -> bytes:
        """The space that a vocabulary of whole words has between two tokens, and in neither."""
        decode, spelled = self._tokenizer.decode, self._tokenizer.token_bytes
        if spelled(first).endswith(b" ") or spelled(second).startswith(b" "):
            return b""
        parted = f"{decode([first])} {decode([second])}"
        return b" " if decode([first, second]) == parted else b""
