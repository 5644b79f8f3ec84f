"""Chat messages written out by a template, and where in the text each message's content stands."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.errors import TokenError, gathered
from clearhead.tokens.chat import ChatTemplate, check_messages

__all__ = ["Written", "written"]


@dataclass(frozen=True, slots=True)
class Written:
    """A text, and the parts of it that a person gave; between them stands what a template wrote.

    Attributes:
        text: the whole of it.
        contents: places of the characters of each part, in order.
    """

    text: str
    contents: tuple[range, ...]


def written(template: ChatTemplate, messages: Sequence[Mapping[str, Any]]) -> Written:
    """Write messages out, and find each one's content by what the template writes around it.

    The template is run twice: on the messages, and on marks in place of what they say. What stands
    between the marks stands between the contents, so nothing inside a content can be taken for it.

    Args:
        template: the model's.
        messages: one mapping a message, each with ``role`` and ``content``, which is text.

    Returns:
        The text and the place of each content; white space that the template cuts off is left out.

    Raises:
        TokenError: messages that no template could write out, a template that refuses them, or one
            that leaves out or changes what they say.
    """
    check_messages(messages)
    faults = [
        f"message {place}: expected its content as text, got {_kind(message['content'])}"
        for place, message in enumerate(messages)
        if not isinstance(message["content"], str)
    ]
    if faults:
        raise TokenError(gathered("messages", faults))
    text = template.render(messages)
    marks = [_mark(place, template.source) for place in range(len(messages))]
    marked = [{**message, "content": mark} for message, mark in zip(messages, marks, strict=True)]
    frame = _between(template.render(marked), marks)
    contents = [str(message["content"]) for message in messages]
    return Written(text, tuple(_located(text, frame, contents)))


def _kind(content: object) -> str:
    return "None" if content is None else type(content).__name__


def _mark(place: int, source: str) -> str:
    """A word that stands for a message, and nowhere in the template."""
    mark = f"Message{place}Content"
    while mark in source:
        mark += "X"
    return f"{mark}."


def _between(frame: str, marks: Sequence[str]) -> list[str]:
    """What a template writes before, between and after the messages."""
    parts: list[str] = []
    for place, mark in enumerate(marks):
        if frame.count(mark) != 1:
            raise TokenError(_told(place, "does not write in its turn, once,"))
        before, _, frame = frame.partition(mark)
        parts.append(before)
    return [*parts, frame]


def _located(text: str, frame: Sequence[str], contents: Sequence[str]) -> Iterator[range]:
    at = len(frame[0])
    for place, (content, after) in enumerate(zip(contents, frame[1:], strict=True)):
        kept = (content, content.rstrip(), content.lstrip(), content.strip())
        found = next((one for one in kept if text.startswith(one + after, at)), None)
        last = place == len(contents) - 1
        whole = found is not None and (not last or at + len(found + after) == len(text))
        if found is None or not whole or not text.startswith(frame[0]):
            raise TokenError(_told(place, "changes"))
        yield range(at, at + len(found))
        at += len(found + after)


def _told(place: int, what: str) -> str:
    return (
        f"message {place}: the model's chat template {what} what it says, so that its tokens "
        "cannot be told from the template's"
    )
