"""Sources: the formula by hand, shares that sum to 1, segments, tables."""

import sys
from dataclasses import replace

import pytest
import torch

from clearhead.errors import InputError, NotKeptError, TokenError, UnsupportedError
from clearhead.tracing.sources import head_norms, measure_sources, segment_names, segment_shares
from clearhead.tracing.trace import trace
from tests.tracing.families import TRACED, made

MEASURES = ("contribution", "attention")


@pytest.fixture(params=["llama", "mistral", "gpt2", "bert", "gemma2", "gpt_oss", "deepseek_v3"])
def model(request, seeded_weights):
    return made(TRACED[request.param])


def by_hand(found, target, *, by="contribution", layers=None):
    """‖A · v · W_O‖ of every layer, head and position, in float64, head by head."""
    rows = []
    for number in found.layers if layers is None else layers:
        layer = found[number]
        heads, group = len(layer.query), len(layer.query) // len(layer.key)
        weights = layer.weights.to_dense().double()
        for head in range(heads):
            value = layer.value[head // group].double()
            d_v = value.shape[1]
            slice_ = layer.projection.weight.double()[:, head * d_v : (head + 1) * d_v]
            brought = weights[head, target][:, None] * (value @ slice_.T)
            rows.append(brought.norm(dim=-1) if by == "contribution" else weights[head, target])
    return torch.stack(rows)


@pytest.mark.parametrize("by", MEASURES)
def test_shares_are_the_sums_by_hand(by, model, ids):
    found = trace(model, ids)
    for target in (0, 4, 10):
        links = by_hand(found, target, by=by)
        sources = found.sources(target, by=by)
        assert sources.share.shape == (11,)
        assert sources.share.sum() == pytest.approx(1, abs=1e-6)
        assert (sources.share - links.sum(0) / links.sum()).abs().max() < 1e-5


@pytest.mark.parametrize("by", MEASURES)
def test_the_strongest_links_are_those_by_hand(by, model, ids):
    found = trace(model, ids)
    brought, weights = (by_hand(found, 7, by=measure) for measure in MEASURES)
    measured = {"contribution": brought, "attention": weights}[by]
    strongest = found.sources(7, by=by, top=6).strongest
    assert len(strongest) == 6
    assert [link.share for link in strongest] == sorted(
        (link.share for link in strongest), reverse=True
    )
    expected = measured.flatten().topk(6).values / measured.sum()
    assert [link.share for link in strongest] == pytest.approx(expected.tolist(), rel=1e-4)
    for link in strongest:
        row = link.layer * found.heads + link.head
        assert link.weight == pytest.approx(float(weights[row, link.source]), rel=1e-4)
        assert link.contribution == pytest.approx(float(brought[row, link.source]), rel=1e-4)


@pytest.mark.parametrize("by", MEASURES)
def test_only_chosen_layers_are_summed(by, model, ids):
    found = trace(model, ids)
    for layers in ([1], [1, 0], (0, 1)):
        sources = found.sources(by=by, layers=layers)
        as_slice = found.sources(by=by, layers=slice(min(layers), max(layers) + 1))
        assert (sources.share - as_slice.share).abs().max() < 1e-6
        links = by_hand(found, 10, by=by, layers=layers)
        assert sources.layers == tuple(layers)
        assert (sources.share - links.sum(0) / links.sum()).abs().max() < 1e-5
        assert {link.layer for link in sources.strongest} <= set(layers)


def test_a_causal_token_draws_from_nothing_later(tiny_llama, ids):
    found = trace(tiny_llama, ids)
    sources = found.sources(4, top=1000)
    assert not sources.share[5:].any()
    # links that bring nothing are not named
    assert len(sources.strongest) == 3 * 4 * 5
    assert found.sources(0).share.tolist() == [1.0] + [0.0] * 10
    assert {link.source for link in found.sources(0).strongest} == {0}


def test_the_first_tokens_attention_is_the_mean_over_layers_and_heads(model, ids):
    found = trace(model, ids)
    expected = torch.stack([layer.weights.to_dense()[:, 8, 0] for layer in found]).mean()
    for by in MEASURES:
        assert found.sources(8, by=by).first_token_attention == pytest.approx(float(expected))


def test_sources_say_whose_they_are(text_model):
    found = trace(text_model, "he saw he")
    sources = found.sources("he")
    assert (sources.target, sources.target_occurrences, sources.by) == (6, 2, "contribution")
    assert sources.tokens == found.tokens
    assert found.sources().target == len(found) - 1
    assert found.sources(1).target_occurrences == 1
    assert found.sources(-1, by="attention").by == "attention"
    with pytest.raises(TokenError):
        found.sources("she")


def test_a_trace_of_one_query_gives_that_tokens_sources(model, ids):
    whole, narrow = trace(model, ids).sources(6), trace(model, ids, queries=[6]).sources(6)
    assert (whole.share - narrow.share).abs().max() < 1e-6


@pytest.mark.parametrize("top", [0, -1, 3, 10**6])
def test_as_many_links_are_named_as_asked_for(top, tiny_llama, ids):
    assert len(trace(tiny_llama, ids).sources(top=top).strongest) == min(max(top, 0), 3 * 4 * 11)


def test_layers_may_have_different_numbers_of_heads(tiny_llama, tiny_gpt2, ids):
    one, two = trace(tiny_llama, ids)[0], trace(tiny_gpt2, ids)[1]
    narrow = trace(tiny_llama, ids)[1]
    narrow.recorded.tensors.update(
        {name: narrow.recorded.tensors[name][:2] for name in ("query", "logsumexp", "value_norms")}
    )
    narrow.recorded.tensors.update(
        {name: narrow.recorded.tensors[name][:1] for name in ("key", "value")}
    )
    layers = {0: one, 5: narrow, 7: two}
    measured = measure_sources(layers, row=10, by="contribution", top=10**6)
    assert measured.share.sum() == pytest.approx(1, abs=1e-6)
    heads = {(link.layer, link.head) for link in measured.strongest}
    assert heads == {(0, h) for h in range(4)} | {(5, 0), (5, 1)} | {(7, h) for h in range(4)}


def test_a_measure_that_is_none_is_an_error(tiny_llama, ids):
    found = trace(tiny_llama, ids)
    with pytest.raises(InputError) as caught:
        found.sources(by="gradient")
    assert str(caught.value) == "by must be 'contribution' or 'attention', got 'gradient'"
    with pytest.raises(InputError) as caught:
        found.sources(layers=[])
    assert str(caught.value) == "layers must name at least one layer to sum, got none"
    with pytest.raises(NotKeptError):
        found.sources(layers=[3])
    with pytest.raises(InputError) as caught:
        found.sources(layers=1)
    assert str(caught.value) == (
        "layers must be a slice or a collection of integers, got 1; "
        "give layers=[1] for that one alone"
    )
    with pytest.raises(InputError) as caught:
        found.sources(layers=[True])
    assert str(caught.value) == "layers must hold integers, got [True]"


def test_without_an_output_projection_attention_is_still_measured(tiny_llama, ids):
    linear = tiny_llama.model.layers[1].self_attn.o_proj
    tiny_llama.model.layers[1].self_attn.o_proj = torch.nn.Sequential(torch.nn.Dropout1d(), linear)
    tiny_llama.model.layers[1].self_attn.o_proj[0].forward = lambda x: x / 2
    found = trace(tiny_llama, ids)
    sources = found.sources(by="attention", top=10**6)
    assert sources.share.sum() == pytest.approx(1, abs=1e-6)
    unknown = {link.layer for link in sources.strongest if link.contribution != link.contribution}
    assert unknown == {1}
    assert found.sources(layers=[0, 2]).share.sum() == pytest.approx(1, abs=1e-6)
    with pytest.raises(NotKeptError) as caught:
        found.sources()
    assert str(caught.value) == (
        "contributions of layer 1 (model.layers.1.self_attn) cannot be made: there is no one "
        "linear layer that alone was handed this layer's context as it is, so W_O is not known; "
        "context, weights and sources(by='attention') are"
    )


def test_unknown_norms_lie_where_the_trace_does(tiny_llama, ids):
    layer = trace(tiny_llama, ids)[1]
    tensors = {name: tensor.to("meta") for name, tensor in layer.recorded.tensors.items()}
    moved = replace(layer, recorded=replace(layer.recorded, tensors=tensors), projection=None)
    norms = head_norms(moved, required=False)
    assert norms.device.type == "meta"
    assert norms.shape == (4, 11)


# ----------------------------------------------------------------------------------------- segments

SEGMENTS = {"passage 1": (1, 4), "passage 2": (4, 9), "nothing": (5, 5)}


def test_segments_sum_their_shares_and_the_rest_is_elsewhere(tiny_llama, ids):
    sources = trace(tiny_llama, ids).sources(segments=SEGMENTS)
    share = sources.share.double()
    assert list(sources.segments) == ["passage 1", "passage 2", "nothing", "elsewhere"]
    assert sources.segments["passage 1"] == pytest.approx(float(share[1:4].sum()))
    assert sources.segments["passage 2"] == pytest.approx(float(share[4:9].sum()))
    assert sources.segments["nothing"] == 0
    assert sum(sources.segments.values()) == pytest.approx(1, abs=1e-6)
    assert trace(tiny_llama, ids).sources().segments is None


def test_segments_may_overlap():
    share = torch.tensor([0.1, 0.2, 0.3, 0.4])
    segments = {"a": (0, 2), "b": (1, 3)}
    assert segment_shares(share, segments) == pytest.approx({"a": 0.3, "b": 0.5, "elsewhere": 0.4})
    assert segment_names(4, segments) == ("a", "a, b", "b", "elsewhere")


@pytest.mark.parametrize(
    ("name", "run"), [("a", (-1, 2)), ("a", (2, 1)), ("a", (0, 12)), ("elsewhere", (0, 2))]
)
def test_segments_that_do_not_fit_are_an_error(name, run, tiny_llama, ids):
    with pytest.raises(InputError) as caught:
        trace(tiny_llama, ids).sources(segments={"b": (0, 1), name: run})
    assert str(caught.value) == (
        "a segment must lie in [0, 11] and not be called 'elsewhere', "
        f"got {name!r}: ({run[0]}, {run[1]})"
    )


# ------------------------------------------------------------------------------------------- tables


def test_a_table_has_a_row_a_position(text_model):
    sources = trace(text_model, "he saw").sources(segments={"verb": (2, 6)})
    table = sources.to_pandas()
    assert list(table.columns) == ["position", "token", "share", "segment"]
    assert table["position"].tolist() == list(range(6))
    assert table["token"].tolist() == list(sources.tokens)
    assert table["share"].tolist() == sources.share.tolist()
    sums = table.groupby("segment")["share"].sum()
    assert sums.to_dict() == pytest.approx(sources.segments)
    plain = trace(text_model, "he saw").sources().to_pandas()
    assert list(plain.columns) == ["position", "token", "share"]


def test_without_pandas_a_table_says_how_to_get_it(tiny_llama, ids, monkeypatch):
    sources = trace(tiny_llama, ids).sources()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UnsupportedError) as caught:
        sources.to_pandas()
    assert str(caught.value) == (
        "to_pandas needs pandas: install it with pip install 'clearhead[pandas]'"
    )
