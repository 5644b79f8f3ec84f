"""Llama 4's layers: which turn, which look at chunks, which have experts."""

import pytest

from clearhead.errors import CheckpointError
from clearhead.transformer.config import Experts, QueryTemperature
from clearhead.transformer.families.known import from_hugging_face
from clearhead.transformer.families.llama4 import LLAMA4

KEYS = {
    "model_type": "llama4_text",
    "vocab_size": 9,
    "hidden_size": 16,
    "intermediate_size": 6,
    "intermediate_size_mlp": 10,
    "num_hidden_layers": 8,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "attention_chunk_size": 5,
}


def _kinds(**keys):
    config = from_hugging_face({**KEYS, **keys})
    return config, [config.layer_kind(n) for n in range(config.layers)]


def test_every_fourth_layer_has_no_positions_no_chunks_and_a_temperature():
    config, kinds = _kinds()
    heat = QueryTemperature(strength=0.1, floor=8192.0)
    for n, kind in enumerate(kinds):
        far = n % 4 == 3
        assert (config.rotary(n) is None) == far
        assert kind.chunk == (None if far else 5)
        assert kind.temperature == (heat if far else None)


def test_neighbours_are_a_pair_that_turns_and_what_turned_is_normed():
    config, _ = _kinds()
    rotary = config.rotary(0)
    assert rotary is not None
    assert (rotary.interleaved, rotary.theta) == (True, 500_000.0)
    assert config.query_key_norm == "rotated"
    assert _kinds(use_qk_norm=False)[0].query_key_norm is None


def test_experts_stand_in_every_nth_layer_or_where_they_are_named():
    experts = Experts(count=16, chosen=1, d_ff=6)
    config, kinds = _kinds(interleave_moe_layer_step=2)
    assert [kind.experts for kind in kinds] == [None, experts] * 4
    assert config.d_ff == 10
    _, kinds = _kinds(moe_layers=[0])
    assert [kind.experts for kind in kinds] == [experts, *[None] * 7]


def test_the_list_of_layers_that_turn_goes_before_the_interval():
    config, _ = _kinds(no_rope_layers=[0, 1] * 4)
    assert [config.rotary(n) is None for n in range(8)] == [True, False] * 4


def test_a_list_of_another_length_is_refused():
    with pytest.raises(CheckpointError) as caught:
        _kinds(no_rope_layers=[1, 0])
    assert "no_rope_layers must have one number for each of 8 layers" in str(caught.value)


def test_gates_and_ups_of_all_experts_lie_side_by_side():
    names = ["layers.1.feed_forward.gates", "layers.1.feed_forward.ups"]
    (stored,) = LLAMA4.stored(names, gated=True)
    assert stored.theirs == "model.layers.1.feed_forward.experts.gate_up_proj"
    assert tuple(stored.layout.shape([(4, 16, 6), (4, 16, 6)])) == (4, 16, 12)


@pytest.mark.parametrize("empty", [None, []])
def test_without_a_list_every_so_manyth_layer_does_not_turn(empty):
    config, _ = _kinds(no_rope_layers=empty, no_rope_layer_interval=2)
    assert [config.rotary(n) is None for n in range(8)] == [False, True] * 4


def test_kinds_of_attention_may_be_named_apart():
    named = ["full_attention", "chunked_attention"] * 4
    config, kinds = _kinds(layer_types=named)
    assert [kind.chunk for kind in kinds] == [None, 5] * 4
    assert [config.rotary(n) is None for n in (2, 3)] == [False, True]
    assert [kind.chunk for kind in _kinds(attention_chunk_size=None)[1]] == [None] * 8


def test_kinds_that_are_not_one_a_layer_are_refused():
    with pytest.raises(CheckpointError) as caught:
        _kinds(layer_types=["chunked_attention"])
    assert str(caught.value) == (
        "the config of this llama4_text model: layer_types must be a list of 8 words "
        "'chunked_attention' or 'full_attention', got ['chunked_attention']"
    )


def test_more_experts_for_a_token_than_there_are_is_refused():
    with pytest.raises(CheckpointError) as caught:
        _kinds(num_experts_per_tok=17, interleave_moe_layer_step=8)
    experts = Experts(count=16, chosen=17, d_ff=6)
    assert str(caught.value) == (
        "the config of this llama4_text model: these values make no Transformer: experts of "
        "pattern[7] must be a positive count, at most as many chosen, and a positive d_ff, "
        f"got {experts!r}"
    )


def test_a_temperature_may_be_off_or_another():
    assert _kinds(attn_temperature_tuning=False)[1][3].temperature is None
    heat = QueryTemperature(strength=0.2, floor=3.0)
    assert _kinds(attn_scale=0.2, floor_scale=3)[1][3].temperature == heat
