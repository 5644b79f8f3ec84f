"""One head, step by step: the page's own arithmetic gives the numbers the values were made from."""

import numpy as np
import pytest

from clearhead.report.page.arrays import Array
from tests.report.fakes import FakeTrace
from tests.report.page.made import made


def number(text):
    """A number as the page writes it, with the place of its last digit."""
    plain = text.replace("−", "-").replace("∞", "inf").rstrip(".")
    return float(plain)


def close(shown, true):
    """Four significant digits are shown."""
    return np.allclose([number(text) for text in shown], true, rtol=6e-4, atol=5e-7)


@pytest.fixture
def capped(seed):
    trace = FakeTrace.of(*(f" w{n}" for n in range(9)), layers=(0, 1), heads=2)
    return made(trace, seed=seed, softcap=1.5)


@pytest.mark.parametrize("name", ["sentence", "capped"])
def test_five_steps_of_any_head_and_pair(opened, name, request):
    values = request.getfixturevalue(name)
    page = opened(values.html)
    for head, token, source in ((0, 8, 2), (3, 5, 0), (2, 8, 8)):
        page.page.locator(f"#t-{token}").click()
        page.page.locator(f"#h-{head}").click()
        page.page.locator(f"#t-{source}").click(modifiers=["Shift"])
        page.settled()
        steps = page.page.locator("figure.step")
        assert steps.count() == 5
        for place in range(5):
            steps.nth(place).locator("summary", has_text="As a table").click()
        tables = [page.cells(f"figure.step:nth-child({place}) table") for place in range(1, 6)]
        judge(values, head, token, source, tables)


def judge(values, head, token, source, tables):
    step = values.tree["steps"][head]
    q, k = step["query"].values[token], values.tree["keys"][head].values[source]
    products = q.astype(float) * k
    assert close([row[3] for row in tables[0]], products)
    raw = step["scale"] * products.sum()
    capped = raw if step["softcap"] is None else step["softcap"] * np.tanh(raw / step["softcap"])
    named = dict(map(tuple, tables[1]))
    assert close(
        [named["scaled"], named["S"], named["L"]], [raw, capped, step["level"].values[token]]
    )
    assert ("soft-capped" in named) == (step["softcap"] is not None)
    weights = values.weights[head, token]
    assert len(tables[2]) == (weights > 0).sum()
    for position, _, weight in tables[2]:
        assert abs(float(weight) - weights[int(position)]) < 6e-5
    part = weights[source] * values.tree["values"][head].values[source]
    assert close([row[1] for row in tables[3]], step["context"].values[token])
    assert close([row[2] for row in tables[3]], part)
    assert close([row[1] for row in tables[4]], part @ step["projection"].values)


def test_the_length_is_the_contribution(opened, sentence):
    page = opened(sentence.html)
    page.page.locator("#h-1").click()
    page.page.locator("#t-3").click(modifiers=["Shift"])
    page.settled()
    told = page.text("figure.step:nth-child(5) figcaption p")
    shown = told.removeprefix("Through W_O it has the length ").removesuffix(
        ": the contribution. exact"
    )
    assert close([shown], [sentence.lengths[1, 8, 3]])


def test_a_head_without_steps_says_so_and_names_others(opened, seed):
    trace = FakeTrace.of(*(f" w{n}" for n in range(9)), layers=(0, 1), heads=2)
    page = opened(made(trace, seed=seed, stepped=(1, 2)).html)
    page.page.locator("#h-3").click()
    page.settled()
    assert "does not hold the vectors of layer 1, head 1" in page.text("#steps")
    names = page.page.locator("#steps button").all_text_contents()
    assert sorted(names) == ["Layer 0, head 1", "Layer 1, head 0"]
    page.page.locator("#steps button", has_text="Layer 0, head 1").click()
    page.settled()
    assert page.page.locator("figure.step").count() == 5


def test_each_step_names_its_quantities_from_the_table(opened, sentence):
    page = opened(sentence.html)
    page.settled()
    words = page.page.locator("details.word")
    assert words.count() == 10
    for place in range(words.count()):
        word = words.nth(place)
        word.locator("summary").click()
        name = (word.locator("summary").text_content() or "").replace("(", " (")
        entry = [q for q in sentence.tree["quantities"] if f"{q['name']} " in name]
        assert any(
            q["shape"] in name and q["meaning"] in (word.text_content() or "") for q in entry
        )


def test_it_says_why_it_opens_on_this_link(opened, sentence):
    links = sentence.tree["links"]["contribution"]
    links["position"] = Array.of(np.tile([0, 8, 3, 2, 1, 3, 2, 1], (12, 1)), "u32")
    page = opened(sentence.html)
    why = "the strongest link that is neither on the first token nor on the token itself."
    assert why in page.text("#steps-which")
    page.page.locator("#t-2").click(modifiers=["Shift"])
    page.settled()
    assert why not in page.text("#steps-which")


def test_every_step_is_marked_and_a_drawing_of_many_numbers_too(opened, seed):
    trace = FakeTrace.of(*(f" w{n}" for n in range(300)), layers=(0,), heads=1)
    page = opened(made(trace, seed=seed).html)
    page.settled()
    marks = [
        step.locator("figcaption .mark").all_text_contents()
        for step in page.page.locator("figure.step").all()
    ]
    assert marks == [["exact"], ["exact"], ["pooled", "exact"], ["exact"], ["exact"]]
