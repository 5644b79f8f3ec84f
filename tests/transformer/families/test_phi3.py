"""Phi-3's fused products and two sets of frequencies."""

import torch

from clearhead.positions.scaling import LongRopeScaling
from clearhead.transformer.families.known import from_hugging_face
from clearhead.transformer.families.phi3 import PHI3

KEYS = {
    "model_type": "phi3",
    "vocab_size": 9,
    "hidden_size": 16,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
}


def test_frequencies_are_two_and_switch_at_the_first_context():
    scaling = {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    keys = {**KEYS, "rope_scaling": scaling, "original_max_position_embeddings": 16}
    rotary = from_hugging_face(keys).rotary(0)
    assert rotary is not None
    assert isinstance(rotary.scaling, LongRopeScaling)
    assert (rotary.scaling.original_context, rotary.depends_on_length) == (16, True)
    # √(1 + ln(64 / 16) / ln 16) = √1.5
    assert rotary.scaling.attention_factor == 1.5**0.5


def test_a_part_of_a_head_may_turn():
    rotary = from_hugging_face({**KEYS, "partial_rotary_factor": 0.75}).rotary(0)
    assert rotary is not None
    assert rotary.width == 6


def test_q_k_and_v_lie_below_each_other_and_so_do_gate_and_up():
    names = [f"layers.0.attention.to_{name}.weight" for name in ("query", "key", "value")]
    (stored,) = PHI3.stored(names, gated=True)
    assert stored.theirs == "model.layers.0.self_attn.qkv_proj.weight"
    shapes = [torch.Size([2, 1]), torch.Size([1, 1]), torch.Size([1, 1])]
    parts = stored.layout.split(torch.arange(4.0)[:, None], shapes, heads=2)
    assert [part.flatten().tolist() for part in parts] == [[0, 1], [2], [3]]
    (stored,) = PHI3.stored(
        [f"layers.0.feed_forward.{n}.weight" for n in ("gate", "up")], gated=True
    )
    assert stored.theirs == "model.layers.0.mlp.gate_up_proj.weight"


def test_a_window_counts_only_where_one_is_named():
    assert from_hugging_face(KEYS).layer_kind(0).window is None
    assert from_hugging_face({**KEYS, "sliding_window": 4}).layer_kind(0).window == 4
