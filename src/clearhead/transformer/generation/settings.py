"""How a text is to be written, as plain values; imports no torch.

What is wrong with them is known before a model is loaded.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["SEEDS", "Sampling", "length_faults", "stop_faults"]

#: Numbers that random numbers may begin with.
SEEDS = range(2**62)


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen.

    Attributes:
        temperature: 0 takes the most probable token; above 0 one is drawn.
        top_k: draw from the k most probable tokens; None is all.
        top_p: draw from the fewest tokens that together are this probable; None is all.
        seed: begins the random numbers; None begins them anew each time.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None

    def faults(self) -> Iterator[str]:
        """What is wrong with these values."""
        if not (_is_number(self.temperature) and 0 <= self.temperature <= sys.float_info.max):
            yield (
                "temperature must be 0 (the most probable token) or a positive number, "
                f"got {self.temperature!r}"
            )
        if self.top_k is not None and not (_is_whole(self.top_k) and self.top_k >= 1):
            yield f"top_k must be a whole number of at least 1, got {self.top_k!r}"
        if self.top_p is not None and not (_is_number(self.top_p) and 0 < self.top_p <= 1):
            yield f"top_p must be above 0 and at most 1, got {self.top_p!r}"
        if self.seed is not None and not (_is_whole(self.seed) and self.seed in SEEDS):
            yield f"seed must be a whole number from 0 to 2**62 - 1, got {self.seed!r}"
        drawn = {"top_k": self.top_k, "top_p": self.top_p}
        useless = " and ".join(name for name, value in drawn.items() if value is not None)
        if self.temperature == 0 and useless:
            yield f"{useless}: nothing is drawn at temperature 0; give temperature=1.0 to draw"


def length_faults(asked: int | None) -> Iterator[str]:
    """What is wrong with a number of new tokens.

    Args:
        asked: the number, or None where nothing was asked for.
    """
    if asked is not None and not (_is_whole(asked) and asked >= 1):
        yield f"max_new_tokens must be a whole number of at least 1, got {asked!r}"


def stop_faults(stops: Iterable[object]) -> Iterator[str]:
    """What is wrong with strings that a text is to end before.

    Args:
        stops: the strings.
    """
    wrong = [stop for stop in stops if not (isinstance(stop, str) and stop)]
    if wrong:
        yield f"stop must be a text or several, none of them empty, got {wrong[0]!r}"


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
