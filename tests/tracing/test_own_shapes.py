"""Our own models of every shape: every row of A is the softmax that the model's rule makes."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from clearhead.tracing.models import traceable
from clearhead.tracing.trace import trace
from tests.accuracy import assert_double, plain_attention
from tests.tracing.largest import Largest
from tests.tracing.padding import padded
from tests.tracing.shapes import ACROSS, ALONE, dense_bias
from tests.tracing.taps import Reading, layers_of, run

TARGET = torch.tensor([[1, 50, 6, 7, 50]])


def by_rule(layer, rule, rows: Tensor, *, n: int):
    """The five steps on a trace's own Q and K, by a rule as the model wrote it for all n tokens."""
    m, heads = layer.key.shape[1], layer.query.shape[0]
    sizes = {"queries": n, "keys": m, "batch": 1, "heads": heads}
    allowed = None if rule.mask is None else rule.mask.to_dense(**sizes)
    bias = dense_bias(rule, (n, m))
    dense = {
        "bias": None if bias is None else bias[0][:, rows],
        "allowed": None if allowed is None else allowed[0][:, rows],
        "sinks": None if rule.sinks is None else rule.sinks.detach(),
    }
    kind = {"scale": rule.scale, "softcap": rule.softcap}
    return plain_attention(layer.query, layer.key, layer.value, **kind, **dense)


@pytest.fixture(params=ALONE)
def model(request, draw):
    return draw(ALONE[request.param]).double()


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("queries", [None, [-1, 2, 0]])
def test_every_row_is_a_softmax_of_its_own_query_and_key(side, queries, model, generator):
    ids, real = padded(generator, side=side)
    batch = trace(model, ids, attention_mask=real, queries=queries)
    for row, found in enumerate(batch):
        own, reading = ids[row, real[row].bool()][None], Reading()
        run(traceable(model), own, reading)
        for site, layer in layers_of(found).items():
            expected = by_rule(layer, reading.rules[site], found.queries, n=len(found))
            assert_double(layer.weights.to_dense(), expected.weights)
            assert_double(layer.scores.to_dense().clamp(min=-1e9), expected.scores.clamp(min=-1e9))


@pytest.mark.parametrize("name", ACROSS)
def test_so_it_is_in_an_encoder_decoder(name, draw, generator):
    model, (ids, real) = draw(ACROSS[name]).double(), padded(generator, side="left")
    for row, found in enumerate(trace(model, ids, target=TARGET[0], attention_mask=real)):
        own, reading = ids[row, real[row].bool()][None], Reading()
        run(traceable(model), TARGET, reading, source=own)
        for site, layer in layers_of(found).items():
            n = len(found.encoder if site.kind == "encoder" else found.decoder)
            expected = by_rule(layer, reading.rules[site], torch.arange(n), n=n)
            assert_double(layer.weights.to_dense(), expected.weights, name=site.kind)


@pytest.mark.parametrize("name", ["ALiBi", "T5's decoder", "sinks"])
def test_what_is_learned_after_a_trace_does_not_change_it(name, draw, ids):
    model = draw(ALONE[name])
    found = trace(model, ids)
    before = [layer.weights.to_dense() for layer in found]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    for layer, old in zip(found, before, strict=True):
        again = layer.weights.to_dense()
        assert torch.equal(again, old)
        assert not again.requires_grad
        assert not layer.context.requires_grad


@pytest.mark.parametrize("name", ["ALiBi", "T5's decoder", "an encoder with distances", "Llama 4"])
@pytest.mark.parametrize("side", [None, "left"])
def test_nothing_of_n_by_m_is_made_by_a_trace_or_by_what_it_is_asked(name, side, draw):
    n, config = 1536, replace(ALONE[name], context_length=None)
    model, ids, real = draw(config), torch.full((1, n), 7), torch.ones(1, n).long()
    if side:
        real[:, :100] = 0
    with Largest() as largest:
        (found,) = trace(model, ids, attention_mask=real)
        assert found.causal == (config.kind == "decoder")
        found.next_tokens()
        found.sources()
        for layer in found:
            layer.output, layer.weights[3, 700], layer.weights.entropy(), layer.scores[0, :, 5]
    # blocks of 256 rows are the most
    assert largest.nbytes <= 4 * config.heads * 256 * n < 4 * config.heads * n * n
