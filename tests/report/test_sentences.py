"""What every renderer says alike, and that every renderer says it."""

import dataclasses
import re
from html import unescape

import pytest

from clearhead.report import sentences
from clearhead.report.build import build_report
from clearhead.report.fragment import render_fragment
from clearhead.report.terminal import Terminal
from clearhead.report.text import render_text
from tests.report.fakes import FakeTrace


@pytest.mark.parametrize(
    ("model", "origin", "shown"),
    [
        ("SmolLM2", "SmolLM2 Q4_1, dequantised", "SmolLM2 Q4_1, dequantised"),
        ("smollm2", "SmolLM2 Q4_1, dequantised", "smollm2: SmolLM2 Q4_1, dequantised"),
        ("Llama", "", "Llama"),
        ("\x1b[2Jx", "\u202e", "␛[2Jx: ‹U+202E›"),
    ],
)
def test_the_model_is_named_once(animal, model, origin, shown):
    named = dataclasses.replace(animal, model_name=model, weights_origin=origin)
    assert sentences.model_and_weights(build_report(named).head) == shown


def test_one_of_each_is_no_plural():
    alone = FakeTrace.of("a", layers=(0,), heads=1)
    assert sentences.what_it_took(build_report(alone).head) == (
        "1 token, 1 layer × 1 head, 0.21 s; the trace holds 102.0 KiB (grows with the text),"
        " the full matrices would take 4 B (grows with its square)"
    )


def test_the_facts(animal):
    assert list(sentences.facts(build_report(animal, token=" it"))) == [
        "⟦it⟧ drew most from animal (token 1): 37.8% of its incoming contribution",
        (
            "On the first token, The, rests 56.4% of its attention;"
            " from there comes 3.8% of the contribution"
        ),
        "Likeliest next token, after token 11: ␣Paris, 77.3%",
    ]


def test_a_stretch_that_came_later_brings_nothing(thousand):
    strip = build_report(thousand, token=500).strip
    told = [sentences.folded(stretch, strip) for stretch in strip.stretches if stretch.folded]
    assert told[-1] == "… 493 later tokens …"
    assert told[0] == "… 288 tokens, 22.2% together, none above 0.1% …"


@pytest.mark.parametrize("by", ["contribution", "attention"])
@pytest.mark.parametrize("name", ["animal", "hostile", "thousand"])
def test_every_renderer_says_it(name, by, request):
    trace = request.getfixturevalue(name)
    repeated = dataclasses.replace(trace, pieces=(*trace.pieces[:-2], *trace.pieces[3:5]))
    report = build_report(repeated, token=repeated.tokens[-1], by=by, top=3)
    assert report.strip.occurrences > 1
    said = [sentences.model_and_weights(report.head), sentences.what_it_took(report.head)]
    said += [*sentences.facts(report), sentences.drew_from(report.strip)]
    said += [sentences.which_token(report), sentences.STRONGEST_LINKS]
    said += map(sentences.noted, report.notes)
    shown, fragment = render_text(report, Terminal(500)), _read(render_fragment(report))
    assert [words for words in said if words not in shown] == []
    rows = (*sentences.source_cells(report.strip), *sentences.link_cells(report))
    said += [cell for row in rows for cell in row]
    assert [words for words in said if _spaced(words) not in fragment] == []


def _read(html):
    return _spaced(unescape(re.sub(r"<[^>]*>", " ", html)))


def _spaced(words):
    return " ".join(words.split())
