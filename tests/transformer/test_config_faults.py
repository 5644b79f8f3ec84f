"""What makes no Transformer is said when the configuration is made, all of it at once."""

import math

import pytest

from clearhead.errors import InputError
from clearhead.positions.kinds import Learned, Rotary, Sinusoidal
from clearhead.positions.scaling import DynamicScaling, LongRopeScaling
from clearhead.transformer.config import Experts, LayerKind, QueryTemperature, TransformerConfig
from clearhead.transformer.config_faults import config_faults
from tests.transformer.test_config import SIZES, config


def faults(**changed: object) -> list[str]:
    """What is said of the fields of a right configuration with some changed."""
    return config_faults({**vars(config()), "kv_heads": 0, "d_k": 0, "d_v": 0, **changed})


def test_a_right_configuration_has_no_fault():
    assert faults() == []


def test_every_fault_of_the_values_is_named_at_once():
    with pytest.raises(InputError) as caught:
        TransformerConfig(**{**SIZES, "layers": 0, "d_k": 2.5, "norm_epsilon": math.nan})
    assert str(caught.value) == (
        "these values make no Transformer, 3 faults:\n"
        "  - layers must be a positive whole number, got 0\n"
        "  - d_k must be a whole number of 0 or more, got 2.5\n"
        "  - norm_epsilon must be a positive finite number, got nan"
    )


def test_every_wrong_combination_is_named_at_once():
    with pytest.raises(InputError) as caught:
        config(
            heads=5,
            kv_heads=3,
            layers=1,
            predicts=False,
            tied_embeddings=True,
            pattern=(LayerKind(window=0), LayerKind(scale=-1.0)),
        )
    assert str(caught.value) == (
        "these values make no Transformer, 6 faults:\n"
        "  - d_model (32) must be a multiple of heads (5) where d_k is left out\n"
        "  - heads (5) must be a multiple of kv_heads (3)\n"
        "  - window of pattern[0] must be a positive whole number, got 0\n"
        "  - scale of pattern[1] must be a positive number, got -1.0\n"
        "  - pattern has 2 kinds, the model 1 layers\n"
        "  - tied_embeddings is set, and the model makes no logits (predicts is False)"
    )


def test_combinations_are_judged_only_where_every_value_alone_is_right():
    assert faults(layers=0, kv_heads=3) == ["layers must be a positive whole number, got 0"]


@pytest.mark.parametrize("name", ["vocabulary_size", "d_model", "d_ff", "layers", "heads"])
@pytest.mark.parametrize("value", [0, -1, 1.0, "1", True, None])
def test_a_size_is_a_positive_whole_number(name, value):
    assert faults(**{name: value}) == [f"{name} must be a positive whole number, got {value!r}"]


@pytest.mark.parametrize("name", ["kv_heads", "d_k", "d_v", "token_types"])
@pytest.mark.parametrize("value", [-1, 1.0, None, False])
def test_what_may_be_left_out_is_no_less_than_0(name, value):
    assert faults(**{name: value}) == [f"{name} must be a whole number of 0 or more, got {value!r}"]


@pytest.mark.parametrize("value", [0, -3, 2.0, True])
def test_a_context_is_a_number_or_none(value):
    expected = "context_length must be a positive whole number or None"
    assert faults(context_length=value) == [f"{expected}, got {value!r}"]


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, 10**400, "1", True])
def test_factors_are_positive(value):
    for name in ("norm_epsilon", "embedding_scale", "logits_scale"):
        assert faults(**{name: value}) == [
            f"{name} must be a positive finite number, got {value!r}"
        ]
    for name in ("scale", "softcap", "logits_softcap"):
        expected = f"{name} must be a positive finite number or None, got {value!r}"
        assert faults(**{name: value}) == [expected]


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "1"])
def test_an_offset_of_norms_is_finite(value):
    expected = f"norm_offset must be 0 or a positive finite number, got {value!r}"
    assert faults(norm_offset=value) == [expected]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("kind", "'decoder', 'encoder'"),
        ("norm", "'rms', 'layer'"),
        ("norm_place", "'before', 'after', 'around'"),
        ("query_key_norm", "'head', 'rotated', None"),
        ("activation", "'gelu', 'gelu_tanh', 'quick_gelu', 'relu', 'silu'"),
    ],
)
def test_a_choice_that_is_none_is_answered_with_those_there_are(name, known):
    assert faults(**{name: "swish"}) == [f"{name} must be one of {known}, got 'swish'"]


def test_positions_are_of_a_known_kind():
    known = "Learned, Sinusoidal, Rotary, Alibi, T5Buckets"
    assert faults(positions="rope") == [f"positions must be one of {known} or None, got 'rope'"]
    assert faults(positions=Rotary) == [f"positions must be one of {known} or None, got {Rotary}"]


@pytest.mark.parametrize("value", [0, 1, None, "no"])
def test_what_is_on_or_off_is_true_or_false(value):
    assert faults(gated=value, sinks=value) == [
        f"sinks must be True or False, got {value!r}",
        f"gated must be True or False, got {value!r}",
    ]


@pytest.mark.parametrize("pattern", [(), [LayerKind()], None, (None,), (LayerKind(), "full")])
def test_a_pattern_is_a_tuple_of_kinds(pattern):
    expected = f"pattern must be a tuple of at least one LayerKind, got {pattern!r}"
    assert faults(pattern=pattern) == [expected]


def test_a_layer_turns_in_a_known_way():
    assert faults(pattern=(LayerKind(), LayerKind(rotary="modle"))) == [
        "rotary of pattern[1] must be 'model', 'none' or a Rotary, got 'modle'"
    ]


# -------------------------------------------------------------------------------------- together


def test_heads_that_cannot_turn():
    assert faults(d_k=7) == ["d_k must be even and positive, got 7: numbers turn in pairs"]
    assert faults(positions=Rotary(scaling=DynamicScaling(2.0, 16)), d_k=2) == [
        "d_k must be at least 4 for DynamicScaling, got 2"
    ]
    long = LongRopeScaling((1.0, 1.0), (2.0, 2.0), original_context=8, attention_factor=1.0)
    assert faults(positions=None, pattern=(LayerKind(rotary=Rotary(scaling=long)),)) == [
        "d_k is 8, so LongRopeScaling must have 4 factors, one a pair, got 2"
    ]
    assert faults(positions=Rotary(width=10)) == ["a rotary width (10) must not be above d_k (8)"]
    assert faults(positions=Rotary(width=8)) == []


def test_a_fault_of_positions_that_several_layers_share_is_named_once():
    pattern = (LayerKind(), LayerKind(window=2), LayerKind(rotary=Rotary(width=10)))
    assert faults(positions=Rotary(width=10), pattern=pattern) == [
        "a rotary width (10) must not be above d_k (8)"
    ]


def test_faults_of_a_kind_of_layer():
    heat, some = QueryTemperature(strength=0.1, floor=0.0), Experts(count=2, chosen=3, d_ff=8)
    kind = LayerKind(window=0, chunk=True, d_ff=-1, scale=0.0, temperature=heat, experts=some)
    count = "must be a positive count, at most as many chosen, and a positive d_ff"
    assert faults(pattern=(LayerKind(), kind)) == [
        "window of pattern[1] must be a positive whole number, got 0",
        "chunk of pattern[1] must be a positive whole number, got True",
        "d_ff of pattern[1] must be a positive whole number, got -1",
        "scale of pattern[1] must be a positive number, got 0.0",
        f"temperature of pattern[1] must have positive numbers, got {heat!r}",
        f"experts of pattern[1] {count}, got {some!r}",
    ]


@pytest.mark.parametrize("name", ["layers", "d_k", "context_length"])
def test_no_size_is_above_what_64_bits_count(name):
    assert f"{name} must be at most 2**62, got {2**62 + 1}" in faults(**{name: 2**62 + 1})


@pytest.mark.parametrize("name", ["window", "chunk"])
def test_no_layer_sees_farther_than_64_bits_count(name):
    assert faults(pattern=(LayerKind(**{name: 2**62}),)) == []
    assert faults(pattern=(LayerKind(**{name: 10**20}),)) == [
        f"{name} of pattern[0] must be at most 2**62, got {10**20}"
    ]


def test_positions_that_need_another_size():
    assert faults(positions=Learned(), context_length=None) == [
        "context_length must be a number where positions are learned: one vector for each"
    ]
    assert faults(positions=Sinusoidal(), d_model=33, d_k=8) == [
        "d_model must be even for sinusoidal positions, got 33"
    ]


def test_an_encoder_that_does_not_fit():
    encoder = config(vocabulary_size=98, d_model=16, pooler=True)
    assert faults(kind="encoder", encoder=encoder) == [
        "encoder: only a decoder reads one, and kind is 'encoder'",
        "encoder must itself be of the kind 'encoder', got 'decoder'",
        "encoder must have no logits and no pooler of its own: predicts=False, pooler=False",
        "encoder shares the token embedding, so its vocabulary_size must be 99, got 98",
        "encoder shares the token embedding, so its d_model must be 32, got 16",
    ]
    assert faults(encoder="bert") == ["encoder must be a TransformerConfig or None, got 'bert'"]
    assert faults(encoder=config(kind="encoder", predicts=False, heads=2, layers=1)) == []


def test_parts_that_do_not_go_together():
    encoder = config(kind="encoder", predicts=False)
    expected = ["parallel layers are pre-norm and without cross-attention"]
    assert faults(parallel=True, norm_place="after") == expected
    assert faults(parallel=True, encoder=encoder) == expected
    assert faults(norm="layer", norm_offset=1.0) == [
        "norm_offset is for RMS norms, got 1.0 with norm 'layer'"
    ]
    told = ("logits_transform", "logits_bias", "tied_embeddings", "logits_softcap")
    set_all = {**dict.fromkeys(told, True), "logits_softcap": 30.0}
    assert faults(predicts=False, **set_all) == [
        f"{name} is set, and the model makes no logits (predicts is False)" for name in told
    ]
