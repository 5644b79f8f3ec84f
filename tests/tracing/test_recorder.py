"""The recording tap: what it copies, for which sequence, and in how many allocations."""

import pytest
import torch

from clearhead.errors import TraceError
from clearhead.masks import Mask
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tap import Site, attend, tapping, visit
from clearhead.positions.bias import AlibiBias, T5RelativeBias
from clearhead.tracing.recorder import KEEPABLE, Recorder, SequencePart
from clearhead.tracing.trace import trace

SITES = [Site(layer, "self", f"layer {layer}") for layer in range(3)]
CPU = torch.device("cpu")


def recorded(
    parts, generator, *, layers=None, keep=(), sites=SITES, rule=None, device=CPU, kind=None
):
    """Three small layers seen by a recorder, and what passed."""
    recorder = Recorder(parts, layers=layers, keep=keep, layer_count=3, device=device, kind=kind)
    rule = ScoreRule() if rule is None else rule
    passed = {}
    for site in sites:
        query = torch.randn(2, 4, 5, 8, generator=generator)
        key, value = (torch.randn(2, 2, 5, 8, generator=generator) for _ in range(2))
        x, out = (torch.randn(2, 5, 6, generator=generator) for _ in range(2))
        with tapping(recorder):
            assert visit(site, "attention_input", x) is x
            result = attend(query, key, value, rule=rule, site=site)
            visit(site, "output", out)
        passed[site] = {
            "attention_input": x,
            "query": query,
            "key": key,
            "value": value,
            "logsumexp": result.logsumexp,
            "context": result.context,
            "output": out,
        }
    return recorder, passed


def test_places_of_queries_are_counted_among_the_real_tokens():
    tokens, queries = torch.tensor([2, 3, 4]), torch.tensor([0, 2])
    assert SequencePart(0, None, None).query_places() is None
    assert SequencePart(0, tokens, None).query_places() is tokens
    assert SequencePart(0, None, queries).query_places() is queries
    assert SequencePart(0, tokens, queries).query_places().tolist() == [2, 4]


@pytest.mark.parametrize("keep", [(), KEEPABLE])
def test_each_sequence_gets_its_own_part(keep, generator):
    tokens, queries = torch.tensor([1, 2, 4]), torch.tensor([2, 0])
    parts = [SequencePart(1, tokens, queries), SequencePart(0, None, None)]
    recorder, passed = recorded(parts, generator, keep=keep)
    for site, values in passed.items():
        narrow, whole = (kept[site].tensors for kept in recorder.recorded)
        assert set(narrow) == set(whole) == {"query", "key", "value", "logsumexp", *keep}
        for name in whole:
            assert torch.equal(whole[name], values[name][0])
            rows = tokens if name in ("key", "value") else tokens[queries]
            axis = 0 if name in ("attention_input", "output") else 1
            assert torch.equal(narrow[name], values[name][1].index_select(axis, rows))


def test_only_chosen_layers_are_kept_and_every_layer_is_seen(generator):
    recorder, _ = recorded([SequencePart(0, None, None)], generator, layers={1}, keep=KEEPABLE)
    assert list(recorder.recorded[0]) == [SITES[1]]
    assert recorder.seen == set(SITES)


def test_a_layer_that_comes_twice_is_refused(generator):
    with pytest.raises(TraceError) as caught:
        recorded([SequencePart(0, None, None)], generator, sites=[SITES[0], SITES[0]])
    assert str(caught.value) == (
        "layer 0 attends more than once in one run: calls of one module (shared weights, attention "
        "in parts) are not told apart, so this model cannot be traced"
    )


@pytest.mark.parametrize("tokens", [None, torch.tensor([1, 2])])
@pytest.mark.parametrize("queries", [None, torch.tensor([1])])
def test_the_rule_lies_where_the_trace_does(tokens, queries, generator):
    rule = ScoreRule(
        bias=torch.randn(2, 1, 5, 5, generator=generator),
        mask=Mask.from_tensor(torch.ones(2, 1, 5, 5, dtype=torch.bool)),
        sinks=torch.randn(4, generator=generator),
    )
    part = SequencePart(1, tokens, queries)
    recorder, _ = recorded([part], generator, rule=rule, device=torch.device("meta"))
    for kept in recorder.recorded[0].values():
        for bound in (kept.bound, kept.of_all):
            assert {bound.bias.device.type, bound.sinks.device.type} == {"meta"}
            assert bound.mask.device.type == "meta"
        assert {tensor.device.type for tensor in kept.tensors.values()} == {"meta"}


@pytest.mark.parametrize("queries", [None, slice(-2, None)])
@pytest.mark.parametrize("keep", [(), ("context",), ("output",), KEEPABLE])
def test_a_trace_is_one_allocation(keep, queries, tiny_llama, tiny_gpt2, tiny_bert, ids):
    for model in (tiny_llama, tiny_gpt2, tiny_bert):
        found = trace(model, ids, keep=keep, queries=queries)
        kept = {
            tensor.untyped_storage().data_ptr()
            for layer in found
            for name, tensor in layer.recorded.tensors.items()
            if name != "value_norms"
        }
        assert len(kept) == 1


# --------------------------------------------------------------------- two sequences, other kinds


def test_the_keys_of_a_source_are_its_own():
    own, source = SequencePart(0, None, None), SequencePart(0, torch.tensor([1, 2]), None)
    assert own.key_places() is None
    assert source.key_places() is source.tokens
    across = SequencePart(0, None, torch.tensor([3]), source)
    assert across.key_places() is source.tokens
    assert across.query_places().tolist() == [3]
    assert [part.whole for part in (own, source, across)] == [True, False, False]
    assert SequencePart(0, None, None, own).whole
    assert not SequencePart(0, None, None, source).whole


def test_keys_and_values_are_those_of_the_source(generator):
    source = SequencePart(1, torch.tensor([0, 3]), None)
    recorder, passed = recorded([SequencePart(1, None, torch.tensor([4]), source)], generator)
    for site, values in passed.items():
        kept = recorder.recorded[0][site]
        assert torch.equal(kept.tensors["query"], values["query"][1][:, [4]])
        assert torch.equal(kept.tensors["key"], values["key"][1][:, [0, 3]])
        assert torch.equal(kept.tensors["value"], values["value"][1][:, [0, 3]])
        assert (kept.bound.queries, kept.bound.keys) == (1, 2)
        assert (kept.of_all.queries, kept.of_all.keys) == (5, 2)


def test_sites_of_another_kind_pass(generator):
    sites = [Site(0, kind, kind) for kind in ("encoder", "self", "cross")]
    part = SequencePart(0, None, None)
    recorder, _ = recorded([part], generator, sites=sites, kind="cross", keep=KEEPABLE)
    assert recorder.seen == set(recorder.recorded[0]) == {sites[2]}


@pytest.mark.parametrize("tokens", [None, torch.tensor([1, 2])])
def test_a_learned_bias_and_sinks_are_the_traces_own(tokens, generator):
    bias, sinks = T5RelativeBias(4, buckets=8, max_distance=20), torch.zeros(4, requires_grad=True)
    rule = ScoreRule(bias=bias, sinks=sinks)
    recorder, _ = recorded([SequencePart(0, tokens, None)], generator, rule=rule)
    with torch.no_grad():
        bias.weight.add_(1.0)
        sinks.add_(1.0)
    for kept in recorder.recorded[0].values():
        for bound in (kept.bound, kept.of_all):
            tile = bound.bias_tile(range(bound.queries), range(bound.keys))
            assert tile.shape == (1, 4, bound.queries, bound.keys)
            assert not tile.any()
            assert not bound.sinks.any()
            assert not tile.requires_grad
            assert not bound.sinks.requires_grad
    assert bias.weight.requires_grad


@pytest.mark.parametrize("tokens", [None, torch.tensor([1, 2])])
@pytest.mark.parametrize("made", [AlibiBias, T5RelativeBias])
def test_a_bias_by_position_lies_where_the_trace_does(made, tokens, generator):
    meta, part = torch.device("meta"), SequencePart(0, tokens, None)
    recorder, _ = recorded([part], generator, rule=ScoreRule(bias=made(4)), device=meta)
    for kept in recorder.recorded[0].values():
        bound = kept.bound
        tile = bound.bias_tile(range(bound.queries), range(bound.keys), device=meta)
        assert tile.device.type == "meta"
