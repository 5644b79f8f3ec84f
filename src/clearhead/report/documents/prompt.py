"""The prompt: passages and a question, chat messages or a text as tokens, and which are whose."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from clearhead.report.documents.parts import Segment
from clearhead.tokens.placing import PlacedText
from clearhead.tokens.tokenizer import TextTokenizer

__all__ = [
    "GivenAnswer",
    "Prompt",
    "messages_prompt",
    "question_prompt",
    "text_prompt",
    "with_answer",
]

#: What a model that was not taught to chat reads before it writes.
_ANSWER = "\n\nAnswer:"


@dataclass(frozen=True, eq=False)
class Prompt:
    """What the model reads before its answer.

    Attributes:
        placed: the text as tokens.
        contents: the parts of the text that a person gave.
        segments: the named parts, in order.
        question: what is asked, or None.
        joint: what stands between it and an answer that begins with a letter.
    """

    placed: PlacedText
    contents: tuple[range, ...]
    segments: tuple[Segment, ...]
    question: str | None
    joint: str = ""

    @property
    def ids(self) -> tuple[int, ...]:
        """Its tokens."""
        return self.placed.ids

    def plain_names(self) -> dict[str, list[str]]:
        """The names of control tokens that were read as plain text, by the segment they stood in.

        What stands in no segment, in the name of a passage, is found under ``""``.
        """
        found: dict[str, list[str]] = {}
        for name, start in self.placed.plain:
            tokens = self.placed.tokens_of(range(start, start + 1))
            inside = (one for one in self.segments if one.start <= tokens.start < one.stop)
            found.setdefault(next((one.name for one in inside), ""), []).append(name)
        return found


@dataclass(frozen=True, eq=False)
class GivenAnswer:
    """An answer that was given, as it stands after a prompt.

    Attributes:
        ids: its tokens.
        text: what it says.
        plain: names of control tokens in it that were read as plain text.
        ended_by: None: nothing ended it but itself.
        cache: None: nothing was read.
    """

    ids: tuple[int, ...]
    text: str
    plain: tuple[str, ...]
    ended_by: None = None
    cache: None = None


def question_prompt(words: TextTokenizer, passages: Mapping[str, str], question: str) -> Prompt:
    """Passages, each under its name, and the question after them, as one message of a user.

    A model without a chat template reads the message as text, and ``Answer:`` after it.

    Args:
        words: the tokenizer.
        passages: texts by name.
        question: what is asked.

    Raises:
        TokenError: the template refuses it, or the tokenizer does not say where its tokens stand.
    """
    message, parts = _composed(passages, question)
    if words.chats:
        chat = words.written([{"role": "user", "content": message}])
        text, (content,) = chat.text, chat.contents
    else:
        text, content = message + _ANSWER, range(len(message))
    # a template may cut white space off the message's ends
    cut = message.find(text[content.start : content.stop])
    kinds = [*("passage" for _ in passages), "question"]
    placed = words.placed(text, contents=[content])
    segments = tuple(
        _segment(placed, _moved(part, content.start - cut), name=name, kind=kind)
        for (name, part), kind in zip(parts, kinds, strict=True)
    )
    return Prompt(placed, (content,), segments, question, "" if words.chats else " ")


def messages_prompt(words: TextTokenizer, messages: Sequence[Mapping[str, Any]]) -> Prompt:
    """Chat messages through the chat template; each is named by its role and its number.

    Args:
        words: the tokenizer.
        messages: one mapping a message, each with ``role`` and ``content``.

    Raises:
        TokenError: as for :func:`question_prompt`.
    """
    chat = words.written(messages)
    placed = words.placed(chat.text, contents=chat.contents)
    both = zip(messages, chat.contents, strict=True)
    segments = (
        _segment(placed, content, name=f"{message['role']} {number}", kind="message")
        for number, (message, content) in enumerate(both, start=1)
    )
    return Prompt(placed, chat.contents, tuple(segments), None)


def text_prompt(words: TextTokenizer, text: str) -> Prompt:
    """A text as it is, which the answer goes on with.

    Args:
        words: the tokenizer.
        text: the text.

    Raises:
        TokenError: the tokenizer does not say where its tokens stand.
    """
    everything = range(len(text))
    placed = words.placed(text)
    segment = _segment(placed, everything, name="text", kind="message")
    return Prompt(placed, (), (segment,), None, " ")


def with_answer(words: TextTokenizer, prompt: Prompt, answer: str) -> GivenAnswer:
    """A given answer, as it stands after a prompt.

    Args:
        words: the tokenizer.
        prompt: what stands before it.
        answer: what it says.

    Raises:
        TokenError: the answer is no valid Unicode.
    """
    before = prompt.placed.text
    spaced = before[-1:].isspace() or answer[:1].isspace()
    start = len(before) + (0 if spaced else len(prompt.joint))
    text = f"{before}{'' if spaced else prompt.joint}{answer}"
    contents = (*prompt.contents, range(start, len(text)))
    whole, own = words.placed(text, contents=contents), prompt.ids
    if whole.ids[: len(own)] == own:
        plain = tuple(one.name for one in whole.plain if one.start >= len(before))
        return GivenAnswer(whole.ids[len(own) :], answer, plain)
    # the end of the one and the beginning of the other would be one token: read apart, they are two
    alone = words.placed(text[len(before) :], contents=[range(len(text) - len(before))])
    ids = (one for one, span in zip(alone.ids, alone.spans, strict=True) if span[0] >= 0)
    return GivenAnswer(tuple(ids), answer, tuple(one.name for one in alone.plain))


def _composed(passages: Mapping[str, str], question: str) -> tuple[str, list[tuple[str, range]]]:
    """The message, and where in it the text of each passage and the question stand."""
    message, parts = "", list[tuple[str, range]]()
    headed = ((name, f"{name}:\n", text.strip()) for name, text in passages.items())
    for name, head, text in chain(headed, [("question", "", question.strip())]):
        start = len(message) + len(head)
        message = f"{message}{head}{text}\n\n"
        parts.append((name, range(start, start + len(text))))
    return message.removesuffix("\n\n"), parts


def _moved(part: range, by: int) -> range:
    return range(max(part.start + by, 0), max(part.stop + by, 0))


def _segment(placed: PlacedText, characters: range, *, name: str, kind: Any) -> Segment:
    tokens = placed.tokens_of(characters)
    return Segment(name, kind, tokens.start, tokens.stop)
