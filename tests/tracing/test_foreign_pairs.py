"""Encoder-decoders of transformers: their three attentions, held to their own eager run."""

import copy

import pytest
import torch
import transformers

from clearhead.errors import InputError, TokenError
from clearhead.report.look import look
from clearhead.tracing.huggingface import register_attention
from clearhead.tracing.trace import trace
from tests.tracing.closeness import assert_as_near
from tests.tracing.families import OURS, made, with_attention
from tests.tracing.largest import Largest

BART = OURS["bart"][1]
T5 = {**OURS["t5"][1], "feed_forward_proj": "gated-gelu", "initializer_factor": 0.5}
EXPERTS = {"num_experts": 4, "router_bias": False, "num_sparse_encoder_layers": 1}
PAIRS = {
    "T5": ("T5ForConditionalGeneration", T5),
    "mT5": ("MT5ForConditionalGeneration", T5),
    "UMT5": ("UMT5ForConditionalGeneration", T5),
    "Switch": ("SwitchTransformersForConditionalGeneration", {**T5, **EXPERTS}),
    "BART": ("BartForConditionalGeneration", BART),
    "mBART": ("MBartForConditionalGeneration", BART),
    "PLBART": ("PLBartForConditionalGeneration", BART),
    "Pegasus": ("PegasusForConditionalGeneration", BART),
    "Marian": ("MarianMTModel", {**BART, "pad_token_id": 0, "decoder_vocab_size": 99}),
    "M2M-100": ("M2M100ForConditionalGeneration", BART),
    "Blenderbot": ("BlenderbotForConditionalGeneration", BART),
    "Blenderbot small": ("BlenderbotSmallForConditionalGeneration", BART),
}
#: Tokens of the source, padding included, of the target, and real ones of the second source.
M, N, REAL = 17, 11, 12


@pytest.fixture(params=PAIRS)
def name(request):
    return request.param


@pytest.fixture
def model(name, seeded_weights):
    return made(PAIRS[name])


def texts(generator, padding):
    """Two sources, which of their tokens are real, and two targets; the second has fewer tokens."""
    source = torch.randint(4, 99, (2, M), generator=generator)
    target = torch.randint(4, 99, (2, N), generator=generator)
    real = torch.ones(2, M, dtype=torch.long)
    if padding == "right":
        real[1, REAL:] = 0
    elif padding == "left":
        real[1, : M - REAL] = 0
    return source, real, target


def laid(source, real):
    """The same texts with padding behind them: what stands before shifts positions here."""
    places = (1 - real).argsort(dim=-1, stable=True)
    return source.gather(1, places), real.gather(1, places)


def run(model, source, real, target, **asked):
    """transformers' own run."""
    return model(input_ids=source, attention_mask=real, decoder_input_ids=target, **asked)


@pytest.mark.parametrize("padding", ["none", "right", "left"])
@torch.no_grad()
def test_weights_and_logits_are_those_of_eager_attention(model, padding, generator):
    given, kept, target = texts(generator, padding)
    source, real = laid(given, kept)
    eager = with_attention(model, "eager")
    peer = run(eager, source, real, target, output_attentions=True)
    double = copy.deepcopy(eager).double()
    truth = run(double, source, real, target, output_attentions=True)
    for row, found in enumerate(trace(model, given, target=target, attention_mask=kept)):
        assert found.encoder.token_ids == tuple(given[row][kept[row].bool()].tolist())
        assert_as_near(found.decoder.next_logits, peer.logits[row, -1], truth.logits[row, -1])
        read = real[row].bool()
        kinds = {
            "encoder_attentions": (found.encoder, read, read),
            "decoder_attentions": (found.decoder, slice(None), slice(None)),
            "cross_attentions": (found.cross, slice(None), read),
        }
        for kind, (part, rows, columns) in kinds.items():
            assert part.layers == tuple(range(len(peer[kind])))
            for layer, theirs, exact in zip(part, peer[kind], truth[kind], strict=True):
                near, true = (x[row][:, rows][:, :, columns] for x in (theirs, exact))
                assert_as_near(layer.weights.to_dense(), near, true)


@torch.no_grad()
def test_reading_changes_no_bit(model, generator):
    source, real, target = texts(generator, "right")
    register_attention()
    with_ours = with_attention(model, "clearhead")
    plain = run(with_ours, source, real, target).logits[:, -1]
    found = trace(model, source, target=target, attention_mask=real)
    assert torch.equal(torch.stack([one.decoder.next_logits for one in found]), plain)


@torch.no_grad()
def test_everything_of_a_layer_is_there(model, generator):
    source, _, target = texts(generator, "none")
    found = trace(model, source[:1], target=target[:1], keep=("attention_input", "output"))
    for part, m in ((found.encoder, M), (found.decoder, N), (found.cross, M)):
        for layer in part:
            assert layer.attention_input.shape == layer.output.shape
            assert layer.key.shape[1] == layer.value.shape[1] == m
            mixed = layer.weights.to_dense() @ layer.value
            torch.testing.assert_close(layer.context, mixed, rtol=1e-4, atol=1e-5)
    assert found.cross.sources(3).share.shape == (M,)
    assert found.cross.sources(3).share.sum() == pytest.approx(1)


@pytest.mark.parametrize("name", ["T5", "UMT5", "BART"])
def test_no_bias_and_no_mask_is_written_out(name, seeded_weights):
    longer = {} if "T5" in name else {"max_position_embeddings": 2048}
    model, n, m = made(PAIRS[name], **longer), 600, 1100
    real = torch.ones(1, m).long()
    real[:, :100] = 0
    with Largest() as largest:
        given = {"target": torch.full((1, n), 8), "attention_mask": real}
        (found,) = trace(model, torch.full((1, m), 7), **given)
    # UMT5's layers write n × m zeros of cross-attention themselves; no trace keeps them
    most = 4 * 4 * n * m if name == "UMT5" else 4 * 4 * 256 * m
    assert largest.nbytes <= most < 4 * 4 * m * m
    assert found.nbytes < 4 * 4 * 32 * (6 * n + 8 * m) * 4
    kept = [layer.recorded.bound.bias for layer in found.cross]
    assert kept == [None] * len(kept)


def test_a_decoder_begins_with_the_token_it_was_trained_to(seeded_weights):
    model = made(PAIRS["BART"])
    assert trace(model, [5, 6, 7]).decoder.token_ids == (2,)


def test_a_source_or_target_beyond_the_positions_is_an_error(seeded_weights):
    model = made(PAIRS["BART"])
    with pytest.raises(TokenError, match=r"^the source has 65 tokens, and .* reads at most 64$"):
        trace(model, [5] * 65)
    with pytest.raises(TokenError, match=r"^the target has 66 tokens, and .* reads at most 64$"):
        trace(model, [5], target=[2] * 66)
    with pytest.raises(InputError, match=r"^ids must lie in 0 … 98, got 5 … 99$"):
        trace(model, [5, 99])


def test_a_page_says_that_it_shows_one_text(seeded_weights):
    with pytest.raises(InputError, match="encoder-decoder"):
        look(made(PAIRS["T5"]), [5, 6])


@torch.no_grad()
def test_padding_before_a_text_shifts_nothing(seeded_weights):
    settings = {name: value for name, value in BART.items() if not name.startswith("encoder")}
    model = made(("BartForCausalLM", settings))
    alone = trace(model, [5, 6, 7])
    ids, real = torch.tensor([[0, 0, 5, 6, 7], [8, 9, 5, 6, 7]]), torch.ones(2, 5).long()
    real[0, :2] = 0
    padded, _ = trace(model, ids, attention_mask=real, queries=slice(1, None))
    assert padded.token_ids == alone.token_ids
    torch.testing.assert_close(padded.next_logits, alone.next_logits, rtol=1e-5, atol=1e-5)
    weights = alone[1].weights.to_dense()[:, 1:]
    torch.testing.assert_close(padded[1].weights.to_dense(), weights, rtol=1e-5, atol=1e-6)


def test_half_a_pair_is_traced_alone(seeded_weights):
    settings = {name: value for name, value in BART.items() if not name.startswith("encoder")}
    model = made(("BartForCausalLM", settings))
    found = trace(model, [5, 6, 7])
    assert found.layers == (0, 1)
    assert [layer.recorded.site.name for layer in found] == [
        "model.decoder.layers.0.self_attn",
        "model.decoder.layers.1.self_attn",
    ]


def test_a_model_of_two_models_is_a_pair(seeded_weights):
    small = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    halves = [transformers.BertConfig(**small, intermediate_size=48) for _ in range(2)]
    both = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(*halves)
    both.decoder_start_token_id = 1
    model = transformers.EncoderDecoderModel(both).eval()
    found = trace(model, [5, 6, 7], target=[1, 8])
    assert [part.layers for part in (found.encoder, found.decoder, found.cross)] == [(0, 1)] * 3
    with torch.no_grad():
        ids = torch.tensor([[5, 6, 7]]), torch.tensor([[1, 8]])
        plain = model(input_ids=ids[0], decoder_input_ids=ids[1]).logits[0, -1]
    torch.testing.assert_close(found.decoder.next_logits, plain, rtol=1e-4, atol=1e-5)
