"""A trace of the end of a text, from a cache that holds its beginning."""

from dataclasses import replace

import pytest
import torch

import clearhead as ch
from clearhead.errors import InputError
from clearhead.tracing.models import traceable
from clearhead.tracing.trace import trace
from tests.accuracy import assert_double, plain_attention
from tests.tracing.closeness import assert_as_near
from tests.tracing.shapes import ACROSS, ALONE, dense_bias
from tests.tracing.taps import Reading, layers_of, run

DECODERS = [name for name, config in ALONE.items() if config.kind == "decoder"]
KEPT = ("query", "key", "value", "logsumexp", "context", "output", "value_norms")
READ, TOKENS = 12, 17


def cache_of(model, ids, *, read: int = READ, capacity: int = TOKENS):
    """A cache that holds the first tokens."""
    dtype = model.token_embedding.weight.dtype
    cache = ch.KVCache(model.config, batch=len(ids), capacity=capacity, dtype=dtype)
    if read:
        with torch.no_grad():
            model(ids[:, :read], cache=cache)
    return cache


@pytest.fixture
def text(generator):
    return torch.randint(3, 99, (1, TOKENS), generator=generator)


# ------------------------------------------------------------------------------------- its numbers


@pytest.mark.parametrize("name", DECODERS)
def test_it_has_the_numbers_of_a_trace_that_reads_everything(name, draw, text):
    model = draw(ALONE[name])
    found = trace(model, text, cache=cache_of(model, text))
    whole = trace(model, text, queries=slice(READ, None))
    truth = trace(model.double(), text, queries=slice(READ, None))
    assert found.queries.tolist() == whole.queries.tolist() == list(range(READ, TOKENS))
    assert found.token_ids == whole.token_ids
    assert found.causal
    assert_as_near(found.next_logits, whole.next_logits, truth.next_logits)
    for ours, peer, exact in zip(found, whole, truth, strict=True):
        assert not ours.same_bits
        for quantity in KEPT:
            assert_as_near(*(getattr(layer, quantity) for layer in (ours, peer, exact)))
        assert_as_near(*(layer.weights.to_dense() for layer in (ours, peer, exact)))
    for row in (READ, -1):
        for by in ("contribution", "attention"):
            shares = (one.sources(row, by=by).share for one in (found, whole, truth))
            assert_as_near(*shares)


@pytest.mark.parametrize("name", DECODERS)
def test_every_row_is_a_softmax_of_its_own_query_and_key(name, draw, text):
    model, reading = draw(ALONE[name]).double(), Reading()
    found = trace(model, text, cache=cache_of(model, text))
    run(traceable(model), text, reading)
    for site, layer in layers_of(found).items():
        rule = reading.rules[site]
        sizes = {"queries": TOKENS, "keys": TOKENS, "batch": 1, "heads": layer.query.shape[0]}
        bias = dense_bias(rule, (TOKENS, TOKENS))
        expected = plain_attention(
            *(layer.query, layer.key, layer.value),
            scale=rule.scale,
            softcap=rule.softcap,
            bias=None if bias is None else bias[0][:, READ:],
            allowed=rule.mask.to_dense(**sizes)[0][:, READ:],
            sinks=None if rule.sinks is None else rule.sinks.detach(),
        )
        assert_double(layer.weights.to_dense(), expected.weights, name="weights of a row")
        assert_double(layer.logsumexp, expected.logsumexp)
        assert_double(layer.context, expected.context, name="made again")


def test_one_token_is_enough_and_the_cache_then_holds_it_too(draw, text):
    model = draw(ALONE["Llama"])
    cache = cache_of(model, text, read=TOKENS - 1)
    found = trace(model, text, cache=cache)
    assert found.queries.tolist() == [TOKENS - 1]
    assert found.causal
    assert found[0].query.shape[1] == 1
    assert found[0].key.shape[1] == TOKENS
    assert found[0].weights.to_dense().shape == (4, 1, TOKENS)
    assert cache.lengths == (TOKENS,)
    cache.crop(READ)
    again = trace(model, text, cache=cache)
    assert (again[1].query[:, -1] - found[1].query[:, -1]).abs().max() < 1e-5


def test_an_empty_cache_spares_nothing_and_is_filled(draw, text):
    model = draw(ALONE["Llama"])
    cache = cache_of(model, text, read=0)
    found, plain = trace(model, text, cache=cache), trace(model, text)
    assert cache.lengths == (TOKENS,)
    assert found.queries.tolist() == list(range(TOKENS))
    assert torch.equal(found[0].query, plain[0].query)


@pytest.mark.parametrize(
    ("queries", "expected"), [(slice(-2, None), [15, 16]), ([16, 13], [16, 13]), ([-1], [16])]
)
def test_queries_narrow_it_further(queries, expected, draw, text):
    model = draw(ALONE["Gemma"])
    whole = trace(model, text, cache=cache_of(model, text))
    found = trace(model, text, cache=cache_of(model, text), queries=queries, layers=[1])
    assert found.queries.tolist() == expected
    assert found.layers == (1,)
    places = [position - READ for position in expected]
    assert torch.equal(found[1].query, whole[1].query[:, places])
    assert (found[1].weights.to_dense() - whole[1].weights.to_dense()[:, places]).abs().max() < 1e-6
    assert found.causal


def test_a_cache_that_generation_filled_will_do(draw, text):
    model = draw(ALONE["Llama"])
    cache = cache_of(model, text, read=0)
    with torch.inference_mode():
        model(text[:, :READ], cache=cache)
    found = trace(model, text, cache=cache)
    assert not found[0].key.is_inference()
    assert found.queries.tolist() == list(range(READ, TOKENS))


# ---------------------------------------------------------------------------------- what is refused


def refused(model, ids, cache, **options) -> str:
    with pytest.raises(InputError) as raised:
        trace(model, ids, cache=cache, **options)
    return str(raised.value)


def test_earlier_rows_are_refused(draw, text):
    model = draw(ALONE["Llama"])
    assert refused(model, text, cache_of(model, text), queries=[3, 14]) == (
        "queries must choose tokens that are read now, 12 to 16: the cache holds those before; "
        "got [3, 14]"
    )


def test_a_cache_that_does_not_fit_is_refused_with_all_that_is_wrong(draw, text):
    model = draw(ALONE["Llama"])
    assert refused(model, text, [1, 2]) == "cache must be a clearhead KVCache, got list"
    assert refused(model, text[:, :READ], cache_of(model, text)) == (
        "cache: this text cannot be traced from where it ends: ids must be the whole text, that of "
        "the cache included, and at least one token more than the 12 it holds, got 12; "
        "cache.crop(length) forgets some"
    )
    assert refused(model, text, cache_of(model, text, capacity=READ)) == (
        "cache: this text cannot be traced from where it ends: it holds at most 12 tokens, and the "
        "text has 17: make it with a larger capacity"
    )
    two = torch.cat([text, text])
    assert refused(model, text, cache_of(model, two)) == (
        "cache: this text cannot be traced from where it ends: one sequence is traced, got 1 of "
        "ids and 2 of the cache"
    )


def test_the_cache_of_another_model_is_refused(draw, text):
    model, other = draw(ALONE["Llama"]), draw(ALONE["NeoX"])
    assert "cache must be made from this model's config" in refused(
        model, text, cache_of(other, text)
    )


def test_a_window_that_moved_on_is_refused(draw, generator):
    model = draw(replace(ALONE["Gemma"], context_length=None))
    ids = torch.randint(3, 99, (1, 330), generator=generator)
    cache = ch.KVCache(model.config, capacity=330)
    with torch.no_grad():
        model(ids[:, :320], cache=cache)
        model(ids[:, 320:325], cache=cache)
    assert refused(model, ids, cache) == (
        "cache: this text cannot be traced from where it ends: a layer with a window of 4 keys "
        "forgets those it can no longer reach: trace without cache="
    )


def test_a_model_that_reads_no_cache_of_ours_is_refused(tiny_llama, draw, ids, text):
    cache = cache_of(draw(ALONE["Llama"]), text)
    assert refused(tiny_llama, text, cache) == (
        "cache: this text cannot be traced from where it ends: LlamaForCausalLM reads no KVCache: "
        "trace it without cache="
    )


def test_what_is_no_single_text_is_refused(draw, text, text_model):
    model = draw(ALONE["Llama"])
    cache = cache_of(model, text)
    told = "cache: one text is traced from a cache, without "
    assert refused(model, text, cache, attention_mask=torch.ones_like(text)) == (
        f"{told}attention_mask="
    )
    assert refused(model, text, cache, target=[1]) == f"{told}target="
    assert refused(text_model, ["he", "he"], cache) == f"{told}a list of texts"
    across = draw(ACROSS["T5"])
    assert refused(across, text, cache, target=[1]) == (f"{told}an encoder-decoder and target=")
