"""A Trace as a whole: what it says of itself, and what it looks up."""

import pytest
import torch

from clearhead.errors import InputError, NotKeptError, TokenError
from clearhead.tracing.trace import trace
from tests.tracing.families import ENCODERS, TRACED, made
from tests.tracing.largest import Largest


def test_a_trace_is_its_layers_and_is_as_long_as_its_tokens(tiny_llama, ids):
    found = trace(tiny_llama, ids)
    assert len(found) == 11
    assert found.layers == (0, 1, 2)
    assert [layer.recorded.site.layer for layer in found] == [0, 1, 2]
    assert found[2].recorded.site.name == "model.layers.2.self_attn"
    assert found.heads == 4
    assert found.tokens == tuple(str(number) for number in ids[0].tolist())


def test_a_trace_says_how_large_it_is_and_how_large_the_matrices_would_be(tiny_llama, ids):
    found = trace(tiny_llama, ids)
    each = 11 * (4 * 8 * 4 + 2 * 2 * 8 * 4 + 4 * 4 + 4 * 4)  # Q, K and V, L, norms
    assert found.nbytes == 3 * each
    assert found.dense_nbytes == 3 * 4 * 11 * 11 * 4
    assert trace(tiny_llama.bfloat16(), ids, layers=[1]).dense_nbytes == 4 * 11 * 11 * 2
    assert repr(found) == f"Trace('LlamaForCausalLM', 11 tokens, layers 0–2, {3 * each:,} bytes)"
    assert repr(trace(tiny_llama, ids, layers=[0, 2])).startswith(
        "Trace('LlamaForCausalLM', 11 tokens, layers 0, 2, "
    )


def test_a_trace_grows_with_the_tokens_and_not_with_their_square(tiny_llama, generator):
    sizes = [
        trace(tiny_llama, torch.randint(3, 99, (1, n), generator=generator)).nbytes for n in (8, 64)
    ]
    assert sizes[1] == 8 * sizes[0]


@pytest.mark.parametrize("family", ["llama", "mistral", "bert", "gemma2"])
@pytest.mark.parametrize("side", [None, "left"])
def test_nothing_of_n_by_m_is_made_by_a_trace_or_by_what_it_is_asked(family, side, seeded_weights):
    n = 1536
    model = made(TRACED[family], max_position_embeddings=n)
    ids, real = torch.full((1, n), 7), torch.ones(1, n).long()
    if side:
        real[:, :100] = 0
    with Largest() as largest:
        (found,) = trace(model, ids, attention_mask=real)
        assert found.causal == (family != "bert")
        found.next_tokens()
        for by in ("contribution", "attention"):
            found.sources(by=by)
        for layer in found:
            layer.output, layer.weights[3, 700], layer.weights.entropy(), layer.scores[0, :, 5]
    # one byte an entry would be n² for each head; blocks of 256 rows of float32 are the most
    assert largest.nbytes <= 4 * 4 * 256 * n < 4 * n * n


@pytest.mark.parametrize("family", TRACED)
@pytest.mark.parametrize("length", [1, 2, 11, 60])
def test_a_causal_model_is_known_by_its_masks(family, length, seeded_weights, generator):
    model = made(TRACED[family])
    ids = torch.randint(3, 99, (1, length), generator=generator)
    expected = family not in ENCODERS
    assert trace(model, ids).causal == expected
    # the masks are asked for all tokens, whichever rows were kept
    for queries in ([-1, 0], [-1]):
        assert trace(model, ids, layers=[1], queries=queries).causal == expected


def test_one_layer_that_looks_ahead_makes_a_trace_not_causal(tiny_llama, ids):
    own = tiny_llama.model.layers[1].self_attn.forward

    def ahead(*args, attention_mask, **given):
        return own(*args, attention_mask=None, is_causal=False, **given)

    tiny_llama.model.layers[1].self_attn.forward = ahead
    found = trace(tiny_llama, ids)
    assert not found.causal
    assert found.next_tokens() == ()
    assert trace(tiny_llama, ids, layers=[0, 2]).causal


def test_a_layer_not_traced_says_how_to_trace_it(tiny_llama, ids):
    found = trace(tiny_llama, ids, layers=[0, 2])
    with pytest.raises(NotKeptError) as caught:
        found[1]
    assert str(caught.value) == (
        "layer 1 was not traced (this trace holds layers 0, 2): trace again with layers=[1, …] or "
        "layers=None, if the model has it"
    )


@pytest.mark.parametrize("layer", [-1, slice(0, 1), True, 1.0, "1", None, (0, 1)])
def test_a_layer_is_asked_for_by_its_number(layer, tiny_llama, ids):
    found = trace(tiny_llama, ids, layers=[0, 2])
    with pytest.raises(InputError) as caught:
        found[layer]
    assert str(caught.value) == (
        "a layer is asked for by its number, counted from 0 (this trace holds layers 0, 2), "
        f"got {layer!r}"
    )
    assert found[torch.tensor(2)] is found[2]


# -------------------------------------------------------------------------------------- next tokens


def test_next_tokens_are_the_likeliest_of_the_models_own_logits(tiny_llama, tiny_gpt2, ids):
    for model in (tiny_llama, tiny_gpt2):
        with torch.no_grad():
            expected = model(ids).logits[0, -1].double().softmax(-1).topk(4)
        found = trace(model, ids).next_tokens(4)
        assert [token.token_id for token in found] == expected.indices.tolist()
        assert [token.token for token in found] == [str(i) for i in expected.indices.tolist()]
        assert [token.probability for token in found] == pytest.approx(expected.values.tolist())


def test_next_tokens_are_spelled(text_model):
    found = trace(text_model, "he").next_tokens(300)
    assert len(found) == 300
    assert sum(token.probability for token in found) == pytest.approx(1)
    spelled = {token.token_id: token.token for token in found}
    assert (spelled[0], spelled[258], spelled[259]) == ("<s>", "he", " he")
    assert spelled[299] == "<299>"
    for wrong in (0, -1, 1.5, True, None):
        with pytest.raises(InputError) as caught:
            trace(text_model, "he").next_tokens(wrong)
        assert str(caught.value) == f"k must be an integer of at least 1, got {wrong!r}"


def test_an_encoder_predicts_no_next_token(seeded_weights, ids):
    model = made(ENCODERS["bert"])
    for length in (1, 11):
        found = trace(model, ids[:, :length])
        assert found.next_logits is not None
        assert found.next_tokens() == ()


# -------------------------------------------------------------------------------------------- rows


def test_a_row_that_was_not_kept_says_how_to_keep_it(tiny_llama, ids):
    found = trace(tiny_llama, ids, queries=slice(-3, None))
    assert found.sources().target == 10
    with pytest.raises(NotKeptError) as caught:
        found.sources(2)
    assert str(caught.value) == (
        "the row of token 2 was not kept (queries= kept 3 of 11): trace again with queries=None or "
        "a slice that holds it"
    )


def test_words_are_found(text_model):
    found = trace(text_model, "he saw: he ran")
    assert found.find("he") == found.find(-5)
    assert found.find(1) == 1
    assert found.find("saw") < found.find(":") < found.find("he")
    with pytest.raises(TokenError, match="token 'she' is not in the text"):
        found.find("she")
