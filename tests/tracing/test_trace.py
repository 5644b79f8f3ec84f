"""`trace`: what it takes, what it keeps, and what it says when it cannot."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import clearhead as ch
from clearhead.errors import InputError, TokenError, TraceError
from clearhead.tokens.tokenizer import TextTokenizer
from clearhead.tracing.trace import trace
from tests.tokens.tiny import byte_level

QUANTITIES = ("query", "key", "value", "logsumexp")


def same(one, other) -> bool:
    """Whether two traces hold the same bits."""
    if one.token_ids != other.token_ids or one.layers != other.layers:
        return False
    pairs = [(one[at], other[at], name) for at in one.layers for name in QUANTITIES]
    logits = torch.equal(one.next_logits, other.next_logits)
    return logits and all(torch.equal(getattr(a, q), getattr(b, q)) for a, b, q in pairs)


# ------------------------------------------------------------------------------- what may be given


def test_ids_may_be_given_as_a_list_an_array_or_a_tensor(tiny_llama):
    ids = [5, 6, 7]
    plain = trace(tiny_llama, ids)
    for other in ((5, 6, 7), [ids], torch.tensor(ids), torch.tensor([ids]).int(), np.array(ids)):
        assert same(trace(tiny_llama, other), plain)


def test_a_text_is_its_tokens(text_model):
    words = text_model.clearhead_tokenizer
    found = trace(text_model, "hehe é")
    assert found.token_ids == tuple(words.encode("hehe é"))
    assert found.tokens == ("<s>", "he", "he", " ", "é[1/2]", "é[2/2]")
    assert same(trace(text_model, words.encode("hehe é")), found)


def test_chat_messages_go_through_the_template_and_begin_once(text_model):
    found = trace(text_model, [{"role": "user", "content": "he"}])
    assert "".join(found.tokens) == "<s>user: he\n"
    assert found.token_ids.count(0) == 1


def test_a_tokenizer_may_be_given(text_model):
    words = text_model.clearhead_tokenizer
    del text_model.clearhead_tokenizer
    for given in (words, byte_level(begins=True)):
        assert trace(text_model, "he", tokenizer=given).tokens == ("<s>", "he")
    assert trace(text_model, [0, 258]).tokens == ("0", "258")
    assert trace(text_model, [0, 258], tokenizer=words).tokens == ("<s>", "he")


def test_a_given_tokenizer_goes_before_the_models_own(text_model):
    own = TextTokenizer.wrap(byte_level())
    assert trace(text_model, "he", tokenizer=own).tokens == ("he",)


def test_a_list_of_texts_is_traced_text_by_text(text_model):
    texts = ["he", "a longer text", "é"]
    for given in (texts, tuple(texts)):
        found = trace(text_model, given)
        assert isinstance(found, list)
        for one, text in zip(found, texts, strict=True):
            assert same(one, trace(text_model, text))


def test_a_list_comes_back_for_more_than_one_row_and_for_a_mask(tiny_llama, ids):
    rows = torch.cat([ids, ids.flip(1)])
    assert isinstance(trace(tiny_llama, ids), ch.tracing.traced.Trace)
    for found, count in (
        (trace(tiny_llama, rows), 2),
        (trace(tiny_llama, ids, attention_mask=torch.ones_like(ids)), 1),
        (trace(tiny_llama, ids[0], attention_mask=torch.ones_like(ids[0])), 1),
        (trace(tiny_llama, rows, attention_mask=torch.ones_like(rows).bool()), 2),
    ):
        assert isinstance(found, list)
        assert len(found) == count


def test_our_own_transformer_gives_the_trace_of_transformers(tiny_llama, tmp_path, ids):
    tiny_llama.save_pretrained(tmp_path)
    own = ch.from_pretrained(tmp_path, engine="clearhead")
    assert same(trace(own, ids), trace(tiny_llama, ids))


# ------------------------------------------------------------------------------- what may be chosen


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (None, (0, 1, 2)),
        ([1], (1,)),
        ({2, 0}, (0, 2)),
        (range(1, 3), (1, 2)),
        (slice(-1, None), (2,)),
        (slice(None, None, 2), (0, 2)),
    ],
)
def test_layers_are_kept_as_chosen(layers, expected, tiny_llama, ids):
    whole, found = trace(tiny_llama, ids), trace(tiny_llama, ids, layers=layers)
    assert found.layers == expected
    for layer in expected:
        assert torch.equal(found[layer].query, whole[layer].query)
        assert torch.equal(found[layer].output, whole[layer].output)
    assert torch.equal(found.next_logits, whole.next_logits)


@pytest.mark.parametrize(
    ("queries", "expected"),
    [
        (slice(-3, None), [8, 9, 10]),
        (slice(None, None, 4), [0, 4, 8]),
        ([5, 2], [5, 2]),
        ([-1], [10]),
        (range(3), [0, 1, 2]),
        (torch.tensor([1, -1]), [1, 10]),
    ],
)
def test_queries_are_kept_as_chosen(queries, expected, tiny_llama, tiny_mistral, tiny_bert, ids):
    for model in (tiny_llama, tiny_mistral, tiny_bert):
        whole, found = trace(model, ids), trace(model, ids, queries=queries)
        assert found.queries.tolist() == expected
        assert found.causal == whole.causal
        for ours, all_rows in zip(found, whole, strict=True):
            assert torch.equal(ours.query, all_rows.query[:, expected])
            assert torch.equal(ours.logsumexp, all_rows.logsumexp[:, expected])
            assert torch.equal(ours.key, all_rows.key)
            weights = ours.weights.to_dense()
            assert (weights - all_rows.weights.to_dense()[:, expected]).abs().max() < 1e-6
            assert (ours.context - all_rows.context[:, expected]).abs().max() < 1e-5


def test_a_few_queries_cost_what_the_keys_and_values_cost(tiny_llama, ids):
    found = trace(tiny_llama, ids, queries=slice(-3, None))
    keys_and_values, norms = 2 * 2 * 11 * 8 * 4, 4 * 11 * 4
    rows = 3 * (4 * 8 * 4 + 4 * 4)
    assert found.nbytes == 3 * (keys_and_values + norms + rows)
    assert found.nbytes == sum(
        tensor.numel() * tensor.element_size()
        for layer in found
        for tensor in layer.recorded.tensors.values()
    )


def test_what_is_kept_is_what_passed(tiny_llama, ids):
    plain = trace(tiny_llama, ids)
    for name, size in (("attention_input", 32), ("context", 32), ("output", 32)):
        found = trace(tiny_llama, ids, keep=(name,))
        assert found.nbytes == plain.nbytes + 3 * 11 * size * 4
        assert same(found, plain)


def test_a_trace_lies_where_it_is_told_to(tiny_llama, ids):
    assert trace(tiny_llama, ids, device="cpu")[0].query.device.type == "cpu"
    with pytest.raises(InputError) as caught:
        trace(tiny_llama, ids, device="no such place")
    # the reason after it is PyTorch's
    said = "device: expected one of this machine, got 'no such place': "
    assert str(caught.value).startswith(said)


def test_a_trace_knows_what_made_it(text_model):
    text_model.clearhead_name, text_model.clearhead_origin = "tiny", "drawn, float32"
    found = trace(text_model, "he")
    assert (found.model_name, found.weights_origin) == ("tiny", "drawn, float32")
    assert found.context_length == 64
    assert found.seconds > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_trace_has_the_models_dtype(dtype, tiny_llama, ids):
    found = trace(tiny_llama.to(dtype), ids)
    assert {found[0].query.dtype, found[0].value.dtype, found[0].context.dtype} == {dtype}
    assert found[0].logsumexp.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    # a kernel's L of 16-bit inputs may be 5e-5 off
    assert (found[0].weights.to_dense().sum(-1) - 1).abs().max() < 1e-4
    assert found.next_logits.dtype == torch.float32


# ------------------------------------------------------------------------------------------- errors


def test_ids_beyond_the_vocabulary_leave_the_model_as_it_was(text_model):
    with pytest.raises(InputError) as caught:
        trace(text_model, [7, 300])
    assert str(caught.value) == "ids must lie in 0 … 299, got 7 … 300"
    assert text_model.config._attn_implementation == "sdpa"


def test_a_text_longer_than_the_context_is_refused_with_both_numbers(text_model):
    text_model.clearhead_name = "tiny"
    assert len(trace(text_model, "a" * 63)) == 64
    with pytest.raises(TokenError) as caught:
        trace(text_model, "a" * 1199)
    assert str(caught.value) == "the text has 1,200 tokens, and tiny reads at most 64"


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (
            {"keep": ("context", "scores", "weights")},
            InputError,
            "keep must name some of attention_input, context, output; got scores, weights",
        ),
        (
            {"keep": "context"},
            InputError,
            (
                "keep must be a collection of names, some of attention_input, context, output; "
                "got 'context'"
            ),
        ),
        (
            {"layers": 1},
            InputError,
            (
                "layers must be a slice or a collection of integers, got 1; "
                "give layers=[1] for that one alone"
            ),
        ),
        (
            {"queries": True},
            InputError,
            "queries must be a slice or a collection of integers, got True",
        ),
        (
            {"queries": torch.tensor([True, False, True])},
            InputError,
            (
                "queries must hold integers, got truth values: give the places where they are "
                "True, by .nonzero().flatten()"
            ),
        ),
        ({"queries": [0, 1.5]}, InputError, "queries must hold integers, got [0, 1.5]"),
        (
            {"layers": [0, 2, 7]},
            InputError,
            "layers must choose some of the model's 2 layers (0 to 1), got [2, 7]",
        ),
        (
            {"layers": []},
            InputError,
            "layers must choose some of the model's 2 layers (0 to 1), got []",
        ),
        (
            {"layers": slice(5, None)},
            InputError,
            "layers must choose some of the model's 2 layers (0 to 1), got slice(5, None, None)",
        ),
        ({"queries": [3]}, InputError, "queries must choose some of the 3 tokens, got [3]"),
        ({"queries": []}, InputError, "queries must choose some of the 3 tokens, got []"),
        (
            {"queries": slice(3, None)},
            InputError,
            "queries must choose some of the 3 tokens, got slice(3, None, None)",
        ),
    ],
)
def test_what_does_not_fit_the_ids_is_said(given, error, text, text_model):
    with pytest.raises(error) as caught:
        trace(text_model, [5, 6, 7], **given)
    assert str(caught.value) == text


def test_texts_take_no_mask(text_model):
    with pytest.raises(InputError) as caught:
        trace(text_model, ["he", "he"], attention_mask=torch.ones(2, 2).bool())
    assert str(caught.value) == "attention_mask belongs to token ids: texts are not padded here"


def test_what_is_no_model_is_refused():
    with pytest.raises(TraceError, match=r"SimpleNamespace cannot be traced"):
        trace(SimpleNamespace(), [1])
