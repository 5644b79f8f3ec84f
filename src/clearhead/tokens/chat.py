"""Chat templates: messages written out the way a chat model was taught to read them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from clearhead.errors import TokenError, gathered

__all__ = ["ChatTemplate", "check_messages", "default_template"]


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A chat template and the special tokens it may name.

    Args:
        source: the template's text, in Jinja's language.
        special_tokens: ``bos_token``, ``eos_token`` and so on, as text.
    """

    source: str
    special_tokens: Mapping[str, str] = field(default_factory=dict[str, str])

    def render(self, messages: Sequence[object]) -> str:
        """Write messages out, ending with the words that ask the model for its answer.

        A template comes with a model's files and is not trusted: it runs where it can reach neither
        Python's attributes nor change the messages.

        Args:
            messages: one mapping a message, each with ``role`` and ``content``.

        Returns:
            The text, special tokens included.

        Raises:
            TokenError: messages of a wrong form, or a template that fails or refuses them.
        """
        check_messages(messages)
        # Most runs write out no chat, and the language of templates takes a while to import.
        from clearhead.tokens.template import run_template

        copies = [dict(_mapping(message)) for message in messages]
        variables = {"messages": copies, "add_generation_prompt": True, **self.special_tokens}
        return run_template(self.source, variables)


def default_template(entry: object) -> str | None:
    """The template to use of what a configuration holds, or None.

    Args:
        entry: one text; or several as a mapping, or as a list of names and texts, of which the one
            named ``default`` is taken.
    """
    if isinstance(entry, list):
        rows = [_mapping(row) for row in cast("list[object]", entry)]
        entry = {str(row.get("name")): row.get("template") for row in rows}
    if isinstance(entry, dict):
        entry = _mapping(cast("object", entry)).get("default")
    return entry if isinstance(entry, str) else None


def _mapping(value: object) -> Mapping[str, Any]:
    """A mapping with names as keys; anything else is an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def check_messages(messages: Sequence[object]) -> None:
    """Refuse messages that no template could write out, all faults at once.

    Args:
        messages: whatever was given as messages.

    Raises:
        TokenError: there is none, or one has no role or no content.
    """
    if not messages:
        raise TokenError("messages: expected at least one chat message, got none")
    faults = [
        f"message {place}: expected a mapping with 'role' and 'content', got {message!r:.60}"
        for place, message in enumerate(messages)
        if not {"role", "content"} <= _mapping(message).keys()
    ]
    if faults:
        raise TokenError(gathered("messages", faults))
