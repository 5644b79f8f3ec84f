"""Whatever a token, a passage, a model or a path holds: no script runs, and it shows as text."""

import json
import random

import pytest

from clearhead.report.visible import visible
from tests.report.page.answered import answered

COUNT = 2000
PIECES = (
    "</script><script>window.__ran=1</script>",
    "<img src=x onerror=window.__ran=1>",
    "<!--",
    "<!--<script>",
    "-->",
    "]]>",
    '"',
    "'",
    '" onmouseover="window.__ran=1',
    "' autofocus onfocus='window.__ran=1",
    "`${window.__ran=1}`",
    "${alert(1)}",
    "{{constructor.constructor('alert(1)')()}}",
    "javascript:alert(1)",
    "<svg onload=alert(1)>",
    "<style>*{display:none}</style>",
    "</style>",
    "</title><h1>",
    "<base href=//evil>",
    "<meta http-equiv=refresh content=0>",
    "\\u003cscript\\u003e",
    "\\",
    "\\\\'",
    "&lt;b&gt;",
    "&#0;",
    "&amp",
    "\u2028",
    "\u2029",
    "\u202e",
    "\u2066",
    "\u200b",
    "\ufeff",
    "\x00",
    "\x1b[31m",
    "\x7f",
    "\x85",
    "\ud800",
    "\udfff",
    "\U000e0041",
    "\ufffe",
    "a\u0301",
    "\u0301" * 40,
    "e" + "\u0489" * 9,
    "漢" * 30,
    "x" * 500,
    "😀",
    "👩\u200d👩\u200d👧",
    "‹U+202E›",
    "⟦it⟧",
    "␣",
    "__proto__",
    "constructor",
    "\r\n",
    "\t",
    "e\u0301" * 7,
    "; alert(1) //",
    "window.__ran=1",
)


@pytest.fixture
def strings(seed):
    """Two thousand, each of one to four pieces, without spaces at its ends."""
    rng = random.Random(seed)
    return ["-".join(rng.choices(PIECES, k=rng.randint(1, 4))) for _ in range(COUNT)]


@pytest.fixture
def hostile(strings):
    """All of them as tokens, a hundred as names of passages, others as names, path and command."""
    return answered(
        (18,) * 100,
        seed=len(strings[0]),
        answer=COUNT - 1901,
        names=strings[:100],
        words=strings,
        question=strings[101],
        command=" ".join(strings[200:300]),
        left_out=strings[300:310],
        named="\n".join(strings[310:400]),
    )


def test_every_token_and_name_shows_as_visible_text(opened, hostile, strings):
    page = opened(hostile.html)
    page.page.evaluate(
        "() => { let fold; while ((fold = document.querySelector('#strip .fold'))) fold.click();"
        " for (const name of [...document.querySelectorAll('#strip .passage')])"
        " if (name.textContent[0] === '▸') document.getElementById(name.id).click();"
        " while ((fold = document.querySelector('#strip .fold'))) fold.click(); }"
    )
    script = "all => all.map(token => [token.id, token.textContent])"
    shown = dict(page.page.eval_on_selector_all("#strip .t", script))
    assert shown == {f"t-{place}": visible(text) for place, text in enumerate(strings)}
    names = page.page.locator("#strip .passage").all_text_contents()
    said = [name[2:].rsplit(" · ", 2)[0] for name in names]
    assert said == [*map(visible, strings[:100]), "The answer"]
    assert [row[1] for row in page.cells("#by-passage")][:100] == said[:100]
    assert page.text("#command") == visible(" ".join(strings[200:300]))
    assert visible("\n".join(strings[310:400])) in page.text(".model")
    assert page.page.evaluate(
        "[window.__ran, document.scripts.length, document.images.length]"
    ) == [
        None,
        3,
        0,
    ]


def test_hostile_tokens_can_be_chosen_and_read(opened, hostile, strings):
    page = opened(hostile.html)
    for token in hostile.rows[:: len(hostile.rows) // 5]:
        page.page.evaluate(f"document.getElementById('t-{token}')?.click()")
        page.settled()
    for summary in (
        "Every listed source as a table",
        "Every head as a table",
        "Each token of the answer",
    ):
        page.shown_details(summary)
    assert page.page.evaluate(
        "[window.__ran, document.scripts.length, document.images.length]"
    ) == [
        None,
        3,
        0,
    ]


def test_the_static_page_holds_them_as_text_too(opened, hostile, strings):
    page = opened(hostile.html, script=False)
    assert page.page.locator("script").count() == 3
    assert page.page.locator("img, iframe, base, a, link, form, input").count() == 0
    assert page.text("#command") == visible(" ".join(strings[200:300]))
    assert page.text(".question") == visible(strings[101])


def test_the_data_come_back_as_they_were(opened, hostile, strings):
    page = opened(hostile.html)
    script = (
        "() => { const values = JSON.parse(document.getElementById('values').textContent);"
        " return JSON.stringify(values.look.strip.tokens.map(token => token.text)); }"
    )
    assert json.loads(page.page.evaluate(script)) == strings
