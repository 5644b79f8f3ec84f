"""A configuration: what is left out, what differs from layer to layer, and that it is a value."""

import subprocess
import sys
from dataclasses import FrozenInstanceError

import pytest

from clearhead.positions.kinds import Alibi, Learned, Rotary, Sinusoidal, T5Buckets
from clearhead.positions.scaling import LinearScaling
from clearhead.transformer.config import Experts, LayerKind, TransformerConfig

SIZES = {
    "vocabulary_size": 99,
    "context_length": 64,
    "d_model": 32,
    "d_ff": 48,
    "layers": 7,
    "heads": 4,
}


def config(**changed: object) -> TransformerConfig:
    return TransformerConfig(**{**SIZES, **changed})


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        ({}, (4, 8, 8)),
        ({"kv_heads": 2}, (2, 8, 8)),
        ({"d_k": 6}, (4, 6, 6)),
        ({"d_v": 5}, (4, 8, 5)),
        ({"d_k": 6, "d_v": 5, "kv_heads": 1}, (1, 6, 5)),
        ({"d_model": 33, "d_k": 2}, (4, 2, 2)),
    ],
)
def test_what_is_left_out_follows_from_what_is_there(given, becomes):
    made = config(**given)
    assert (made.kv_heads, made.d_k, made.d_v) == becomes


def test_a_configuration_is_a_value():
    made = config(pattern=(LayerKind(window=4), LayerKind()))
    assert made == config(pattern=(LayerKind(window=4), LayerKind()), kv_heads=4, d_k=8, d_v=8)
    assert hash(made) == hash(config(pattern=(LayerKind(window=4), LayerKind())))
    assert made != config()
    with pytest.raises(FrozenInstanceError):
        made.layers = 3


def test_kinds_of_layers_are_repeated_to_the_last():
    kinds = (
        LayerKind(window=4),
        LayerKind(chunk=3),
        LayerKind(experts=Experts(count=3, chosen=1, d_ff=8)),
    )
    made = config(pattern=kinds)
    assert [kinds.index(made.layer_kind(layer)) for layer in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_a_layer_turns_as_the_model_does_or_in_its_own_way_or_not_at_all():
    own = Rotary(theta=5.0, scaling=LinearScaling(2.0))
    kinds = (LayerKind(), LayerKind(rotary="none"), LayerKind(rotary=own))
    made = config(positions=Rotary(theta=7.0), pattern=kinds)
    assert [made.rotary(layer) for layer in range(4)] == [
        Rotary(theta=7.0),
        None,
        own,
        Rotary(theta=7.0),
    ]


@pytest.mark.parametrize("positions", [None, Learned(), Sinusoidal(), Alibi(), T5Buckets()])
def test_a_model_without_rotary_positions_turns_nothing(positions):
    made = config(positions=positions, pattern=(LayerKind(), LayerKind(rotary=Rotary())))
    assert made.rotary(0) is None
    assert made.rotary(1) == Rotary()


def test_no_torch_is_imported():
    code = (
        "import sys; from clearhead.transformer.config import TransformerConfig; "
        f"print(TransformerConfig(**{SIZES!r}).d_k, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["8", "False"]
