"""Chat templates: written out as the model was taught, with exactly one beginning."""

import pytest

from clearhead.errors import TokenError
from clearhead.tokens.backend import FileBackend
from clearhead.tokens.chat import ChatTemplate, default_template
from clearhead.tokens.tokenizer import TextTokenizer
from tests.tokens import tiny

HELLO = [{"role": "user", "content": "hello"}]
BODY = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


def talker(template: str, *, begins: bool) -> TextTokenizer:
    return TextTokenizer(
        FileBackend(tiny.byte_level(begins=begins)),
        template=template,
        special_tokens={"bos_token": "<s>", "eos_token": "</s>"},
    )


@pytest.mark.parametrize(
    ("template", "begins", "count"),
    [
        ("{{ bos_token }}" + BODY, True, 1),  # both would write it
        (BODY, True, 1),  # only the tokenizer would
        ("{{ bos_token }}" + BODY, False, 1),  # only the template does
        (BODY, False, 0),  # the model has no beginning
        ("{{ bos_token }}{{ bos_token }}" + BODY, True, 1),
    ],
)
def test_a_chat_begins_once(template: str, begins: bool, count: int) -> None:
    ids = talker(template, begins=begins).chat(HELLO)
    assert ids.count(0) == count
    assert ids[:count] == [0] * count


def test_the_beginning_of_text_may_stand_again_later() -> None:
    again = "{% for m in messages %}{{ bos_token }}{{ m['content'] }}{% endfor %}"
    assert talker(again, begins=True).chat(HELLO * 2).count(0) == 2


def test_a_tokenizer_without_a_name_for_the_beginning_is_left_alone() -> None:
    tokenizer = TextTokenizer(FileBackend(tiny.byte_level(begins=True)), template=BODY)
    assert tokenizer.decode(tokenizer.chat(HELLO)) == "hello"


def test_the_template_is_written_for_an_answer() -> None:
    template = BODY + "{% if add_generation_prompt %}</s>{% endif %}"
    assert ChatTemplate(template).render(HELLO) == "hello</s>"


def test_the_messages_are_not_changed() -> None:
    messages = [{"role": "user", "content": "a"}]
    with pytest.raises(TokenError):
        ChatTemplate("{{ messages[0].update(content='b') }}").render(messages)
    assert messages == [{"role": "user", "content": "a"}]


def test_messages_of_a_wrong_form_are_listed() -> None:
    with pytest.raises(TokenError) as caught:
        ChatTemplate(BODY).render(["hello", {"role": "user"}, *HELLO])
    assert str(caught.value) == (
        "messages, 2 faults:\n"
        "  - message 0: expected a mapping with 'role' and 'content', got 'hello'\n"
        "  - message 1: expected a mapping with 'role' and 'content', got {'role': 'user'}"
    )


def test_no_messages_and_no_template_say_so() -> None:
    with pytest.raises(TokenError) as none:
        ChatTemplate(BODY).render([])
    with pytest.raises(TokenError) as untaught:
        TextTokenizer(FileBackend(tiny.byte_level())).chat(HELLO)
    assert str(none.value) == "messages: expected at least one chat message, got none"
    assert (
        str(untaught.value) == "this model has no chat template: give it text instead of messages"
    )


@pytest.mark.parametrize(
    ("entry", "template"),
    [
        ("x", "x"),
        (None, None),
        ([{"name": "tool", "template": "t"}, {"name": "default", "template": "d"}], "d"),
        ({"default": "d"}, "d"),
        ([{"name": "tool", "template": "t"}], None),
        (["junk", 3], None),
    ],
)
def test_which_template_is_taken(entry: object, template: str | None) -> None:
    assert default_template(entry) == template
