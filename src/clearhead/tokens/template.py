"""Runs chat templates, which are programs from a model's files, where they can do no harm."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NoReturn, cast

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from clearhead.errors import TokenError

__all__ = ["run_template"]

# What running somebody's template on somebody's messages may raise.
_FAULTS = (
    TemplateError,
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)


def run_template(source: str, variables: Mapping[str, Any]) -> str:
    """Run a template where it can neither reach Python's attributes nor change what it is given.

    Args:
        source: the template's text.
        variables: what it may use.

    Returns:
        The text it writes.

    Raises:
        TokenError: it fails, or refuses what it is given.
    """
    try:
        return _environment().from_string(source).render(**variables)
    except _FAULTS as fault:
        reason = " ".join(str(fault).split()) or type(fault).__name__
        raise TokenError(f"the model's chat template refused the messages: {reason}") from fault


def _environment() -> ImmutableSandboxedEnvironment:
    """The environment chat templates are written for: block lines leave no blank lines behind."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation]
    )
    loose = cast("Any", environment)  # jinja2 types these by what stands in them at first
    loose.filters["tojson"] = _to_json
    loose.globals |= {"raise_exception": _refuse, "strftime_now": _now}
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
