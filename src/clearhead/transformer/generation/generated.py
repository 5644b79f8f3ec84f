"""What was generated, and why it ended."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Generated", "StopReason"]

#: Why a text ended; ``"interrupted"`` where nobody asked for the rest.
StopReason = Literal["end_token", "stop_string", "max_new_tokens", "context", "interrupted"]


@dataclass(frozen=True, kw_only=True)
class Generated:
    """What a model wrote after one prompt.

    Attributes:
        text: as text, whole characters only, without control tokens, up to a stop string; None
            where there is no tokenizer.
        token_ids: every token the model chose, with that at which it ended.
        prompt_ids: what it continued; for a model with an encoder, what that read.
        stopped_by: ``"end_token"``, ``"stop_string"``, ``"max_new_tokens"``, ``"context"`` (the
            model reads no more), or ``"interrupted"``.
        stopped_at: the end token or the stop string; else None.
        seed: gives the same text again, for this prompt alone; None where nothing was drawn.
        prompt_seconds: time until the prompt was read.
        seconds: time from then until the text ended; in a batch, all its rows together.
    """

    text: str | None
    token_ids: tuple[int, ...]
    prompt_ids: tuple[int, ...]
    stopped_by: StopReason
    stopped_at: int | str | None
    seed: int | None
    prompt_seconds: float
    seconds: float

    @property
    def tokens_per_second(self) -> float | None:
        """How quickly tokens came once the prompt was read; None for fewer than two tokens."""
        # the first token needs nothing but the prompt
        later = len(self.token_ids) - 1
        return later / self.seconds if later > 0 and self.seconds > 0 else None

    def __str__(self) -> str:
        return " ".join(map(str, self.token_ids)) if self.text is None else self.text
