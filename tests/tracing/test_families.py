"""Families beyond the four: each is traced exactly, or refused by name."""

import pytest
import torch
from torch import nn
from transformers import (
    AlbertConfig,
    AlbertModel,
    BloomConfig,
    BloomForCausalLM,
    DogeConfig,
    DogeForCausalLM,
    FalconConfig,
    FalconForCausalLM,
    LongT5Config,
    LongT5ForConditionalGeneration,
    MambaConfig,
    MambaForCausalLM,
    MptConfig,
    MptForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)

from clearhead.errors import NotKeptError, TraceError
from clearhead.tracing.trace import trace
from tests.tracing.closeness import assert_as_near
from tests.tracing.families import ENCODERS, TRACED, made, with_attention

LENGTH = 13  # past every window and chunk of these models


@pytest.fixture(params=TRACED)
def name(request):
    return request.param


@pytest.fixture
def model(name, seeded_weights):
    made_model = made(TRACED[name])
    for part in made_model.modules():
        if hasattr(part, "sinks"):
            nn.init.normal_(part.sinks)
    return made_model


@pytest.fixture
def ids(generator):
    return torch.randint(3, 99, (1, LENGTH), generator=generator)


@torch.no_grad()
def test_weights_and_logits_are_those_of_eager_attention(name, model, ids):
    found = trace(model, ids)
    eager = with_attention(model, "eager")
    peer = eager(ids, output_attentions=True)
    if eager._can_set_experts_implementation():
        eager.set_experts_implementation("eager")  # the other one knows no float64
    truth = eager.double()(ids, output_attentions=True)
    assert len(found.layers) == len(truth.attentions) == 2
    for layer, plain, true in zip(found, peer.attentions, truth.attentions, strict=True):
        assert_as_near(layer.weights.to_dense(), plain[0], true[0])
    assert_as_near(found.next_logits, peer.logits[0, -1], truth.logits[0, -1])
    assert found.causal == (name not in ENCODERS)


@torch.no_grad()
def test_a_softmax_of_the_traces_own_query_and_key_in_float64_gives_its_weights(model, ids):
    for layer in trace(model, ids):
        bound = layer.recorded.bound
        group = layer.query.shape[0] // layer.key.shape[0]
        key = layer.key.double().repeat_interleave(group, 0)
        scores = layer.query.double() @ key.mT * bound.scale
        if bound.softcap:
            scores = bound.softcap * torch.tanh(scores / bound.softcap)
        # where a row may look, the trace itself is asked: the law above holds it to eager's
        scores = scores.masked_fill(layer.scores.to_dense() == -torch.inf, -torch.inf)
        if bound.sinks is not None:
            sink = bound.sinks.double()[:, None, None].expand(*scores.shape[:2], 1)
            scores = torch.cat([scores, sink], -1)
        weights = scores.softmax(-1)[..., :LENGTH]
        assert (layer.weights.to_dense() - weights).abs().max() <= 5e-6
        value = layer.value.double().repeat_interleave(group, 0)
        assert (layer.context - weights @ value).abs().max() <= 5e-6 * value.abs().max()


def test_the_output_projection_is_the_linear_layer_of_that_name(model, ids):
    names = ("o_proj", "c_proj", "attention.output.dense")
    own = {
        parameter.data_ptr(): path
        for path, parameter in model.named_parameters()
        if path.removesuffix(".weight").endswith(names)
    }
    for place, layer in enumerate(trace(model, ids)):
        assert f".{place}." in own[layer.projection.weight.data_ptr()]


# ------------------------------------------------------------------------------------------ hybrids


def test_of_a_hybrid_the_attention_layers_are_traced(seeded_weights, generator):
    config = Qwen3NextConfig(
        vocab_size=99,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        layer_types=["linear_attention", "full_attention"],
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    )
    found = trace(Qwen3NextForCausalLM(config).eval(), [5, 6, 7, 8])
    assert found.layers == (1,)
    assert found[1].recorded.site.name == "model.layers.1.self_attn"
    # its context is gated before W_O: contributions would leave the gate out
    assert found.sources(by="attention").share.sum() == pytest.approx(1)
    with pytest.raises(NotKeptError) as caught:
        found.sources()
    assert str(caught.value) == (
        "contributions of layer 1 (model.layers.1.self_attn) cannot be made: there is no one "
        "linear layer that alone was handed this layer's context as it is, so W_O is not known; "
        "context, weights and sources(by='attention') are"
    )


# ------------------------------------------------------------------------------------------ refused

_SMALL = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_T5 = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
_MAMBA = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2}


def _made(build, config, **settings):
    return lambda: build(config(**settings)).eval()


BUILT = {
    "LongT5": _made(LongT5ForConditionalGeneration, LongT5Config, **_T5, decoder_start_token_id=0),
    "Bloom": _made(BloomForCausalLM, BloomConfig, vocab_size=99, hidden_size=32, n_layer=2),
    "MPT": _made(MptForCausalLM, MptConfig, vocab_size=99, d_model=32, n_layers=2, n_heads=4),
    "Falcon": _made(FalconForCausalLM, FalconConfig, **_SMALL),
    "Mamba": _made(MambaForCausalLM, MambaConfig, **_MAMBA),
    "ALBERT": _made(AlbertModel, AlbertConfig, **_SMALL, embedding_size=32),
    "Doge": _made(DogeForCausalLM, DogeConfig, **_SMALL, intermediate_size=48),
}

REFUSED = """\
Bloom: BloomForCausalLM cannot be traced: its layers compute attention themselves, not through \
transformers' attention interface
MPT: MptForCausalLM cannot be traced: its layers compute attention themselves, not through \
transformers' attention interface
Falcon: FalconForCausalLM cannot be traced: its layers compute attention themselves, not through \
transformers' attention interface
Mamba: MambaForCausalLM cannot be traced: none of its modules is called attention
ALBERT: encoder.albert_layer_groups.0.albert_layers.0.attention attends more than once in one run: \
calls of one module (shared weights, attention in parts) are not told apart, so this model \
cannot be traced
Doge: DogeForCausalLM cannot be traced: its layers ask their attention mask for .dtype as if it \
were a tensor, and clearhead forms none
LongT5: LongT5ForConditionalGeneration cannot be traced whole: 2 of its 2 encoder layers compute \
attention elsewhere and were not seen: encoder.block.0.layer.0.LocalSelfAttention, \
encoder.block.1.layer.0.LocalSelfAttention
"""


@pytest.mark.parametrize("line", REFUSED.splitlines(), ids=lambda line: line.split(":")[0])
def test_what_cannot_be_traced_is_refused_by_name(line, seeded_weights):
    family, text = line.split(": ", 1)
    model = BUILT[family]()
    with pytest.raises(TraceError) as caught:
        trace(model, [5, 6, 7])
    assert str(caught.value) == text
    assert model.config._attn_implementation != "clearhead"
