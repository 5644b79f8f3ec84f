"""One run under a recorder: padding, what is chosen of each stack, and layers that were missed."""

import copy

import pytest
import torch

from clearhead.errors import InputError, NotKeptError, TokenError, TraceError
from clearhead.pipeline.tap import Site
from clearhead.tracing.recorder import KEEPABLE
from clearhead.tracing.trace import trace
from tests.accuracy import assert_double
from tests.tracing.padding import padded
from tests.tracing.shapes import ACROSS
from tests.tracing.taps import layers_of

TARGET = [1, 50, 6, 7, 50]
QUANTITIES = ("query", "key", "value", "logsumexp", "context", "output", "value_norms")


@pytest.fixture(params=ACROSS)
def model(request, draw):
    return draw(ACROSS[request.param])


@pytest.fixture
def t5(draw):
    return draw(ACROSS["T5"])


# ------------------------------------------------------------------------------------------ padding


@pytest.mark.parametrize("side", ["left", "right"])
def test_traces_of_a_padded_batch_are_those_of_its_sources(side, model, generator):
    (ids, real), exact = padded(generator, side=side), copy.deepcopy(model).double()
    batch = trace(exact, ids, target=TARGET, attention_mask=real)
    for row, found in enumerate(batch):
        own = ids[row, real[row].bool()]
        alone = trace(exact, own, target=TARGET)
        assert found.encoder.token_ids == tuple(own.tolist())
        assert found.cross.source_tokens == alone.cross.source_tokens
        assert found.nbytes == alone.nbytes
        pairs = zip(layers_of(found).items(), layers_of(alone).items(), strict=True)
        for (site, ours), (same, single) in pairs:
            assert site == same
            for name in QUANTITIES:
                assert_double(
                    getattr(ours, name), getattr(single, name), name=f"{site.kind} {name}"
                )
            assert_double(ours.weights.to_dense(), single.weights.to_dense())
        assert (found.cross.sources().share - alone.cross.sources().share).abs().max() < 1e-6


def test_a_mask_or_several_rows_give_a_list(t5, ids):
    one, rows = trace(t5, ids, target=TARGET), torch.cat([ids, ids.flip(1)])
    (masked,) = trace(t5, ids, target=TARGET, attention_mask=torch.ones_like(ids))
    assert torch.equal(masked.cross[1].query, one.cross[1].query)
    first, second = trace(t5, rows, target=[TARGET, [1, 2, 3, 4, 5]])
    assert first.decoder.token_ids == tuple(TARGET)
    assert second.decoder.token_ids == (1, 2, 3, 4, 5)
    assert second.encoder.token_ids == tuple(reversed(first.encoder.token_ids))


# ----------------------------------------------------------------------------------- what is chosen


def test_layers_are_counted_in_each_stack(t5, ids):
    whole = trace(t5, ids, target=TARGET)
    for layers, encoder, decoder in (
        ([1], (1,), (1,)),
        ([2, 0], (0, 2), (0,)),
        (slice(-1, None), (2,), (1,)),
        ([2], (2,), ()),
    ):
        found = trace(t5, ids, target=TARGET, layers=layers)
        assert (found.encoder.layers, found.decoder.layers, found.cross.layers) == (
            encoder,
            decoder,
            decoder,
        )
        for site, layer in layers_of(found).items():
            assert torch.equal(layer.output, layers_of(whole)[site].output)
    assert "no layers" in repr(found)
    assert (found.decoder.heads, found.cross.nbytes) == (0, 0)
    with pytest.raises(NotKeptError) as caught:
        found.cross[0]
    assert str(caught.value) == (
        "layer 0 was not traced (this trace holds no layers): trace again with layers=[0, …] or "
        "layers=None, if the model has it"
    )


@pytest.mark.parametrize(("layers", "got"), [([3, 9], "[3, 9]"), ([], "[]")])
def test_layers_that_neither_stack_has(layers, got, t5, ids):
    with pytest.raises(InputError) as caught:
        trace(t5, ids, target=TARGET, layers=layers)
    assert str(caught.value) == (
        "layers must choose some of the model's 3 encoder layers (0 to 2) or 2 decoder layers "
        f"(0 to 1), got {got}"
    )


def test_queries_are_tokens_of_the_target(t5, ids):
    t5.double()
    whole = trace(t5, ids, target=TARGET)
    found = trace(t5, ids, target=TARGET, queries=[-1, 1])
    assert found.encoder.queries.tolist() == list(range(11))
    assert found.decoder.queries.tolist() == found.cross.queries.tolist() == [4, 1]
    for ours, every in zip(found.cross, whole.cross, strict=True):
        assert torch.equal(ours.query, every.query[:, [4, 1]])
        assert torch.equal(ours.key, every.key)
        assert_double(ours.weights.to_dense(), every.weights.to_dense()[:, [4, 1]])
    assert [layer.same_bits for layer in layers_of(found).values()] == [True] * 3 + [False] * 4
    assert found.decoder.causal
    assert found.cross.sources().target == 4
    with pytest.raises(NotKeptError, match=r"the row of token 2 was not kept"):
        found.cross.sources(2)


def test_what_is_kept_is_kept_of_all_three(t5, ids):
    plain, found = trace(t5, ids, target=TARGET), trace(t5, ids, target=TARGET, keep=KEEPABLE)
    for site, layer in layers_of(found).items():
        same = layers_of(plain)[site]
        assert torch.equal(layer.recorded.tensors["context"], same.context)
        assert torch.equal(layer.recorded.tensors["output"], same.output)
        assert layer.attention_input.shape == (11 if site.kind == "encoder" else 5, 32)
    parts = (found.encoder, found.decoder, found.cross)
    assert found.nbytes == sum(part.nbytes for part in parts)
    assert found.dense_nbytes == sum(part.dense_nbytes for part in parts)
    assert found.cross.dense_nbytes == 2 * 4 * 5 * 11 * 4
    for part in parts:
        rooms = {
            tensor.untyped_storage().data_ptr()
            for layer in part
            for name, tensor in layer.recorded.tensors.items()
            if name != "value_norms"
        }
        assert len(rooms) == 1


def test_a_trace_lies_where_it_is_told_to(t5, ids):
    found = trace(t5, ids, target=TARGET, device="cpu")
    assert {layer.query.device.type for layer in layers_of(found).values()} == {"cpu"}


# ------------------------------------------------------------------------------------------- errors


def test_both_texts_have_a_length_of_their_own(draw):
    model = draw(ACROSS["BART"])
    model.clearhead_name = "tiny"
    found = trace(model, [5] * 40, target=[6] * 64)
    assert (found.encoder.context_length, found.decoder.context_length) == (40, 64)
    with pytest.raises(TokenError) as caught:
        trace(model, [5] * 41, target=TARGET)
    assert str(caught.value) == "the source has 41 tokens, and tiny reads at most 40"
    with pytest.raises(TokenError) as caught:
        trace(model, [5] * 40, target=[6] * 65)
    assert str(caught.value) == "the target has 65 tokens, and tiny reads at most 64"


def test_t5_reads_any_length(t5):
    found = trace(t5, [5] * 300, target=[6] * 200, layers=[1])
    assert (found.encoder.context_length, found.decoder.context_length) == (None, None)
    assert found.decoder.causal


def test_a_missed_layer_is_named_by_its_kind(t5, ids):
    sites = t5.sites()
    extra = [Site(9, kind, f"{kind}.9") for kind in ("encoder", "self", "cross")]
    t5.sites = lambda: (*sites[1:], *extra)
    with pytest.raises(TraceError) as caught:
        trace(t5, ids, target=TARGET)
    assert str(caught.value) == (
        "Transformer cannot be traced whole, 4 faults:\n"
        "  - 1 of its 3 encoder layers compute attention elsewhere and were not seen: encoder.9\n"
        "  - 1 of its 3 decoder self-attention layers compute attention elsewhere and were not "
        "seen: self.9\n"
        "  - 1 of its 3 cross-attention layers compute attention elsewhere and were not seen: "
        "cross.9\n"
        "  - attention happens where no layer was expected: encoder.layers.0.attention"
    )


def test_a_target_is_for_encoder_decoders_alone(tiny_llama, ids):
    with pytest.raises(InputError) as caught:
        trace(tiny_llama, ids, target=[1])
    assert str(caught.value) == (
        "target: LlamaForCausalLM has no decoder that looks at another text; give all it is to "
        "read as one"
    )
