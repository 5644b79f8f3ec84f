"""Chat templates: messages written out the way a chat model was taught to read them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NoReturn, cast

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from clearhead.errors import TokenError, gathered

__all__ = ["ChatTemplate", "default_template"]

# What running somebody's template on somebody's messages may raise.
_TEMPLATE_FAULTS = (
    TemplateError,
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)


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
        _check(messages)
        try:
            return (
                _environment()
                .from_string(self.source)
                .render(
                    messages=[dict(_mapping(message)) for message in messages],
                    add_generation_prompt=True,
                    **self.special_tokens,
                )
            )
        except _TEMPLATE_FAULTS as fault:
            reason = " ".join(str(fault).split()) or type(fault).__name__
            raise TokenError(f"the model's chat template refused the messages: {reason}") from fault


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


def _check(messages: Sequence[object]) -> None:
    """Refuse messages that no template could write out, all faults at once."""
    if not messages:
        raise TokenError("messages: expected at least one chat message, got none")
    faults = [
        f"message {place}: expected a mapping with 'role' and 'content', got {message!r:.60}"
        for place, message in enumerate(messages)
        if not {"role", "content"} <= _mapping(message).keys()
    ]
    if faults:
        raise TokenError(gathered("messages", faults))


def _environment() -> ImmutableSandboxedEnvironment:
    """The environment chat templates are written for: block lines leave no blank lines behind."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse  # pyright: ignore[reportArgumentType]
    environment.globals["strftime_now"] = _now  # pyright: ignore[reportArgumentType]
    return environment


class _Generation(Extension):
    """``{% generation %}`` marks the answer for training; here it is only text."""

    tags = {"generation"}  # noqa: RUF012  (the name and form that Jinja reads)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(value: object, indent: int | None = None) -> str:
    """JSON as models were shown it: not escaped for HTML, as Jinja's own filter would do."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _now(pattern: str) -> str:
    return datetime.now().astimezone().strftime(pattern)


def _refuse(reason: str) -> NoReturn:
    raise TemplateError(reason)
