"""A survey says of every token what ``sources``, ``weights`` and ``pooled`` say, in one pass."""

import math

import pytest
import torch
from torch.testing import assert_close

from clearhead.errors import InputError, NotKeptError
from clearhead.tracing.survey import KINDS, survey
from clearhead.tracing.trace import trace
from tests.tracing.shapes import ALONE, drawn

IDS = [5, 6, 7, 8, 5, 6, 9, 9, 3, 5]


@pytest.fixture(params=ALONE)
def traced(request, seeded_weights):
    # in float64 a block of rows and one row differ by less than the float32 that is told
    return trace(drawn(ALONE[request.param]).double(), IDS)


@pytest.mark.parametrize("measure", ["contribution", "attention"])
def test_every_row_has_the_shares_and_links_of_its_sources(traced, measure):
    found = survey(traced, links=5)
    for row in range(len(traced)):
        told = traced.sources(row, by=measure, top=5)
        assert_close(found.shares[measure][row], told.share)
        links = found.links[measure]
        shares = torch.tensor([link.share for link in told.strongest])
        assert_close(links.share[row, : len(shares)], shares)  # in order; equals may change places
        assert not bool(links.share[row, len(shares) :].any())
        assert float(found.first_token[row]) == pytest.approx(told.first_token_attention)


@pytest.mark.parametrize("measure", ["contribution", "attention"])
def test_a_link_says_what_its_head_and_source_say(traced, measure):
    links = survey(traced, links=5).links[measure]
    weights = torch.cat([layer.weights.to_dense() for layer in traced])
    lengths = weights * torch.cat([layer.value_norms for layer in traced])[:, None]
    measured = lengths if measure == "contribution" else weights
    row = torch.arange(len(traced))[:, None]
    share = measured[links.head, row, links.position] / measured.sum((0, 2))[:, None]
    assert_close(links.weight, weights[links.head, row, links.position].float())
    assert_close(links.length, lengths[links.head, row, links.position].float())
    assert_close(links.share, share.float())


def test_heads_have_their_own_rows(traced):
    found = survey(traced)
    for place, (layer, head) in enumerate(found.heads):
        weights = traced[layer].weights[head].to_dense()
        assert_close(found.top_weight[:, place], weights.max(-1).values.float())
        assert torch.equal(found.top_position[:, place], weights.max(-1).indices)
        brought = weights.double() * traced[layer].value_norms[head].double()
        whole = torch.stack(
            [
                (x.weights.to_dense().double() * x.value_norms[:, None].double()).sum((0, 2))
                for x in traced
            ]
        ).sum(0)
        assert_close(found.head_shares["contribution"][:, place], (brought.sum(-1) / whole).float())


def test_the_strongest_head_of_a_source_is_named(traced):
    found = survey(traced)
    lengths = torch.cat([x.weights.to_dense() * x.value_norms[:, None] for x in traced])
    named = lengths.gather(0, found.strongest["contribution"][None])[0]
    assert_close(named, lengths.max(0).values)


def test_maps_are_those_of_the_matrices(traced):
    found = survey(traced, map_size=4)
    for reduce in ("max", "sum"):
        pooled = [layer.weights.pooled(4, reduce=reduce) for layer in traced]
        assert torch.equal(found.maps[reduce].row_edges, pooled[0].row_edges)
        assert torch.equal(found.maps[reduce].column_edges, pooled[0].column_edges)
        assert_close(found.maps[reduce].values, torch.cat([x.values for x in pooled]).float())


def test_kinds_are_mean_weights_where_they_say(traced):
    found = survey(traced)
    dense = torch.cat([layer.weights.to_dense() for layer in traced]).double()
    first = dense[:, 1:, 0].mean(1)
    previous = torch.stack([dense[:, i, i - 1] for i in range(1, len(IDS))]).mean(0)
    rows = [i for i in range(len(IDS)) if IDS[i] in IDS[:i]]
    induction = torch.stack(
        [sum(dense[:, i, p + 1] for p in range(i) if IDS[p] == IDS[i]) for i in rows]
    ).mean(0)
    for kind, expected in zip(KINDS, (first, previous, induction), strict=True):
        assert_close(found.kinds[kind], expected.float())


def test_some_rows_are_those_of_all(traced):
    whole, some = survey(traced), survey(traced, rows=[7, -1, 2])
    assert some.rows == (2, 7, 9)
    for measure in whole.shares:
        assert_close(some.shares[measure], whole.shares[measure][[2, 7, 9]])
    assert_close(some.top_weight, whole.top_weight[[2, 7, 9]])


def test_some_layers_sum_alone(traced):
    found = survey(traced, layers=[1])
    assert {layer for layer, _ in found.heads} == {1}
    assert_close(found.shares["attention"][4], traced.sources(4, by="attention", layers=[1]).share)


def test_kept_queries_alone_can_be_surveyed(seeded_weights):
    model = drawn(next(iter(ALONE.values()))).double()
    whole, tail = survey(trace(model, IDS)), survey(trace(model, IDS, queries=slice(-3, None)))
    assert tail.rows == (7, 8, 9)
    assert_close(tail.shares["contribution"], whole.shares["contribution"][-3:])
    told = r"the rows of tokens 0, 1 were not kept: trace again with queries=None or a slice that "
    with pytest.raises(NotKeptError, match=f"{told}holds them"):
        survey(trace(model, IDS, queries=slice(-3, None)), rows=[0, 1])


def test_blocks_do_not_matter(traced, monkeypatch):
    whole = survey(traced)
    monkeypatch.setattr("clearhead.tracing.survey._AT_ONCE", 1)
    told = []
    rows = survey(traced, progress=lambda done, of: told.append((done, of)))
    assert told == [(place, len(IDS)) for place in range(1, len(IDS) + 1)]
    for measure, share in whole.shares.items():
        assert_close(rows.shares[measure], share)
    assert_close(rows.maps["max"].values, whole.maps["max"].values)


def test_without_w_o_attention_is_surveyed_alone(traced, monkeypatch):
    for layer in traced:
        monkeypatch.setitem(vars(layer), "projection", None)
    found = survey(traced)
    assert set(found.shares) == set(found.links) == {"attention"}
    assert bool(found.links["attention"].length.isnan().all())
    assert math.isclose(float(found.shares["attention"][3].sum()), 1.0, rel_tol=1e-5)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"layers": []}, "layers must name at least one layer to look at, got none"),
        ({"rows": []}, "rows must name at least one token, got none"),
        ({"rows": [10]}, r"rows must hold places of the 10 tokens, got 10"),
        ({"rows": [1.5]}, r"rows must hold integers, got \[1.5\]"),
    ],
)
def test_what_cannot_be_surveyed_is_refused(traced, given, told):
    with pytest.raises(InputError, match=told):
        survey(traced, **given)
