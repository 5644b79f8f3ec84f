"""Click, keys, measure, head, order, pooling, scale, strong links, sources and folds."""

import numpy as np
import pytest

from clearhead.report.figures import percent
from clearhead.report.page.arrays import Array
from tests.report.fakes import FakeTrace
from tests.report.page.made import made


@pytest.fixture
def long(seed):
    """Six hundred tokens, of which the last two hundred may be chosen."""
    trace = FakeTrace.of(*(f" w{n}" for n in range(600)), layers=(0, 1), heads=2)
    return made(trace, seed=seed, target=599, rows=range(400, 600), left_out=("400 rows.",))


def chosen(page):
    return page.page.locator("#strip [aria-selected=true]").get_attribute("id")


def source(page):
    return page.page.locator("#strip .t.source").get_attribute("id")


def test_a_click_chooses_and_shift_click_chooses_the_source(opened, sentence):
    page = opened(sentence.html)
    assert chosen(page) == "t-8"
    page.page.locator("#t-10").click()
    assert chosen(page) == "t-10"
    page.page.locator("#t-3").click(modifiers=["Shift"])
    assert (chosen(page), source(page)) == ("t-10", "t-3")
    page.page.locator("#t-11").click(modifiers=["Shift"])
    assert (chosen(page), source(page)) == ("t-10", "t-3")
    assert "came later, so it cannot reach" in page.text("#readout")


def test_keys_choose_token_and_source(opened, sentence):
    page = opened(sentence.html)
    page.page.locator("#strip").focus()
    for key, token in (
        ("ArrowLeft", 7),
        ("ArrowLeft", 6),
        ("ArrowRight", 7),
        ("Home", 0),
        ("End", 11),
    ):
        page.page.keyboard.press(key)
        assert chosen(page) == f"t-{token}"
    page.page.keyboard.press("Shift+Home")
    assert source(page) == "t-0"
    page.page.keyboard.press("Shift+ArrowRight")
    assert (source(page), chosen(page)) == ("t-1", "t-11")
    page.page.keyboard.press("Enter")
    assert chosen(page) == "t-1"
    page.page.locator("#t-0").hover()
    page.page.keyboard.press("s")
    assert source(page) == "t-0"


def test_arrows_up_and_down_go_by_lines(opened, seed):
    trace = FakeTrace.of(*(f" word{n}" for n in range(100)), layers=(0,), heads=1)
    page = opened(made(trace, seed=seed, target=50).html)
    page.page.locator("#strip").focus()
    page.page.keyboard.press("ArrowDown")
    below = int(chosen(page)[2:])
    assert below > 51
    page.page.keyboard.press("ArrowUp")
    assert abs(int(chosen(page)[2:]) - 50) <= 1


def test_the_measure_switches_and_says_which(opened, sentence):
    page = opened(sentence.html)
    page.page.locator("button[data-value=attention]").first.click()
    assert page.text("#title") == "Where ⟦it⟧ drew from, by attention"
    assert page.text("#notes").count("weights, summed") == 1
    pressed = page.page.locator("#strip-controls [aria-pressed=true]")
    assert pressed.all_text_contents() == ["attention"]


def test_a_model_without_w_o_shows_attention_only(opened, sentence):
    tree = sentence.tree
    for name in ("head_share", "links"):
        tree[name] = {**tree[name], "contribution": None}
    tree["sources"] = {**tree["sources"], "contribution": None, "contribution_head": None}
    tree["look"]["strip"]["by"] = "attention"
    for token in tree["look"]["strip"]["tokens"]:
        token["contribution_share"] = None
    tree["steps"] = [{**step, "value_norm": None, "projection": None} for step in tree["steps"]]
    page = opened(sentence.html)
    button = page.page.locator("#strip-controls button[data-value=contribution]")
    assert button.is_disabled()
    assert "W_O" in button.get_attribute("title")
    page.page.locator("#t-5").click()
    page.settled()
    assert "needs W_O" in page.text("figure.step:nth-child(5)")


def test_heads_are_chosen_by_click_and_keys_and_ordered(opened, sentence):
    page = opened(sentence.html)
    page.page.locator("#h-2").click()
    assert page.page.locator("#head-grid [aria-selected=true]").get_attribute("id") == "h-2"
    assert page.text("#map-title") == "Layer 1, head 0"
    page.page.locator("#head-grid").focus()
    page.page.keyboard.press("ArrowRight")
    assert page.text("#map-title") == "Layer 1, head 1"
    page.page.keyboard.press("ArrowUp")
    assert page.text("#map-title") == "Layer 0, head 1"
    page.page.locator("button[data-value=share]").click()
    shown = page.page.locator("#head-grid .head-share").all_text_contents()
    shares = sorted(sentence.head_shares("contribution")[8].tolist(), reverse=True)
    assert shown == list(map(percent, shares))


def test_pooling_says_what_a_cell_is(opened, long):
    page = opened(long.html)
    assert "pooled each cell stands for up to 9 × 25 weights and shows the largest" in page.text(
        "#head-controls"
    )
    maps = long.tree["maps"]
    for pooling, said in (("max", "largest weight"), ("sum", "sum of weights")):
        page.page.locator(f"button[data-value={pooling}]").click()
        page.page.locator("#map").focus()
        for key in ["ArrowUp"] * 24 + ["ArrowLeft"] * 24:
            page.page.keyboard.press(key)
        head = int(page.page.locator("#head-grid .chosen").get_attribute("id")[2:])
        value = maps[pooling].values[head, 0, 0].item()
        assert page.text("#cell-readout").endswith(f"{said} {value:.3f} pooled")


def test_a_cell_lights_its_query_and_key_and_can_be_chosen(opened, sentence):
    page = opened(sentence.html)
    page.page.locator("#h-1").click()
    box = page.page.locator("#map").bounding_box()
    page.page.locator("#map").hover(
        position={"x": box["width"] * 4.5 / 12, "y": box["height"] * 9.5 / 12}
    )
    lit = page.page.locator("#strip .lit-query, #strip .lit-key")
    assert [one.get_attribute("id") for one in lit.all()] == ["t-4", "t-9"]
    weight = sentence.weights[1, 9, 4]
    assert (
        page.text("#cell-readout")
        == f"was (token 9) reading cross (token 4): weight {weight:.3f} exact"
    )
    page.page.mouse.down()
    page.page.mouse.up()
    assert (chosen(page), source(page)) == ("t-9", "t-4")


def test_a_fit_is_asked_for_said_and_marked(opened, sentence):
    page = opened(sentence.html)
    page.page.locator("#t-11").click()
    absolute = page.text("#legend")
    assert "Fitted" not in absolute
    for button, legend in (("#fit-shares", "#legend"), ("#fit-weights", "#map-legend")):
        page.page.locator(button).click()
        assert page.text(legend).startswith("Fitted scale: ")
        assert "Clipped: ▴ above" in page.text(legend)
    marked = page.page.locator("#strip .clip-above, #strip .clip-below").count()
    counts = [int(word) for word in page.text("#legend").split() if word.isdigit()]
    assert marked == sum(counts) == 2  # the largest and the smallest of twelve
    fitted = [one.text_content() for one in page.page.locator("#legend .t").all()]
    page.page.locator("#t-4").click()
    assert [one.text_content() for one in page.page.locator("#legend .t").all()] == fitted
    page.page.locator("#fit-shares").click()
    assert page.text("#legend") == absolute


def test_the_next_strong_link_walks_from_the_strongest(opened, sentence):
    page = opened(sentence.html)
    for place, link in enumerate(sentence.tree["strong"][:4], 1):
        page.page.locator("#next-strong").click()
        assert (chosen(page), source(page)) == (f"t-{link['row']}", f"t-{link['position']}")
        assert page.page.locator("#head-grid .chosen").get_attribute("id") == f"h-{link['head']}"
        said = page.text("#strong-place")
        assert said.startswith(f"{place} of {len(sentence.tree['strong'])}: ")
        assert f"weight {link['weight']:.3f}, {percent(link['share'])}" in said


def test_folds_open_by_click_and_by_enter(opened, long):
    page = opened(long.html)
    folds = page.page.locator("#strip .fold")
    count = folds.count()
    assert count > 1
    first = folds.first
    start, words = first.get_attribute("id")[2:], first.text_content().split()
    assert words[:1] + words[2:3] == ["…", "tokens,"]
    first.click()
    assert folds.count() == count - 1
    assert page.page.locator(f"#t-{start}").count() == 1
    page.page.locator("#strip").focus()
    page.page.keyboard.press("Shift+End")
    for _ in range(200):
        page.page.keyboard.press("Shift+ArrowLeft")
        if page.page.locator("#strip").get_attribute("aria-activedescendant").startswith("f-"):
            break
    page.page.keyboard.press("Enter")
    assert folds.count() == count - 2


@pytest.fixture
def paragraphs(seed):
    """Three paragraphs of a hundred tokens, the last of them before the chosen token."""
    words = (" w\n\n" if n % 100 == 99 else f" w{n}" for n in range(300))
    page = made(FakeTrace.of(*words, layers=(0,), heads=1), seed=seed, target=250)
    for token in page.tree["look"]["strip"]["tokens"]:
        token["contribution_share"] = 0.5 if token["position"] in (20, 250) else 0.0
    links = page.tree["links"]["contribution"]
    links["position"] = Array.of(np.full(links["position"].values.shape, 20), "u32")
    return page


def test_a_long_text_folds_by_paragraph(opened, paragraphs):
    page = opened(paragraphs.html)
    heads = page.page.locator("#strip .passage")
    whose = "of ⟦w250⟧'s"
    said = [
        f"▾ paragraph 1 · 100 tokens · 50.0% {whose}",
        f"▸ paragraph 2 · 100 tokens · 0.0% {whose}",
        f"▾ paragraph 3 · 100 tokens · 50.0% {whose}",
    ]
    assert heads.all_text_contents() == said
    assert page.page.locator("#p-1 + .prose").count() == 0
    page.page.locator("#p-1").click()
    assert page.page.locator("#p-1 + .prose .fold").count() == 1
    static = opened(paragraphs.html, script=False).page.locator("#strip .passage")
    assert [one.partition(" · ")[0] for one in static.all_text_contents()] == [
        f"paragraph {number}" for number in (1, 2, 3)
    ]


def test_a_token_without_a_row_says_why(opened, long):
    page = opened(long.html)
    page.page.locator("#t-0").hover()
    assert "cannot be looked from" not in page.text("#readout")
    page.page.locator("#t-0").click()
    assert chosen(page) == "t-599"
    assert "only the rows of 200 tokens, from 400 to 599 were kept" in page.text("#readout")
    assert "400 rows." in page.text("#foot")
