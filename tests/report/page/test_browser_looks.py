"""Light and dark, narrow and printed, by keyboard alone, and for eyes and ears of every kind."""

import re

import pytest

from tests.report.fakes import FakeTrace
from tests.report.page.accessibility import axe_source, violations
from tests.report.page.answered import answered
from tests.report.page.made import made


@pytest.fixture(scope="session")
def axe():
    return axe_source()


@pytest.fixture
def passages(seed):
    return answered((120, 90), seed=seed, left_out=("One thing.",))


@pytest.fixture
def every_level(seed):
    """A sentence whose shares fall into every band of the scale."""
    trace = FakeTrace.of(*(f" w{n}" for n in range(12)), layers=(0, 1), heads=2)
    page = made(trace, seed=seed)
    for place, token in enumerate(page.tree["look"]["strip"]["tokens"]):
        token["contribution_share"] = min(2.0 ** (place - 9), 0.6)
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["sentence", "passages", "every_level"])
def test_no_violation_of_accessibility(opened, axe, scheme, name, request):
    page = opened(request.getfixturevalue(name).html, color_scheme=scheme, bypass_csp=True)
    assert "\n".join(violations(page.page, axe)) == ""
    for button in ("#fit-shares", "#fit-weights", "#next-strong"):
        page.page.locator(button).click()
    page.settled()
    for summary in page.page.locator("summary").all():
        summary.click()
    page.page.locator("#strip").focus()
    assert "\n".join(violations(page.page, axe)) == ""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_shade_leaves_its_text_readable(opened, every_level, scheme):
    page = opened(every_level.html, color_scheme=scheme)
    script = """all => all.map(one => {
      const style = getComputedStyle(one);
      return [style.color, style.getPropertyValue('--shade').trim()];
    })"""
    shown = page.page.eval_on_selector_all("#strip .t", script)
    shades = [shade for _, shade in shown]
    assert len(set(shades)) == 9  # none and eight
    lights = [_luminance(shade) for shade in shades if shade.startswith("#")]
    assert lights == sorted(lights, reverse=scheme == "light")
    for colour, shade in shown:
        if shade.startswith("#"):
            low, high = sorted((_luminance(colour), _luminance(shade)))
            assert (high + 0.05) / (low + 0.05) >= 4.5


def _luminance(colour):
    if colour.startswith("#"):
        parts = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    else:
        parts = [int(part) for part in re.findall(r"\d+", colour)[:3]]
    linear = [
        v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4
        for v in (p / 255 for p in parts)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", ["sentence", "passages"])
@pytest.mark.parametrize("script", [True, False])
def test_four_hundred_wide_without_sideways_scrolling(opened, name, script, request):
    page = opened(request.getfixturevalue(name).html, width=400, script=script)
    if script:
        for summary in page.page.locator("summary").all():
            summary.click()
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_long_word_does_not_widen_the_page(opened, seed):
    trace = FakeTrace.of("x" * 400, "漢" * 200, " y", layers=(0,), heads=1, model_name="m" * 300)
    page = opened(made(trace, seed=seed, command="c" * 500).html, width=400)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 400


def test_print_shows_the_text_and_hides_the_controls(opened, passages):
    page = opened(passages.html)
    page.page.emulate_media(media="print")
    visible = {
        selector: page.page.locator(selector).first.is_visible()
        for selector in ("#strip", "#sources", "#by-passage", "#foot", ".controls", "#fit-shares")
    }
    assert visible == {
        "#strip": True,
        "#sources": True,
        "#by-passage": True,
        "#foot": True,
        ".controls": False,
        "#fit-shares": False,
    }
    ground = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(255, 255, 255)"
    assert page.page.pdf(format="A4").startswith(b"%PDF")


def test_everything_by_keyboard_alone(opened, passages):
    page = opened(passages.html)
    reached, seen = [], set()
    for _ in range(120):
        page.page.keyboard.press("Tab")
        here = page.page.evaluate(
            "() => { const at = document.activeElement; const box = getComputedStyle(at);"
            " const name = at.id || at.dataset.value || at.tagName;"
            " return [name, at === document.body, box.outlineStyle]; }"
        )
        if here[1]:
            break
        reached.append(here[0])
        assert here[2] != "none" or here[0] == "strip", f"no focus to be seen on {here[0]}"
        seen.add(here[0])
    assert {"strip", "fit-shares", "next-strong", "head-grid", "map", "fit-weights"} <= seen
    assert {"contribution", "attention", "layer", "share", "average", "SUMMARY"} <= seen
    assert len(reached) < 120


def test_the_first_paint_waits_for_no_script(opened, sentence):
    """Printed, never judged: a busy machine is no fault."""
    page = opened(sentence.html)
    script = "performance.getEntriesByType('paint').map(one => `${one.name} ${one.startTime} ms`)"
    print(page.page.evaluate(script))  # noqa: T201  a figure for whoever reads the log
