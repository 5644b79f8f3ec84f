"""The page before its module runs: every part of the report, whole, as text."""

from dataclasses import replace

import pytest

from clearhead.report.build import build_report
from clearhead.report.page.sections import sections, title
from clearhead.report.sentences import drew_from, facts, model_and_weights, noted, which_token
from clearhead.report.visible import visible
from tests.report.test_fragment import Read

WORD = {
    "symbol": "A",
    "name": "weights",
    "shape": "(heads, n, m)",
    "meaning": "Softmax of S.",
    "producer": "exp(S − L)",
    "cost": "much",
    "also_called": "pattern",
}
VALUES = {"look": {}, "left_out": [], "quantities": [WORD], "command": "clearhead look <x>"}


def read(report, **values):
    return Read("".join(sections(report, {**VALUES, **values})))


@pytest.mark.parametrize("name", ["animal", "hostile", "thousand"])
def test_all_parts_stand_as_text(name, request):
    report = build_report(request.getfixturevalue(name), token=2)
    page = read(report)
    said = [drew_from(report.strip), which_token(report), model_and_weights(report.head)]
    for sentence in (*said, *facts(report), *map(noted, report.notes)):
        assert sentence in page.text
    assert "clearhead look <x>" in page.text
    assert (
        "A weights (heads, n, m)Softmax of S. Made by exp(S − L). Also called: pattern."
        in page.text
    )
    assert not page.open
    assert not {name for name, _ in page.attributes} & {"style", "onclick", "src", "href"}


def test_shades_are_classes_and_later_tokens_look_so(animal):
    report = build_report(animal, token="it")
    page = read(report)
    classes = [value for name, value in page.attributes if name == "class" and value[:2] == "t "]
    tokens = report.strip.tokens
    assert classes[: len(tokens)] == [
        f"t l{token.level}"
        + (" target" if token.position == 8 else "")
        + ("" if token.reachable else " later")
        for token in tokens
    ]
    assert page.text.count("┊") == 2  # behind the token, and in the sentence that explains it


def test_what_was_left_out_is_said_and_only_then(animal):
    report = build_report(animal)
    assert "Not in this page" not in read(report).text
    assert "Not in this page<b>" in read(report, left_out=["<b>"]).text


def test_a_long_text_folds(thousand):
    report = build_report(thousand, token=700)
    page = read(report)
    assert page.text.count("together, none above") == sum(
        stretch.folded and stretch.start <= 700 for stretch in report.strip.stretches
    )
    assert "… folds a stretch" in page.text


def test_a_model_that_predicts_nothing_has_no_such_section(hostile):
    assert "What comes next" not in read(build_report(hostile)).text


def test_the_title_names_token_and_model(animal):
    report = build_report(replace(animal, model_name="a\nb"), token="it")
    assert title(report) == "Where ⟦it⟧ drew from, by contribution · a↵b"
    assert visible(title(report)) == title(report)
