"""The values of a page are the trace's numbers, and say what they leave out."""

import json

import numpy as np
import pytest

from clearhead.report.build import build_report
from clearhead.report.page import values as values_file
from clearhead.report.page.values import page_values
from clearhead.tracing.survey import survey
from clearhead.tracing.trace import trace
from tests.report.page.reading_back import unpacked
from tests.tracing.shapes import ALONE, drawn

IDS = [5, 6, 7, 8, 5, 6, 9, 9, 3, 5]


@pytest.fixture(params=ALONE)
def traced(request, seeded_weights):
    return trace(drawn(ALONE[request.param]), IDS)


def made(traced, **given):
    return unpacked(page_values(traced, build_report(traced), **given).to_json())


def test_every_row_has_its_sources_or_their_bound(traced):
    found, values = survey(traced), made(traced)
    sources = values["sources"]
    for row in range(len(IDS)):
        listed = slice(sources["start"][row], sources["start"][row + 1])
        positions = sources["position"][listed]
        rest = np.setdiff1d(np.arange(len(IDS)), positions)
        for measure, shares in found.shares.items():
            assert (sources[measure][listed] == shares[row].numpy()[positions]).all()
            assert (shares[row].numpy()[rest] < sources["below"][row]).all()
            heads = found.strongest[measure][row].numpy()[positions]
            assert (sources[f"{measure}_head"][listed] == heads).all()


def test_heads_links_and_maps_are_the_surveys(traced):
    found, values = survey(traced, links=32), made(traced)  # of equal links, the same eight
    assert [(h["layer"], h["head"]) for h in values["heads"]] == list(found.heads)
    for measure, share in found.head_shares.items():
        assert (values["head_share"][measure] == share.numpy().round(7)).all()
    for measure, links in found.links.items():
        for name in links.__slots__:
            assert (values["links"][measure][name] == getattr(links, name)[:, :8].numpy()).all()
    assert (values["top"]["weight"] == found.top_weight.numpy()).all()
    assert (values["top"]["position"] == found.top_position.numpy()).all()
    assert (values["first_token"] == found.first_token.numpy()).all()
    for reduce, pooled in found.maps.items():
        assert (values["maps"][reduce] == pooled.values.numpy()).all()


def test_as_many_links_travel_as_were_asked_for(traced):
    values = unpacked(page_values(traced, build_report(traced, top=20)).to_json())
    assert values["links"]["attention"]["share"].shape[1] == min(
        20, len(values["heads"]) * len(IDS)
    )


def test_strong_links_are_far_ones_strongest_first(traced):
    strong = made(traced)["strong"]
    assert all(link["position"] not in (0, link["row"]) for link in strong)
    shares = [link["share"] for link in strong]
    assert shares == sorted(shares, reverse=True)
    for link in strong[:20]:
        layer, head = survey(traced).heads[link["head"]]
        weight = traced[layer].weights[head, link["row"], link["position"]]
        assert link["weight"] == pytest.approx(float(weight), rel=1e-5)


def test_lists_are_the_same_numbers(traced):
    values = page_values(traced, build_report(traced), command="clearhead look x")
    plain, packed = values.listed(), unpacked(values.to_json())
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    again = np.array(plain["head_share"]["attention"], dtype=np.float32)
    assert (again == packed["head_share"]["attention"]).all()
    assert plain["command"] == packed["command"] == "clearhead look x"
    assert plain["look"] == packed["look"]
    assert plain["left_out"] == []


def test_without_w_o_nothing_is_said_of_contributions(traced, monkeypatch):
    for layer in traced:
        monkeypatch.setitem(vars(layer), "projection", None)
    report = build_report(traced, by="attention")
    values = unpacked(page_values(traced, report).to_json())
    assert values["sources"]["contribution"] is values["sources"]["contribution_head"] is None
    assert values["head_share"]["contribution"] is values["links"]["contribution"] is None
    assert all(step["value_norm"] is step["projection"] is None for step in values["steps"])


def test_rows_next_to_the_token_are_taken_of_a_long_text(traced, monkeypatch):
    monkeypatch.setattr(values_file, "MOST_ROWS", 4)
    report = build_report(traced, token=5)
    values = unpacked(page_values(traced, report).to_json())
    assert values["rows"] == [3, 4, 5, 6]
    assert values["left_out"][0] == (
        "6 of 10 tokens cannot be chosen here: their rows are not in this page, or were not kept."
    )


def test_a_long_text_keeps_the_columns_that_matter(traced, monkeypatch):
    monkeypatch.setattr(values_file, "_SHORT", 4)
    monkeypatch.setattr(values_file, "_MOST_COLUMNS", 3)
    monkeypatch.setattr(values_file, "MOST_ROWS", 2)
    monkeypatch.setattr(values_file, "_LINKS", 1)
    values = made(traced)
    columns = values["columns"].tolist()
    assert columns == sorted(columns)
    assert set(values["rows"]) <= set(columns)
    for step in values["steps"]:
        assert len(values["keys"][step["key"]]) == len(step["value_norm"]) == len(columns)
    assert (
        values["left_out"][-1]
        == (f"Step by step, {len(columns)} of 10 keys are shown: those that most is drawn from.")
        or len(columns) == 10
    )


def test_sources_are_fewer_where_there_are_too_many(traced, monkeypatch):
    monkeypatch.setattr(values_file, "_MOST_SOURCES", 20)
    sources = made(traced)["sources"]
    assert sources["start"][-1] == len(sources["position"]) <= 20
    kept = {name: sources[name] for name in ("contribution", "attention")}
    assert all(sources["below"] <= 1)
    for row in range(len(IDS)):
        listed = slice(sources["start"][row], sources["start"][row + 1])
        largest = np.maximum(kept["contribution"][listed], kept["attention"][listed])
        assert (largest >= sources["below"][row]).all() or not len(largest)


def test_no_page_grows_past_its_room(traced, monkeypatch):
    monkeypatch.setattr(values_file, "_MOST_BYTES", (0, 0))
    values = made(traced)
    assert len(values["steps"]) == 1
    heads = len(values["heads"])
    told = (
        f"{heads - 1} of {heads} heads are not shown step by step; of these the page holds the "
        "pooled map, and each token's share and strongest source."
    )
    assert values["left_out"] == [told]
