"""The table of quantities, as a person and as a program read it."""

import dataclasses
import json

import pytest

from clearhead.quantities import QUANTITIES
from clearhead.report.glossary import glossary_json, render_glossary
from clearhead.report.terminal import Terminal
from clearhead.report.visible import cells


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_lines_fit(width):
    assert max(map(cells, render_glossary(Terminal(width)).splitlines())) <= width


def test_every_word_of_the_table_is_shown():
    shown = " ".join(render_glossary(Terminal(80)).split())
    for entry in QUANTITIES:
        for told in dataclasses.astuple(entry):
            assert " ".join(told.split()) in shown


def test_an_entry():
    shown = render_glossary(Terminal(80))
    assert (
        "A  weights  (heads, n, m)\n"
        "   Softmax of S: a row sums to 1 (less with a sink, 0 if everything is masked).\n"
        "   made by        exp(S − L)\n"
    ) in shown


def test_json_is_the_table():
    read = json.loads(glossary_json())
    assert read["format"] == "clearhead-quantities/1"
    assert read["quantities"] == [dataclasses.asdict(entry) for entry in QUANTITIES]
