"""What is traced and what is not, and our own Transformer at the tap."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from clearhead.errors import TraceError
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tap import Site, attend
from clearhead.tracing.models import OutputProjection, SelfTapped, Source, traceable
from clearhead.tracing.trace import trace
from tests.accuracy import assert_double
from tests.tap_contract import TapContract
from tests.tracing.shapes import ACROSS, ALONE


class TestOurTransformer(TapContract):
    @pytest.fixture(params=ALONE)
    def model(self, request, draw):
        return draw(ALONE[request.param])


class TestOurEncoderDecoder(TapContract):
    @pytest.fixture(params=ACROSS)
    def model(self, request, draw):
        return draw(ACROSS[request.param])

    @pytest.fixture(params=[7, 12])
    def source_length(self, request):
        return request.param


@pytest.fixture
def own(draw):
    """Our Transformer, of the shape of a Llama."""
    return draw(ALONE["Llama"])


@pytest.fixture
def pair(draw):
    """Our Transformer, of the shape of BART."""
    return draw(ACROSS["BART"])


class Smallest(nn.Module):
    """One head, one layer, nothing else: a model of somebody's own that meets the tap."""

    def __init__(self):
        super().__init__()
        self.site = Site(0, "self", "smallest")
        self.table = nn.Embedding(11, 4)
        self.config = type("Config", (), {"context_length": 8})()

    def sites(self):
        return (self.site,)

    def output_projection(self, _site):
        return torch.eye(4), None

    def forward(self, ids, *, logits_to_keep, **_given):
        x = self.table(ids)[:, None]
        context = attend(x, x, x, rule=ScoreRule(), site=self.site).context
        logits = context[:, 0][:, logits_to_keep] @ self.table.weight.T
        return type("Output", (), {"logits": logits})()


def test_a_model_of_ones_own_is_traced(seeded_weights):
    found = trace(Smallest(), [1, 2, 3])
    assert found.model_name == "Smallest"
    assert found.context_length == 8
    assert not found.causal
    assert found[0].weights.to_dense().shape == (1, 3, 3)


@pytest.mark.parametrize("config", [None, object()])
def test_a_model_of_ones_own_need_not_say_how_much_it_reads(config, seeded_weights):
    model = Smallest()
    model.config = config
    assert trace(model, [1] * 9).context_length is None
    del model.config
    assert trace(model, [1] * 9).context_length is None


def test_a_model_of_ones_own_is_traced_in_evaluation_mode(seeded_weights):
    model = Smallest()
    model.dropout, model.frozen = nn.Dropout(0.5), nn.Dropout(0.5).eval()
    seen = []
    model.dropout.register_forward_hook(lambda part, _args, _out: seen.append(part.training))
    model.table.register_forward_hook(lambda _part, _args, out: model.dropout(out))
    assert torch.equal(trace(model, [1, 2]).next_logits, trace(model, [1, 2]).next_logits)
    assert seen == [False, False]
    assert (model.training, model.dropout.training, model.frozen.training) == (True, True, False)


def test_our_transformer_names_itself(own):
    assert isinstance(own, SelfTapped)
    watched = traceable(own)
    assert (watched.name, watched.origin, watched.tokenizer) == ("Transformer", "", None)
    assert watched.context_length == 64


def test_the_name_and_origin_a_loader_wrote_are_taken(own):
    own.clearhead_name, own.clearhead_origin, own.clearhead_tokenizer = "tiny", "float32", "words"
    watched = traceable(own)
    assert (watched.name, watched.origin, watched.tokenizer) == ("tiny", "float32", "words")


def test_logits_are_those_after_each_rows_last_token(own, generator):
    ids = torch.randint(0, 99, (3, 7), generator=generator)
    real = torch.ones(3, 7, dtype=torch.bool)
    real[1, :2], real[2, 5:] = False, False
    last = torch.tensor([6, 6, 4])
    with torch.no_grad():
        got = traceable(own).logits(ids, attention_mask=real, last=last)
        # the very product the model makes of these positions: one of another shape has other bits
        kept = own(ids, attention_mask=real, logits_to_keep=torch.tensor([4, 6])).logits
        assert torch.equal(got, kept[torch.arange(3), torch.tensor([1, 1, 0])])
        double = copy.deepcopy(own).double()
        got = traceable(double).logits(ids, attention_mask=real, last=last)
        every = double(ids, attention_mask=real).logits
    assert_double(got, every[torch.arange(3), last])


@pytest.mark.parametrize("model", [nn.Linear(2, 2), None, "smollm2", object()])
def test_what_is_no_model_is_refused(model):
    with pytest.raises(TraceError) as caught:
        traceable(model)
    assert str(caught.value) == (
        f"{type(model).__name__} cannot be traced: expected a clearhead Transformer, a whole "
        "transformers model, or a module that sends its quantities through clearhead's tap and "
        "offers sites(), output_projection(site) and "
        "model(ids, attention_mask=, logits_to_keep=).logits"
    )


def test_a_layer_of_transformers_is_no_model(tiny_llama):
    for part in (tiny_llama.model.layers[0], tiny_llama.model.norm, tiny_llama.config):
        with pytest.raises(TraceError) as caught:
            traceable(part)
        assert str(caught.value).startswith(
            f"{type(part).__name__} cannot be traced: expected a clearhead Transformer, a whole "
            "transformers model, or "
        )
    assert traceable(tiny_llama.model).name == "LlamaModel"


@pytest.mark.parametrize("bias", [True, False])
def test_a_projection_is_the_call_of_the_model(bias, generator):
    weight, added = torch.randn(5, 6, generator=generator), torch.randn(5, generator=generator)
    joined = torch.randn(2, 3, 6, generator=generator)
    linear = nn.Linear(6, 5, bias=bias)
    with torch.no_grad():
        linear.weight.copy_(weight)
        if bias:
            linear.bias.copy_(added)
        expected = linear(joined)
    projection = OutputProjection(weight, added if bias else None)
    assert torch.equal(projection(joined), expected)
    assert projection(joined.bfloat16()).dtype == torch.bfloat16


# ------------------------------------------------------------------------------- encoder-decoders


def test_what_a_trace_must_know_of_an_encoder_decoder(own, pair):
    assert traceable(own).encoder_decoder is None
    known = traceable(pair).encoder_decoder
    assert (known.source_length, known.start_tokens) == (40, ())
    assert traceable(pair).context_length == 64
    pair.clearhead_start_tokens = [2, 0]
    assert traceable(pair).encoder_decoder.start_tokens == (2, 0)


@torch.no_grad()
def test_logits_of_a_target_are_those_the_model_gives_it(pair, generator):
    source, target = (torch.randint(0, 99, (2, n), generator=generator) for n in (7, 5))
    real = torch.ones(2, 7, dtype=torch.bool)
    real[0, :3] = False
    read = Source(source, real)
    got = traceable(pair).logits(
        target, attention_mask=None, last=torch.tensor([4, 4]), source=read
    )
    encoded = pair.encode(source, attention_mask=real)
    kept = pair(target, source=encoded, logits_to_keep=torch.tensor([4])).logits
    assert torch.equal(got, kept[:, 0])


def test_a_model_without_a_head_has_no_logits(draw):
    for name in ("Llama", "BERT"):
        headless = {"predicts": False, "logits_transform": False, "logits_bias": False}
        config = replace(ALONE[name], **headless, tied_embeddings=False, pooler=name == "BERT")
        found = trace(draw(config), [5, 6, 7])
        assert found.next_logits is None
        assert found.next_tokens() == ()
        assert found.causal == (name == "Llama")
        assert found.sources().share.sum() == pytest.approx(1)
