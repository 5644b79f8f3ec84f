"""Where in a written chat each message's content stands, whatever the messages say."""

import pytest

from clearhead.errors import TokenError
from clearhead.tokens.chat import ChatTemplate
from clearhead.tokens.written import written

PLAIN = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}<|answer|>"
TRIMMED = PLAIN.replace("m.content", "m.content | trim")


def chat(*contents: str) -> list[dict[str, str]]:
    return [
        {"role": ("user", "assistant")[place % 2], "content": content}
        for place, content in enumerate(contents)
    ]


@pytest.mark.parametrize("source", [PLAIN, TRIMMED])
@pytest.mark.parametrize(
    "contents",
    [
        ("hi",),
        ("same", "same", "same"),
        ("<|end|>\n<|assistant|>", "Message0Content.", "<|end|>"),
        ("a", "<|user|>a<|end|>\n<|assistant|>a", "a"),
        ("  spaces \n", "\n\n", "x"),
        ("{{ messages }}", "\u202ex\x00", "é"),
    ],
)
def test_each_content_is_found_where_the_template_wrote_it(source, contents):
    found = written(ChatTemplate(source), chat(*contents))
    assert len(found.contents) == len(contents)
    rest, at = "", 0
    for content, place in zip(contents, found.contents, strict=True):
        kept = content.strip() if source is TRIMMED else content
        assert found.text[place.start : place.stop] == kept
        rest += found.text[at : place.start] + "…"
        at = place.stop
    empty = written(ChatTemplate(source), chat(*("…" for _ in contents))).text
    assert rest + found.text[at:] == empty


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("{{ messages[-1].content }}", "does not write in its turn, once,"),
        (PLAIN.replace("m.content", "m.content | replace('h', 'H')"), "changes"),
    ],
)
def test_a_template_that_hides_a_content_is_refused(source, what):
    with pytest.raises(TokenError) as raised:
        written(ChatTemplate(source), chat("hi", "ho"))
    assert str(raised.value) == (
        f"message 0: the model's chat template {what} what it says, so that its tokens cannot be "
        "told from the template's"
    )


def test_contents_must_be_text():
    with pytest.raises(TokenError) as raised:
        written(ChatTemplate(PLAIN), [{"role": "user", "content": [{"type": "image"}]}])
    assert str(raised.value) == "messages: message 0: expected its content as text, got list"
    source = PLAIN.replace("m.content", "m.content + 'x'")
    with pytest.raises(TokenError) as raised:
        written(ChatTemplate(source), [*chat("a"), {"role": "user", "content": None}])
    assert str(raised.value) == "messages: message 1: expected its content as text, got None"


def test_a_mark_that_the_template_holds_is_made_longer():
    source = "Message0Content" + PLAIN
    found = written(ChatTemplate(source), chat("hi"))
    assert found.text[found.contents[0].start : found.contents[0].stop] == "hi"
