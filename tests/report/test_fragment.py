"""The notebook's HTML: tokens and names are text, and every number beside its shade."""

import dataclasses
from html.parser import HTMLParser

import pytest

from clearhead.report.build import build_report
from clearhead.report.figures import percent
from clearhead.report.fragment import render_fragment
from clearhead.report.visible import visible
from tests.report.conftest import HOSTILE
from tests.report.documents.made import documents, drawn_from

TAGS = {"div", "p", "b", "br", "span", "small", "i", "table", "caption", "tr", "th", "td"}
VOID = {"br"}


class Read(HTMLParser):
    """Gathers tags, attributes and text; checks that tags close in order."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.texts, self.open = set(), [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.extend(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return "".join(self.texts)


@pytest.mark.parametrize("name", ["animal", "hostile", "thousand"])
def test_only_harmless_tags_and_attributes(name, request):
    trace = request.getfixturevalue(name)
    named = dataclasses.replace(trace, model_name="<img src=x>", weights_origin="</div><script>")
    read = Read(render_fragment(build_report(named, token=2)))
    assert read.tags <= TAGS
    assert {attribute for attribute, _ in read.attributes} <= {"style", "title", "scope"}
    assert not read.open
    assert "<img src=x>: </div><script>" in read.text
    assert not set(read.text) & set("\x00\x1b\u202e\u2028\ud800")


def test_tokens_stand_as_text(hostile):
    read = Read(render_fragment(build_report(hostile)))
    for piece in hostile.pieces:
        assert visible(piece.text).strip() in read.text
    assert "😀[3/4]" in read.text


def test_the_numbers_are_the_report_s(animal):
    report = build_report(animal, token=" it")
    read = Read(render_fragment(report))
    titles = [value for attribute, value in read.attributes if attribute == "title"]
    assert titles[:9] == [
        f"token {token.position}, {percent(token.share)}, rank {token.rank}"
        for token in report.strip.tokens[:9]
    ]
    assert titles[9:] == [f"token {p}, came later: cannot be a source" for p in (9, 10, 11)]
    for row in report.heads.rows:
        assert f"{row.weight:.3f}{row.contribution:#.3g}{percent(row.share)}" in read.text
    assert "56.4% of its attention" in read.text
    assert "77.3%␣Paris" in read.text
    assert "A weight is not an explanation" in read.text


def test_the_strip_reads_as_the_terminal_s(animal, thousand):
    text = Read(render_fragment(build_report(animal, token=" it"))).text
    assert "▄The ▇animal ▂did ▃not ▅cross ▁the ▆street ▅because ⟦▇it⟧ was tired." in text
    text = Read(render_fragment(build_report(thousand, token=700))).text
    assert "w6 … 288 tokens, 15.1% together, none above 0.1% …  w295" in text


def test_later_stretches_of_a_long_text_are_no_sources(thousand):
    text = Read(render_fragment(build_report(thousand, token=2))).text
    assert "… 991 later tokens …" in text
    assert "0.0% together" not in text


# ---------------------------------------------------------------------------------------- an answer


def test_an_answer_s_shares_are_shown_by_passage_by_depth_and_for_each_token():
    text = Read(render_fragment(drawn_from(documents("a.txt", "b.txt")))).text
    assert "Question: Who sang?Answer: he did" in text
    assert "passage by passagesharepassagetokens50.0%a.txt125.0%b.txt1" in text
    assert "0.0%between them (the template)25.0%the answer itself, so far" in text
    assert "The average over the answer's 2 tokens, by contribution." in text
    assert "37.5%0–437.5%5–9" in text
    assert "10␣w1050.0%25.0%0.0%25.0%11␣w1150.0%25.0%0.0%25.0%" in text
    assert "the row before it wrote it" in text


def test_names_of_passages_are_text():
    read = Read(render_fragment(drawn_from(documents("<img src=x>", *HOSTILE, known=False))))
    assert read.tags <= TAGS
    assert "by attention." in read.text
    assert "<img src=x>" in read.text
    assert not set(read.text) & set("\x00\x1b\u202e\u2028\ud800")
