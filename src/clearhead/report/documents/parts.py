"""The part of the tree that is about an answer: where its tokens drew from, passage by passage."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Answer", "AnswerToken", "Documents", "Drawn", "DrawnOnAverage", "Segment"]


@dataclass(frozen=True, slots=True)
class Segment:
    """A named run of the prompt's tokens.

    Attributes:
        name: what the caller called it, or what it is.
        kind: what it is.
        start: its first token.
        stop: one past its last token.
    """

    name: str
    kind: Literal["passage", "question", "message"]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer whose tokens are looked from.

    Attributes:
        text: what it says.
        start: its first token.
        stop: one past its last token; the token that ended it is none of them.
        generated: whether the model wrote it, each time with its most probable token.
        ended_by: why the model stopped: ``"end_token"`` or ``"max_new_tokens"``; None where the
            answer was given.
    """

    text: str
    start: int
    stop: int
    generated: bool
    ended_by: str | None


@dataclass(frozen=True, slots=True)
class Drawn:
    """Shares of what was read; segments, elsewhere and answer together are 1.

    Attributes:
        segments: of each segment, in their order.
        elsewhere: of the prompt's other tokens: what the template and the names' lines are made of.
        answer: of the answer's own tokens, up to and with the one that read.
        depth: of each part of the prompt by position, whatever it holds.
    """

    segments: tuple[float, ...]
    elsewhere: float
    answer: float
    depth: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class DrawnOnAverage:
    """What the answer's tokens drew, on average; contribution is None where W_O is not known."""

    contribution: Drawn | None
    attention: Drawn


@dataclass(frozen=True, slots=True)
class AnswerToken:
    """What one token of the answer drew; contribution is None where W_O is not known."""

    position: int
    contribution: Drawn | None
    attention: Drawn


@dataclass(frozen=True, slots=True)
class Documents:
    """A prompt in segments, an answer, and where each of the answer's tokens drew from.

    Attributes:
        prompt_tokens: how many tokens stand before the answer.
        question: what was asked, or None for messages and plain texts.
        answer: the answer.
        segments: passages and question, or messages, in order.
        depth_edges: where the parts of the prompt by position begin, and its end.
        average: over the answer's tokens.
        each: one an answer token, in order.
    """

    prompt_tokens: int
    question: str | None
    answer: Answer
    segments: tuple[Segment, ...]
    depth_edges: tuple[int, ...]
    average: DrawnOnAverage
    each: tuple[AnswerToken, ...]
