"""Templates run as they were written to, and do nothing else."""

import re

import pytest

from clearhead.errors import TokenError
from clearhead.tokens.template import run_template


def test_what_chat_templates_use_of_their_environment() -> None:
    template = (
        "{%- for m in messages %}\n"
        "    {%- if loop.index > 1 %}{% break %}{% endif %}\n"
        "    {%- generation %}{{ {'a': '<é>'} | tojson }}{% endgeneration %}\n"
        "{%- endfor %}\n"
        "{{ strftime_now('%Y') }}"
    )
    assert re.fullmatch(r'\{"a": "<é>"\}\d{4}', run_template(template, {"messages": [1, 2]}))


def test_a_block_line_leaves_no_blank_line() -> None:
    assert run_template("a\n  {% if true %}\nb\n  {% endif %}\nc", {}) == "a\nb\nc"


def test_json_keeps_its_indent() -> None:
    assert run_template("{{ x | tojson(indent=1) }}", {"x": {"a": 1}}) == '{\n "a": 1\n}'


def test_a_refusal_is_one_line() -> None:
    with pytest.raises(TokenError) as caught:
        run_template("{{ raise_exception('only one\n message') }}", {})
    assert str(caught.value) == "the model's chat template refused the messages: only one message"


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(content='b') }}",
        "{% for i in range(999999999) %}{% endfor %}",
        "{{ 1 / 0 }}",
        "{% if %}",
        "{{ messages[9]['content'] }}",
        "{{ messages[0]['content'] + 1 }}",
        "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    ],
)
def test_one_that_fails_or_reaches_out_is_one_error(template: str) -> None:
    messages = [{"role": "user", "content": "a"}]
    with pytest.raises(TokenError, match=r"^the model's chat template refused the messages: "):
        run_template(template, {"messages": messages})
    assert messages == [{"role": "user", "content": "a"}]
