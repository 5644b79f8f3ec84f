"""What a terminal shows: exact at 80 and 40 cells, and nothing but the parts."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from clearhead.report.build import build_report
from clearhead.report.figures import percent, percent_at_most, scale_bound, size
from clearhead.report.terminal import Terminal
from clearhead.report.text import render_text
from clearhead.report.visible import cells, visible
from tests.report.fakes import FakeTrace

EXPECTED = Path(__file__).parent / "expected"


@pytest.mark.parametrize("width", [80, 40])
def test_the_whole_view(animal, width):
    shown = render_text(build_report(animal, token=" it", top=3), Terminal(width))
    assert shown == (EXPECTED / f"look_{width}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["animal", "hostile", "thousand"])
@pytest.mark.parametrize("width", [20, 33, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(name, width, request):
    report = build_report(request.getfixturevalue(name), token=1)
    lines = render_text(report, Terminal(width)).splitlines()
    assert max(map(cells, lines)) <= width
    assert not [line for line in lines if line != line.rstrip()]


@pytest.mark.parametrize("colours", [None, "standard", "256", "truecolor"])
def test_tokens_never_reach_the_terminal_raw(hostile, colours):
    shown = render_text(build_report(hostile), Terminal(80, colours))
    without_colours = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "\x1b" not in without_colours
    assert not set(without_colours) & set("\x00\x07\x9b\u202e\u2028\u200d\ufeff\ud800\r\t")
    assert (shown == without_colours) == (colours is None)
    assert "[bold red]markup[/]" in without_colours
    assert ":smile:" in without_colours


def test_names_are_text_too(animal):
    named = dataclasses.replace(animal, model_name="\x1b[2Jx", weights_origin="[red]\u202e")
    first, *_ = render_text(build_report(named), Terminal(80)).splitlines()
    assert first == "␛[2Jx: [red]‹U+202E›"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_an_encoding_without_our_signs_gets_plain_ones(animal, encoding):
    shown = render_text(build_report(animal, token=" it"), Terminal(80, None, encoding))
    shown.encode(encoding)
    assert "4The 7animal 2did 3not 5cross 1the 6street 5because [7it]| was tired." in shown
    assert "Share at least: 8 50% 7 25%" in shown


@pytest.mark.parametrize("name", ["animal", "hostile", "thousand"])
def test_every_number_shown_stands_in_the_json(name, request):
    report = build_report(request.getfixturevalue(name), token=-3)
    carried = json.loads(report.to_json())
    written = {form for number in _numbers(carried) for form in _forms(number)}
    texts = " ".join(map(visible, _strings(carried)))
    shown = render_text(report, Terminal(200))
    beyond = {number for number in re.findall(r"\d[\d,.]*%?", shown) if number not in written}
    assert {number for number in beyond if number.rstrip(".,") not in texts} <= {"0."}  # "from 0."


def _numbers(tree):
    if isinstance(tree, dict | list):
        yield len(tree)
        for branch in tree.values() if isinstance(tree, dict) else tree:
            yield from _numbers(branch)
        if isinstance(tree, dict) and "stop" in tree:
            yield tree["stop"] - tree["start"]
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield tree


def _strings(tree):
    if isinstance(tree, dict | list):
        for branch in tree.values() if isinstance(tree, dict) else tree:
            yield from _strings(branch)
    elif isinstance(tree, str):
        yield tree


def _forms(number):
    made = {str(number), f"{number:,}", f"{number:.3f}", f"{number:#.3g}", f"{number:.2f}"}
    made |= {size(int(number)).split()[0], scale_bound(number)}
    made |= {percent(number).lstrip("<"), percent_at_most(number)}
    return made | {f"{form}{stop}" for form in made for stop in ".,"}


def test_an_encoder_predicts_nothing_and_nothing_came_later(hostile):
    shown = render_text(build_report(hostile), Terminal(80))
    assert "What comes next" not in shown
    assert "Likeliest" not in shown
    assert "came later" not in shown


def test_a_word_found_twice_is_told(animal):
    shown = render_text(build_report(animal, token="the"), Terminal(80))
    assert "Token 5 of 12, counted from 0. Layers 0–29, all heads." in shown
    repeated = dataclasses.replace(animal, pieces=(animal.pieces[5], *animal.pieces[1:]))
    shown = render_text(build_report(repeated, token="the"), Terminal(80))
    assert "Token 5 of 12, counted from 0, the last of 2 such; also at 0. Layers" in shown


def test_a_word_of_several_tokens_is_told_where_it_ends():
    trace = FakeTrace.of("My", " caf", "és", " here")
    shown = render_text(build_report(trace, token="cafés"), Terminal(80))
    assert "Token 2 of 4, counted from 0, where cafés ends. Layers" in shown


@pytest.mark.parametrize(
    ("layers", "shown"),
    [([3], "Layer 3, all heads"), ([9, 0, 1, 2, 3, 4, 5], "Layers 0–5, 9, all heads")],
)
def test_chosen_layers_are_named(animal, layers, shown):
    assert shown in render_text(build_report(animal, layers=layers), Terminal(80))


def test_a_token_that_drew_from_itself(animal):
    shown = render_text(build_report(animal, token=0), Terminal(80))
    assert "⟦The⟧ drew most from itself: 100.0% of its incoming contribution" in shown


def test_the_measure_is_named(animal):
    shown = render_text(build_report(animal, token=" it", by="attention"), Terminal(80))
    assert "⟦it⟧ drew most from The (token 0): 56.4% of its attention" in shown
    assert "Where ⟦it⟧ drew from, by attention" in shown


def test_contributions_that_are_not_known_are_dashes(animal):
    unknown = dataclasses.replace(animal, projection_known=False)
    shown = render_text(build_report(unknown, token=" it", by="attention"), Terminal(80))
    assert "On the first token, The, rests 56.4% of its attention\n" in shown
    assert "    0     0  The            0   0.751             –   1.9%" in shown


def test_a_model_without_an_origin(animal):
    bare = dataclasses.replace(animal, model_name="Llama", weights_origin="")
    assert render_text(build_report(bare), Terminal(80)).startswith("Llama\n")


def test_folding_is_said(thousand, animal):
    said = "… folds a stretch without a large share; --json has every token."
    assert said in render_text(build_report(thousand), Terminal(80))
    assert said not in render_text(build_report(animal), Terminal(80))
