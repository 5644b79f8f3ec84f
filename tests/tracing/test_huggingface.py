"""transformers models at the tap: the contract, what is observed, refused and put back."""

import pytest
import torch
from torch import nn
from transformers import (
    BertForMaskedLM,
    LlamaForSequenceClassification,
    LlamaForTokenClassification,
    LlamaModel,
)

from clearhead.errors import InputError, TokenError, TraceError
from clearhead.tracing.huggingface import HuggingFaceModel, register_attention
from clearhead.tracing.models import traceable
from clearhead.tracing.trace import trace
from tests.tap_contract import TapContract
from tests.tracing.families import ENCODERS, made
from tests.tracing.taps import Reading, run, state


class TestLlama(TapContract):
    @pytest.fixture
    def model(self, tiny_llama):
        return tiny_llama


class TestMistral(TapContract):
    @pytest.fixture
    def model(self, tiny_mistral):
        return tiny_mistral


class TestGPT2(TapContract):
    @pytest.fixture
    def model(self, tiny_gpt2):
        return tiny_gpt2


class TestBert(TapContract):
    @pytest.fixture
    def model(self, tiny_bert):
        return BertForMaskedLM(tiny_bert.config).eval()


@pytest.fixture(params=["tiny_llama", "tiny_mistral", "tiny_gpt2", "tiny_bert"])
def model(request):
    return request.getfixturevalue(request.param)


IDS = torch.tensor([[3, 1, 4, 1, 5]])

# --------------------------------------------------------------------------------- what is observed


def test_the_output_projection_is_the_models_own_layer(
    tiny_llama, tiny_mistral, tiny_gpt2, tiny_bert
):
    own = {
        tiny_llama: [layer.self_attn.o_proj for layer in tiny_llama.model.layers],
        tiny_mistral: [layer.self_attn.o_proj for layer in tiny_mistral.model.layers],
        tiny_gpt2: [layer.attn.c_proj for layer in tiny_gpt2.transformer.h],
        tiny_bert: [layer.attention.output.dense for layer in tiny_bert.encoder.layer],
    }
    for model, layers in own.items():
        found = trace(model, IDS)
        for layer, linear in zip(found, layers, strict=True):
            weight = linear.weight if isinstance(linear, nn.Linear) else linear.weight.T
            assert layer.projection.weight.data_ptr() == linear.weight.data_ptr()
            assert torch.equal(layer.projection.weight, weight)
            expected = None if linear.bias is None else linear.bias.data_ptr()
            bias = layer.projection.bias
            assert (None if bias is None else bias.data_ptr()) == expected
            assert not layer.projection.weight.requires_grad


class Gate(nn.Module):
    """Stands before W_O and changes what it is handed."""

    def __init__(self, linear, *, in_place):
        super().__init__()
        self.linear, self.in_place = linear, in_place

    def forward(self, joined):
        joined = joined.mul_(0.5) if self.in_place else joined * 0.5
        return self.linear(joined)


@pytest.mark.parametrize("in_place", [True, False])
def test_a_layer_that_reads_a_changed_context_is_not_taken_for_the_output_projection(
    tiny_llama, in_place
):
    # the freed context's memory is soon another tensor's: that one must not pass for it either
    for layer in tiny_llama.model.layers:
        layer.self_attn.o_proj = Gate(layer.self_attn.o_proj, in_place=in_place)
    found = trace(tiny_llama, IDS)
    assert [layer.projection for layer in found] == [None, None, None]
    assert found.sources(by="attention").share.sum() == pytest.approx(1)


def test_a_projection_for_each_head_is_not_taken_for_the_output_projection(tiny_llama):
    class Grouped(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8, bias=False)

        def forward(self, joined):
            return self.linear(joined.unflatten(-1, (4, 8))).flatten(-2)

    for layer in tiny_llama.model.layers:
        layer.self_attn.o_proj = Grouped()
    assert all(layer.projection is None for layer in trace(tiny_llama, IDS))


def test_inference_mode_changes_nothing(model):
    plain = trace(model, IDS)
    with torch.inference_mode():
        found = trace(model, IDS)
    for ours, peer in zip(found, plain, strict=True):
        assert torch.equal(ours.context, peer.context)
        assert torch.equal(ours.output, peer.output)


# ------------------------------------------------------------------------------ names and positions


def test_a_model_is_named_by_what_loaded_it_else_by_its_folder_else_by_its_class(tiny_llama):
    tiny_llama.config.name_or_path = ""
    assert HuggingFaceModel(tiny_llama).name == "LlamaForCausalLM"
    tiny_llama.config.name_or_path = "some/folder"
    assert HuggingFaceModel(tiny_llama).name == "some/folder"
    tiny_llama.clearhead_name = "tiny"
    assert HuggingFaceModel(tiny_llama).name == "tiny"
    assert HuggingFaceModel(tiny_llama).origin == "float32"
    tiny_llama.clearhead_origin = "Q4_1, dequantised to float32"
    assert HuggingFaceModel(tiny_llama).origin == "Q4_1, dequantised to float32"


def test_the_context_length_leaves_out_rows_kept_for_padding(model, seeded_weights):
    assert traceable(model).context_length == 64
    roberta = made(ENCODERS["roberta"])
    assert roberta.config.max_position_embeddings == 66
    assert traceable(roberta).context_length == 64
    assert len(trace(roberta, [5] * 64)) == 64
    with pytest.raises(TokenError):
        trace(roberta, [5] * 65)


def test_ids_beyond_the_vocabulary_are_an_error(model):
    with pytest.raises(InputError) as caught:
        trace(model, [3, 99])
    assert str(caught.value) == "ids must lie in 0 … 98, got 3 … 99"


def test_only_a_head_that_says_words_predicts_the_next_token(tiny_llama):
    config = tiny_llama.config
    assert len(trace(tiny_llama, IDS).next_tokens(3)) == 3
    for build in (LlamaModel, LlamaForTokenClassification, LlamaForSequenceClassification):
        found = trace(build(config).eval(), IDS)
        assert found.next_logits is None
        assert found.next_tokens() == ()


# ----------------------------------------------------------------------------------- put back again


def test_the_attention_in_use_is_put_back_whichever_it_was(model):
    clean = run_plain(model)
    for name in ("eager", "sdpa", "clearhead"):
        register_attention()
        model.set_attn_implementation(name)
        before = state(model)
        trace(model, IDS)
        assert state(model) == before
        assert model.config._attn_implementation == name
    model.set_attn_implementation("sdpa")
    assert torch.equal(run_plain(model), clean)


@torch.no_grad()
def run_plain(model):
    return model(IDS)[0]


@torch.no_grad()
def test_another_model_may_be_traced_while_one_is_watched(tiny_llama, tiny_gpt2):
    watched, reading = traceable(tiny_llama), Reading()
    alone = run(watched, IDS)
    with watched.running():
        trace(tiny_gpt2, IDS)
        again = run(watched, IDS, reading)
    assert torch.equal(again, alone)
    assert [site.name for site, _ in reading.seen[::7]] == [site.name for site in watched.sites()]
    own = tiny_llama.model.layers[2].self_attn.o_proj.weight
    projection = watched.output_projection(watched.sites()[2])
    assert projection.weight.data_ptr() == own.data_ptr()


def test_the_traces_layers_are_those_of_the_same_model_after_its_weights_changed(tiny_llama):
    before = trace(tiny_llama, IDS)[1].query.clone()
    with torch.no_grad():
        tiny_llama.model.layers[1].self_attn.q_proj.weight.mul_(2)
    assert torch.allclose(trace(tiny_llama, IDS)[1].query, 2 * before)


# ------------------------------------------------------------------------------------------ refused


def test_a_model_without_attention_modules_is_refused(tiny_llama):
    class Plain(type(tiny_llama)):
        pass

    bare = Plain(tiny_llama.config)
    bare.model.layers = nn.ModuleList()
    with pytest.raises(TraceError) as caught:
        trace(bare, IDS)
    assert "none of its modules is called attention" in str(caught.value)


def test_layers_that_were_not_seen_are_named(tiny_llama):
    class QuietAttention(nn.Module):
        def forward(self, hidden_states, **_given):
            return hidden_states, None

    tiny_llama.config.name_or_path = "tiny"
    tiny_llama.model.layers[1].self_attn = QuietAttention()
    with pytest.raises(TraceError) as caught:
        trace(tiny_llama, IDS)
    assert str(caught.value) == (
        "tiny cannot be traced whole: 1 of its 3 attention layers compute attention elsewhere and "
        "were not seen: model.layers.1.self_attn"
    )


def test_attention_where_no_layer_was_expected_is_named_too(tiny_llama):
    class Mixer(type(tiny_llama.model.layers[0].self_attn)):
        pass

    tiny_llama.config.name_or_path = "tiny"
    tiny_llama.model.layers[1].self_attn.__class__ = Mixer
    with pytest.raises(TraceError) as caught:
        trace(tiny_llama, IDS)
    assert str(caught.value) == (
        "tiny cannot be traced whole: attention happens where no layer was expected: Mixer"
    )


def test_a_layer_that_runs_twice_is_refused(tiny_llama):
    tiny_llama.model.layers[2] = tiny_llama.model.layers[1]
    with pytest.raises(TraceError) as caught:
        trace(tiny_llama, IDS)
    assert str(caught.value) == (
        "model.layers.1.self_attn attends more than once in one run: calls of one module (shared "
        "weights, attention in parts) are not told apart, so this model cannot be traced"
    )
