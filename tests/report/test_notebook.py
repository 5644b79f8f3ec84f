"""Notebooks: values show themselves, with nothing of theirs that runs, and fall back to text."""

import re
from html import unescape
from html.parser import HTMLParser

import pytest
import torch

import clearhead as ch
from clearhead.report import notebook
from clearhead.report.notebook import html_of
from tests.report.page.reading_back import unpacked
from tests.tracing.shapes import ALONE, drawn

IDS = [5, 6, 7, 8, 5, 6, 9, 9, 3, 5]


@pytest.fixture(params=ALONE)
def traced(request, seeded_weights):
    return ch.trace(drawn(ALONE[request.param]), IDS)


def attended(generator, *shape):
    q, k, v = (torch.randn(shape, generator=generator) for _ in range(3))
    return ch.attention(q, k, v, mask=ch.causal_mask())


class Balanced(HTMLParser):
    """Every tag is closed in order; nothing but the frame may run."""

    def __init__(self, html):
        super().__init__()
        self.open, self.attributes = [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "style", "link", "img")
        self.attributes += [(tag, name) for name, _ in attrs]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in ("br", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("br", "rect"):
            assert self.open.pop() == tag


def test_a_trace_shows_where_its_last_token_drew_from(traced):
    html = traced._repr_html_()
    Balanced(html)
    assert html == html_of(traced)
    assert html.startswith("<div")
    assert "drew from, by contribution" in html


def test_a_short_trace_holds_its_whole_page_behind_a_click(traced):
    html = html_of(traced)
    (page,) = re.findall(r'<iframe sandbox="allow-scripts" srcdoc="([^"]*)"', html)
    document = unescape(page)
    assert document.startswith("<!doctype html>")
    assert "default-src 'none'" in document
    values = re.search(r'id="values">(.*?)</script>', document)[1]
    assert unpacked(values)["rows"] == list(range(len(IDS)))


def test_a_long_trace_says_how_to_get_its_page(traced, monkeypatch):
    monkeypatch.setattr(notebook, "_MOST_BYTES", 1000)
    html = html_of(traced)
    Balanced(html)
    assert "iframe" not in html
    assert "trace.report(&quot;page.html&quot;)" in html


def test_without_w_o_attention_is_shown(traced, monkeypatch):
    for layer in traced:
        monkeypatch.setitem(vars(layer), "projection", None)
    assert "drew from, by attention" in html_of(traced)


def test_the_last_kept_row_is_shown(seeded_weights):
    model = drawn(next(iter(ALONE.values())))
    html = html_of(ch.trace(model, IDS, queries=[2, 4]))
    assert "Token 4 of 10, counted from 0" in html


def test_what_cannot_be_shown_is_text(traced):
    traced.by_layer[0].recorded.tensors["logsumexp"].fill_(float("nan"))
    assert html_of(traced) is None
    assert html_of("anything else") is None


def test_a_matrix_shows_its_heads(generator):
    weights = attended(generator, 2, 3, 40, 8).weights
    html = weights._repr_html_()
    Balanced(html)
    assert html.count("<svg") == 6
    assert "weights A, 2 × 3 × 40 × 40, never formed." in html
    for row in range(2):
        for head in range(3):
            dense = weights[row, head].to_dense()
            assert f"batch row {row}, head {head}: pooled by maximum" in html
            assert f"largest {float(dense.max()):.1%} at row" in html


def test_one_head_and_a_small_one_are_exact(generator):
    weights = attended(generator, 1, 2, 9, 4).weights[0, 1]
    html = weights._repr_html_()
    dense = weights.to_dense()
    row, key = divmod(int(dense.argmax()), 9)
    assert f"exact; largest {float(dense.max()):.1%} at row {row}, key {key}" in html


def test_more_heads_than_are_drawn_are_counted(generator):
    html = attended(generator, 1, 20, 12, 4).weights._repr_html_()
    assert html.count("<svg") == 12
    assert "The first 12 of 20 are drawn." in html


def test_a_matrix_that_would_take_long_is_text(generator, monkeypatch):
    monkeypatch.setattr(notebook, "_MOST_ENTRIES", 100)
    result = attended(generator, 1, 2, 40, 8)
    assert result.weights._repr_html_() is None
    assert result._repr_html_() is None


def test_scores_are_text(generator):
    assert attended(generator, 1, 2, 12, 4).scores._repr_html_() is None


@pytest.mark.parametrize("shape", [(0, 2, 12, 4), (1, 2, 0, 4), (2, 0, 5, 4)])
def test_an_empty_matrix_is_text(shape, generator):
    assert attended(generator, *shape).weights._repr_html_() is None


def test_a_small_result_shows_its_five_steps(generator):
    result = attended(generator, 1, 1, 3, 4)
    html = result._repr_html_()
    Balanced(html)
    assert unescape(re.search(r"<pre>(.*)</pre>", html, re.DOTALL)[1]) == repr(result)


def test_a_larger_result_shows_what_it_is_and_its_heads(generator):
    result = attended(generator, 1, 2, 12, 4)
    html = result._repr_html_()
    Balanced(html)
    assert repr(result) in unescape(html)
    assert html.count("<svg") == 2
