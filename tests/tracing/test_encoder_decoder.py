"""Encoder-decoders: three traces of one run, rows of the target and columns of the source."""

import copy
import pickle
from dataclasses import replace

import pytest
import torch

from clearhead.errors import InputError, TokenError
from clearhead.tracing.encoder_decoder import CrossTrace, EncoderDecoderTrace
from clearhead.tracing.recorder import KEEPABLE
from clearhead.tracing.trace import trace
from clearhead.tracing.traced import Trace
from tests.tracing.largest import Largest
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


@pytest.fixture
def found(t5, ids):
    return trace(t5, ids, target=TARGET)


# ------------------------------------------------------------------------------ what the three hold


def test_the_three_have_the_sizes_of_their_texts(model, ids):
    found = trace(model, ids, target=TARGET)
    assert isinstance(found, EncoderDecoderTrace)
    assert isinstance(found.encoder, Trace)
    assert isinstance(found.decoder, Trace)
    assert isinstance(found.cross, CrossTrace)
    assert (len(found.encoder), len(found.decoder), len(found.cross)) == (11, 5, 5)
    assert (found.encoder.layers, found.decoder.layers, found.cross.layers) == (
        (0, 1, 2),
        (0, 1),
        (0, 1),
    )
    assert found.encoder.token_ids == tuple(ids[0].tolist())
    assert found.decoder.token_ids == tuple(TARGET)
    assert found.cross.tokens == found.decoder.tokens == ("1", "50", "6", "7", "50")
    assert found.cross.source_tokens == found.encoder.tokens
    assert [layer.weights.shape[1:] for layer in found.encoder] == [(11, 11)] * 3
    assert [layer.weights.shape[1:] for layer in found.decoder] == [(5, 5)] * 2
    assert [layer.weights.shape[1:] for layer in found.cross] == [(5, 11)] * 2
    for part, kind in ((found.encoder, "encoder"), (found.decoder, "self"), (found.cross, "cross")):
        sites = [layer.recorded.site for layer in part]
        assert [site.kind for site in sites] == [kind] * len(sites)
        assert [site.layer for site in sites] == list(range(len(sites)))


def test_only_the_decoder_is_causal_and_goes_on(model, ids):
    found = trace(model, ids, target=TARGET)
    assert (found.encoder.causal, found.decoder.causal) == (False, True)
    assert (found.encoder.next_logits, found.encoder.next_tokens()) == (None, ())
    with torch.no_grad():
        encoded = model.encode(ids)
        expected = model(torch.tensor([TARGET]), source=encoded, logits_to_keep=1).logits[0, 0]
    assert torch.equal(found.decoder.next_logits, expected)
    assert found.decoder.next_tokens(1)[0].token_id == int(expected.argmax())


def test_the_values_of_cross_attention_are_made_of_what_the_encoder_gave(model, ids):
    found = trace(model, ids, target=TARGET, keep=KEEPABLE)
    with torch.no_grad():
        encoded = model.encode(ids).hidden
        for layer, block in zip(found.cross, model.layers, strict=True):
            value = block.cross_attention.to_value(encoded).view(11, *layer.value.shape[::2])
            assert torch.equal(layer.value, value.transpose(0, 1))
            query = block.cross_attention.to_query(layer.attention_input)
            assert query.shape[0] == layer.query.shape[1] == 5


def test_reading_leaves_the_logits_bit_for_bit(model, generator):
    (ids, real), target = padded(generator, side="left"), torch.tensor([TARGET] * 3)
    with torch.no_grad():
        encoded = model.encode(ids, attention_mask=real)
        plain = model(target, source=encoded, logits_to_keep=torch.tensor([4])).logits[:, 0]
    for row, found in enumerate(trace(model, ids, target=target, attention_mask=real)):
        assert torch.equal(found.decoder.next_logits, plain[row])


@pytest.mark.parametrize("name", ["T5", "turned"])
def test_nothing_of_n_by_m_is_made(name, draw):
    n, m = 700, 900
    model, real = draw(_longer(ACROSS[name])), torch.ones(1, m).long()
    real[:, :100] = 0
    source, target = torch.full((1, m), 7), torch.full((1, n), 8)
    with Largest() as largest:
        (found,) = trace(model, source, target=target, attention_mask=real)
        found.cross.sources(3)
        for layer in layers_of(found).values():
            layer.output, layer.weights[1, 300], layer.weights.entropy()
    # blocks of 256 rows of 4 heads are the most
    assert largest.nbytes <= 4 * 4 * 256 * m < 4 * 4 * n * m


def _longer(config):
    return replace(
        config, context_length=None, encoder=replace(config.encoder, context_length=None)
    )


# ------------------------------------------------------------------------------------ what is asked


def test_cross_sources_are_tokens_of_the_source(found):
    sources = found.cross.sources("50", segments={"begin": (0, 4)})
    assert (sources.target, sources.target_occurrences) == (4, 2)
    assert sources.tokens == found.encoder.tokens
    assert sources.share.shape == (11,)
    assert float(sources.share.sum()) == pytest.approx(1)
    assert sources.segments["begin"] == pytest.approx(float(sources.share[:4].sum()))
    assert sources.segment_of == ("begin",) * 4 + ("elsewhere",) * 7
    assert list(sources.to_pandas()["token"]) == list(found.encoder.tokens)
    assert {link.layer for link in sources.strongest} <= {0, 1}
    by_hand = sum(
        layer.weights.to_dense()[:, 4].double() * layer.value_norms.double()
        for layer in found.cross
    ).sum(0)
    assert (sources.share - by_hand / by_hand.sum()).abs().max() < 1e-6
    with pytest.raises(TokenError, match=r"token must be an index in \[-5, 5\), got 7"):
        found.cross.sources(7)


def test_it_says_what_it_holds(found):
    total = found.nbytes
    assert repr(found) == (
        "EncoderDecoderTrace('Transformer', .encoder: 11 tokens, layers 0–2; .decoder and .cross: "
        f"5 tokens, layers 0–1; {total:,} bytes)"
    )
    assert repr(found.cross) == (
        "CrossTrace('Transformer', 5 target by 11 source tokens, layers 0–1, "
        f"{found.cross.nbytes:,} bytes)"
    )
    assert found.seconds == found.decoder.seconds > 0


@pytest.mark.parametrize("layer", [0, 5, slice(1), "a"])
def test_a_layer_of_all_three_says_which_to_ask(layer, found):
    with pytest.raises(InputError) as caught:
        found[layer]
    assert str(caught.value) == (
        f"an encoder-decoder has three layers of one number: ask for .encoder[{layer!r}] (the "
        f"source looking at itself), .decoder[{layer!r}] (the target looking at itself) or "
        f".cross[{layer!r}] (the target looking at the source)"
    )


def test_all_layers_of_all_three_say_which_to_ask(found):
    with pytest.raises(InputError) as caught:
        list(found)
    assert str(caught.value) == (
        "an encoder-decoder's layers are of three kinds: go through .encoder, .decoder or .cross"
    )


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("sources", ": ask for .encoder.sources, .decoder.sources or .cross.sources"),
        ("tokens", ": ask for .encoder.tokens, .decoder.tokens or .cross.tokens"),
        ("next_tokens", ": ask for .encoder.next_tokens or .decoder.next_tokens"),
        ("token_ids", ": ask for .encoder.token_ids or .decoder.token_ids"),
        ("source_tokens", ": ask for .cross.source_tokens"),
        ("query", ""),
        ("_row", ""),
    ],
)
def test_what_only_the_three_have_says_which_to_ask(name, ask, found):
    with pytest.raises(AttributeError) as caught:
        getattr(found, name)
    assert str(caught.value) == f"an encoder-decoder's trace has no {name!r} of its own{ask}"


def test_it_can_be_copied_and_written(found):
    for again in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):  # noqa: S301, our own
        assert torch.equal(again.cross[1].query, found.cross[1].query)
        assert torch.equal(again.decoder[1].weights[0, 3], found.decoder[1].weights[0, 3])
