"""What is asked for where an answer is looked at, judged before a model is loaded."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from clearhead.transformer.generation.settings import length_faults

__all__ = ["ANSWER_TOKENS", "Question", "question_faults"]

#: Most tokens of an answer where nothing is said.
ANSWER_TOKENS = 64

Passages = Mapping[str, str] | Sequence[str]


@dataclass(frozen=True)
class Question:
    """What is asked for.

    Attributes:
        text: a text or chat messages that the answer follows, or None.
        passages: texts by name, or a list of texts; None is none.
        question: what is asked, or None.
        answer: what is looked at in place of an answer of the model's own, or None.
        max_new_tokens: most tokens of the model's own answer, or None.
    """

    text: Any = None
    passages: Passages | None = None
    question: str | None = None
    answer: str | None = None
    max_new_tokens: int | None = None

    @property
    def is_asked(self) -> bool:
        """Whether an answer is looked at at all, or only a text."""
        beside = (self.passages, self.question, self.answer, self.max_new_tokens)
        return any(given is not None for given in beside)

    @property
    def named(self) -> dict[str, str]:
        """The passages by name; those of a list are numbered from 1."""
        return dict(_named(self.passages or ()))

    @property
    def texts(self) -> dict[str, str]:
        """All that the model is to read, by name, with the answer that was given."""
        beside = {"the question": self.question, "the answer": self.answer}
        said = (
            {f"message {place}": one.get("content") for place, one in enumerate(self.text)}
            if _are_messages(self.text)
            else {"the text": self.text}
        )
        everything = {**beside, **said, **self.named}
        return {name: text for name, text in everything.items() if isinstance(text, str)}

    @property
    def longest_answer(self) -> int:
        """Most tokens of the model's own answer."""
        return ANSWER_TOKENS if self.max_new_tokens is None else self.max_new_tokens


def question_faults(asked: Question) -> Iterator[str]:
    """Name what is wrong with it; an argument is named with ``=`` behind it.

    Args:
        asked: what is asked for.
    """
    if asked.question is None and asked.passages is not None:
        yield "question= is missing: add what is asked about the passages"
    if asked.question is not None and asked.text is not None:
        yield "question= is asked with passages= or alone; leave out the text"
    if asked.question is None and asked.passages is None and asked.text is None:
        yield "text: expected a text to look at, or question="
    if asked.is_asked and asked.text is not None:
        yield from _text_faults(asked.text)
    for name in ("question", "answer"):
        given = getattr(asked, name)
        if given is not None and not isinstance(given, str):
            yield f"{name}= must be text, got {type(given).__name__}"
        elif given is not None and not given.strip():
            yield f"{name}= is empty"
    if asked.answer is not None and asked.max_new_tokens is not None:
        yield "max_new_tokens= is for an answer that the model writes: leave it or answer= out"
    yield from length_faults(asked.max_new_tokens)
    yield from _passage_faults(asked.passages)


def _named(passages: Any) -> Iterator[tuple[Any, Any]]:
    """The passages with their names, whatever was given as either."""
    given: Any = cast("Any", passages) if isinstance(passages, Mapping) else {}
    unnamed: Any = () if given else cast("Any", passages)
    names: Any = given or [""] * len(unnamed)
    texts: Any = given.values() if given else unnamed
    for place, (name, text) in enumerate(zip(names, texts, strict=True), start=1):
        number = f"passage {place}"
        while number in given:
            number = f"{number} (no name)"
        yield (number if isinstance(name, str) and not name.strip() else name), text


def _are_messages(text: Any) -> bool:
    return bool(text) and _all_are(text, Mapping)


def _all_are(text: Any, kind: Any) -> bool:
    """Whether it is a sequence of nothing else."""
    return isinstance(text, Sequence) and all(
        isinstance(one, kind) for one in cast("Sequence[object]", text)
    )


def _text_faults(text: Any) -> Iterator[str]:
    """Say what to give in place of what no answer can follow."""
    if isinstance(text, str) or _are_messages(text):
        return
    told = "text: an answer follows a text or a list of chat messages"
    kind = type(text).__name__
    if isinstance(text, Mapping):
        yield f"{told}, got one message: give [message]"
    elif isinstance(text, Sequence) and not text:
        yield f"{told}, got an empty {kind}: give at least one message"
    elif _all_are(text, str):
        yield f"{told}, got a list of texts: give one text, or passages= and question="
    else:
        yield f"{told}, got {kind}: give what its tokens say"


def _passage_faults(passages: Any) -> Iterator[str]:
    if passages is None:
        return
    if isinstance(passages, str | bytes) or not isinstance(passages, Mapping | Sequence):
        kind = type(cast("object", passages)).__name__
        yield f"passages= must be texts by name, or a list of texts, got {kind}"
        return
    if not passages:
        yield "passages= holds no passage"
    for name, text in _named(passages):
        if not isinstance(text, str) or not isinstance(name, str):
            yield f"passages= must be texts by name, got {type(text).__name__} as {name!r:.60}"
        elif not text.strip():
            yield f"passage {name!r:.60} is empty"
