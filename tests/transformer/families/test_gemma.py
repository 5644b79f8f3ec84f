"""Gemma's scale, norms, caps, and which of its layers have a window."""

import pytest

from clearhead.positions.kinds import Rotary
from clearhead.positions.scaling import LinearScaling
from clearhead.transformer.families.known import from_hugging_face

SIZES = {
    "vocab_size": 9,
    "hidden_size": 16,
    "intermediate_size": 8,
    "num_hidden_layers": 7,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
GEMMA2 = {"model_type": "gemma2", **SIZES}
GEMMA3 = {"model_type": "gemma3_text", **SIZES}


@pytest.mark.parametrize("keys", [GEMMA2, GEMMA3])
def test_case_18_the_scale_is_the_configs_and_not_the_heads(keys):
    assert from_hugging_face({**keys, "query_pre_attn_scalar": 224}).scale == 224**-0.5
    assert from_hugging_face(keys).scale == 256**-0.5


@pytest.mark.parametrize("keys", [GEMMA2, GEMMA3])
def test_norms_stand_around_each_part_and_learn_differences_from_1(keys):
    config = from_hugging_face(keys)
    assert (config.norm_place, config.norm_offset, config.embedding_scale) == ("around", 1.0, 4.0)
    assert config.activation == "gelu_tanh"


def test_caps_are_gemma_2s_unless_null_and_none_of_gemma_3():
    config = from_hugging_face(GEMMA2)
    assert (config.softcap, config.logits_softcap) == (50.0, 30.0)
    off = {"attn_logit_softcapping": None, "final_logit_softcapping": None}
    config = from_hugging_face({**GEMMA2, **off})
    assert (config.softcap, config.logits_softcap) == (None, None)
    config = from_hugging_face(GEMMA3)
    assert (config.softcap, config.logits_softcap) == (None, None)


def _windows(keys):
    config = from_hugging_face({**keys, "sliding_window": 5})
    return [config.layer_kind(n).window for n in range(config.layers)]


def test_every_other_layer_of_gemma_2_has_a_window():
    assert _windows(GEMMA2) == [5, None, 5, None, 5, None, 5]


@pytest.mark.parametrize("spelling", [{}, {"sliding_window_pattern": 6}])
def test_five_of_six_layers_of_gemma_3_have_a_window(spelling):
    assert _windows({**GEMMA3, **spelling}) == [5, 5, 5, 5, 5, None, 5]


def test_a_list_of_layers_goes_before_the_pattern():
    kinds = ["full_attention", "sliding_attention"] * 3 + ["full_attention"]
    assert _windows({**GEMMA3, "layer_types": kinds}) == [None, 5, None, 5, None, 5, None]


@pytest.mark.parametrize(
    "spelling",
    [
        {"rope_local_base_freq": 7.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        {
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 7.0},
                "full_attention": {
                    "rope_type": "linear",
                    "factor": 8.0,
                    "rope_theta": 1_000_000.0,
                },
            }
        },
    ],
)
def test_near_and_far_layers_turn_by_their_own_angles(spelling):
    config = from_hugging_face({**GEMMA3, **spelling})
    assert config.rotary(0) == Rotary(theta=7.0)
    assert config.rotary(5) == Rotary(theta=1_000_000.0, scaling=LinearScaling(8.0))
