"""The whole document: a strict policy, nothing fetched, data that ends no block, text as text."""

import base64
import hashlib
import json
import re

import pytest

from clearhead.report.page.html import page_html
from tests.house_rules import PACKAGE
from tests.report.fakes import FakeTrace
from tests.report.page.made import made

FOLDER = PACKAGE / "report" / "page"


@pytest.fixture
def html(sentence):
    return sentence.html


def test_the_policy_allows_the_two_blocks_it_names_and_nothing_else(html):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)[1]
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)[1]
    module = re.search(r'<script type="module">(.*?)</script>', html, re.DOTALL)[1]

    def digest(text):
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    assert policy == (
        f"default-src 'none'; script-src 'sha256-{digest(module)}';"
        f" style-src 'sha256-{digest(style)}'; base-uri 'none'; form-action 'none'"
    )
    assert html.index("Content-Security-Policy") < html.index("<style>")


def test_no_address_no_handler_no_inline_style(html):
    body = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r"\s(on\w+|style|src|href|srcset|action)=", body)
    assert not re.search(r"<(img|link|iframe|base|form|object|embed|a)\b", body)
    assets = re.search(r"<style>.*?</style>", html, re.DOTALL)[0]
    assert "url(" not in assets
    assert "@import" not in assets
    addresses = set(re.findall(r"[a-z]+://[^\s\"'`]+", html))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, never fetched


def test_the_module_writes_text_only(html):
    module = re.search(r'<script type="module">(.*?)</script>', html, re.DOTALL)[1]
    banned = (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
    )
    assert [name for name in (*banned, "fetch(", "import(", "XMLHttp") if name in module] == []


def test_data_end_no_block_and_come_back(seed):
    texts = ("</script>", "<!--", "a & b", "\u2028", "\ud800", "\x00", "é漢😀", "\\u0041")
    page = made(FakeTrace.of(*texts, layers=(0,), heads=1), seed=seed)
    html = page.html
    html.encode("utf-8")
    blocks = re.findall(r'<script type="application/json" id="(\w+)">(.*?)</script>', html)
    assert [name for name, _ in blocks] == ["values", "shown"]
    for _, block in blocks:
        assert not set(block) & set("<>&")
        assert block.isascii()
    tokens = json.loads(blocks[0][1])["look"]["strip"]["tokens"]
    assert tuple(token["text"] for token in tokens) == texts


def test_values_written_without_escapes_are_made_safe(sentence):
    raw = json.dumps({"values": ["<é\u2028😀>"]}, ensure_ascii=False)
    tree = {"look": {}, "left_out": [], "quantities": [], "command": ""}
    html = page_html(sentence.report, json.dumps(tree)[:-1] + f", {raw[1:]}")
    assert (
        r'{"look": {}, "left_out": [], "quantities": [], "command": "", "values": ["\u003c' in html
    )
    assert r"\u003c\u00e9\u2028\ud83d\ude00\u003e" in html


def test_every_script_and_sheet_is_short_and_in_the_page(html):
    for asset in [*FOLDER.glob("*.js"), *FOLDER.glob("*.css")]:
        text = asset.read_text("utf-8")
        assert text.count("\n") <= 300, f"{asset.name} is too long to read in one sitting"
        assert text in html, f"{asset.name} is not in the page"


def test_the_title_is_text(seed):
    trace = FakeTrace.of("</title><script>", layers=(0,), heads=1, model_name="<b>")
    html = made(trace, seed=seed).html
    assert (
        "<title>Where ⟦&lt;/title&gt;&lt;script&gt;⟧ drew from, by contribution · &lt;b&gt;</title>"
        in html
    )
