"""A trace writes its page, of the token that was asked for, and refuses what it cannot show."""

import re

import pytest

from clearhead.errors import InputError, NotKeptError, TokenError
from clearhead.report.build import build_report
from clearhead.report.page import write_report
from clearhead.tracing.survey import survey
from clearhead.tracing.trace import trace
from tests.report.page.reading_back import unpacked
from tests.tracing.shapes import ALONE, drawn

IDS = [5, 6, 7, 8, 5, 6, 9, 9, 3, 5]


@pytest.fixture
def traced(seeded_weights):
    return trace(drawn(ALONE["Llama"]), IDS)


def values_in(path):
    return unpacked(re.search(r'id="values">(.*?)</script>', path.read_text("utf-8"))[1])


def test_a_trace_writes_its_page(traced, tmp_path):
    traced.report(tmp_path / "page.html")
    values = values_in(tmp_path / "page.html")
    assert values["look"]["strip"]["target"] == len(IDS) - 1
    assert values["rows"] == list(range(len(IDS)))


def test_what_is_asked_for_is_shown_first(traced, tmp_path):
    traced.report(tmp_path / "page.html", token=4, by="attention", layers={1}, top=3)
    look = values_in(tmp_path / "page.html")["look"]
    assert (look["strip"]["target"], look["strip"]["by"]) == (4, "attention")
    assert look["head"]["layers"] == [1]
    assert len(look["heads"]["rows"]) == 3


def test_the_last_kept_row_is_shown_where_none_is_asked_for(seeded_weights, tmp_path):
    kept = trace(drawn(ALONE["Llama"]), IDS, queries=[2, 6])
    kept.report(tmp_path / "page.html")
    values = values_in(tmp_path / "page.html")
    assert values["look"]["strip"]["target"] == 6
    assert values["rows"] == [2, 6]


def test_a_survey_that_is_there_is_used(traced, tmp_path):
    found = survey(traced, rows=[3, 9])
    made = write_report(
        traced, build_report(traced), tmp_path / "page.html", surveyed=found, command="a command"
    )
    values = values_in(tmp_path / "page.html")
    assert values["rows"] == made.tree["rows"] == [3, 9]
    assert values["command"] == "a command"


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"token": 10}, TokenError, r"token must be an index in \[-10, 10\), got 10"),
        ({"by": "length"}, InputError, "by: expected contribution or attention; got 'length'"),
        ({"layers": [7]}, InputError, "layers: expected some of 0-1; got 7"),
        ({"top": 0}, InputError, "top: expected at least 1; got 0"),
    ],
)
def test_what_cannot_be_shown_writes_nothing(given, error, told, traced, tmp_path):
    with pytest.raises(error, match=told):
        traced.report(tmp_path / "page.html", **given)
    assert list(tmp_path.iterdir()) == []


def test_a_row_that_was_not_kept_is_refused(seeded_weights, tmp_path):
    kept = trace(drawn(ALONE["Llama"]), IDS, queries=[2, 6])
    with pytest.raises(NotKeptError, match="the row of token 3 was not kept"):
        kept.report(tmp_path / "page.html", token=3)


def test_a_place_that_takes_no_page_is_refused_first(traced, tmp_path):
    with pytest.raises(InputError, match="No such file or directory"):
        traced.report(tmp_path / "none" / "page.html", token=99)
