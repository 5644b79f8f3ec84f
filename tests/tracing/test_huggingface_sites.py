"""Which modules of a transformers model attend to text, and their numbers."""

import pytest
from torch import nn

from clearhead.errors import TraceError
from clearhead.tracing.huggingface_sites import attention_sites
from clearhead.tracing.trace import trace
from tests.tracing.families import OURS, TRACED, made


def told(model):
    return [(site.layer, site.kind, site.name) for site in attention_sites(model)]


def test_a_decoder_has_one_a_layer(seeded_weights):
    assert told(made(TRACED["llama"])) == [
        (0, "self", "model.layers.0.self_attn"),
        (1, "self", "model.layers.1.self_attn"),
    ]


def test_of_nested_modules_the_innermost_counts(seeded_weights):
    assert told(made(TRACED["bert"])) == [
        (0, "self", "bert.encoder.layer.0.attention.self"),
        (1, "self", "bert.encoder.layer.1.attention.self"),
    ]


def test_a_pair_has_three_kinds(seeded_weights):
    found = told(made(OURS["t5"]))
    assert [one for one in found if one[1] == "encoder"] == [
        (n, "encoder", f"encoder.block.{n}.layer.0.SelfAttention") for n in range(3)
    ]
    assert [one for one in found if one[1] == "self"] == [
        (n, "self", f"decoder.block.{n}.layer.0.SelfAttention") for n in range(2)
    ]
    assert [one for one in found if one[1] == "cross"] == [
        (n, "cross", f"decoder.block.{n}.layer.1.EncDecAttention") for n in range(2)
    ]


def test_a_layer_keeps_its_number_where_others_do_not_attend(seeded_weights):
    model = made(
        ("MiniMaxForCausalLM", {**TRACED["qwen3"][1], "num_hidden_layers": 3}),
        layer_types=["linear_attention", "linear_attention", "full_attention"],
        num_local_experts=2,
        num_experts_per_tok=1,
    )
    assert told(model) == [(2, "self", "model.layers.2.self_attn")]
    assert trace(model, [5, 6, 7, 8]).layers == (2,)


def test_a_model_without_any_is_refused():
    class Config:
        is_encoder_decoder = False

    class Nothing(nn.Module):
        config = Config()

        def get_decoder(self):
            return self

    with pytest.raises(TraceError, match=r"^Nothing cannot be traced: none of its modules is "):
        attention_sites(Nothing())


def test_attention_to_another_text_is_not_taken_for_self_attention(seeded_weights):
    model = made(TRACED["llama"])
    layer = model.model.layers[1].self_attn
    layer.register_forward_pre_hook(
        lambda _module, args, given: (args, {**given, "encoder_hidden_states": 1}),
        with_kwargs=True,
    )
    with pytest.raises(TraceError) as caught:
        trace(model, [5, 6, 7])
    assert str(caught.value) == (
        "model.layers.1.self_attn was taken for self-attention, and reads another text: this model "
        "cannot be traced"
    )


def test_attention_that_only_its_parts_show_is_not_taken_for_resting(seeded_weights):
    model = made(TRACED["llama"])
    own = model.model.layers[1].self_attn

    def forward(hidden_states, **_given):
        return own.o_proj(own.q_proj(hidden_states)), None

    class Elsewhere(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = own

        def forward(self, hidden_states, **given):
            return forward(hidden_states, **given)

    model.model.layers[1].self_attn = Elsewhere()
    with pytest.raises(TraceError) as caught:
        trace(model, [5, 6, 7])
    assert "1 of its 2 attention layers compute attention elsewhere and were not seen" in str(
        caught.value
    )


def test_a_model_whose_attention_rests_altogether_is_refused(seeded_weights):
    model = made(TRACED["llama"])
    for layer in model.model.layers:
        layer.forward = lambda hidden_states, **_given: hidden_states
    with pytest.raises(TraceError, match=r" cannot be traced: none of its attention layers ran$"):
        trace(model, [5, 6, 7])
