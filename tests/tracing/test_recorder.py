"""The recording tap: what it copies, for which sequence, and in how many allocations."""

import pytest
import torch

from clearhead.errors import TraceError
from clearhead.masks import Mask
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tap import Site, attend, tapping, visit
from clearhead.tracing.recorder import KEEPABLE, Recorder, SequencePart
from clearhead.tracing.trace import trace

SITES = [Site(layer, "self", f"layer {layer}") for layer in range(3)]
CPU = torch.device("cpu")


def recorded(parts, generator, *, layers=None, keep=(), sites=SITES, rule=None, device=CPU):
    """Three small layers seen by a recorder, and what passed."""
    recorder = Recorder(parts, layers=layers, keep=keep, layer_count=3, device=device)
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
