"""What many families spell alike is told in their words."""

from typing import Any

import pytest

from clearhead.positions.kinds import Alibi, Rotary
from clearhead.positions.scaling import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    YarnScaling,
)
from clearhead.transformer.config import LayerKind, TransformerConfig
from clearhead.transformer.families.keys import ACTIVATIONS
from clearhead.transformer.families.telling import (
    ACTIVATION_NAMES,
    layer_types,
    rotary,
    scalar,
    turning_part,
)

SIZES: dict[str, Any] = {"vocabulary_size": 30, "context_length": 64, "d_model": 32, "d_ff": 48}


def config(**changed: Any) -> TransformerConfig:
    return TransformerConfig(**SIZES | {"layers": 3, "heads": 4} | changed)


def test_every_activation_has_a_name_that_means_it() -> None:
    assert all(ACTIVATIONS[name] == ours for ours, name in ACTIVATION_NAMES.items())
    assert set(ACTIVATION_NAMES) == set(ACTIVATIONS.values())


def test_windows() -> None:
    pattern = (LayerKind(window=3), LayerKind())
    assert layer_types(config(pattern=pattern)) == [
        "sliding_attention",
        "full_attention",
        "sliding_attention",
    ]


@pytest.mark.parametrize(
    ("scale", "expected"), [(None, 8.0), (224**-0.5, 224), (0.3, 0.3**-2), (1e-30, 1e60)]
)
def test_a_scale_is_one_over_a_root(scale: float | None, expected: float) -> None:
    told = scalar(config(scale=scale))
    assert told == pytest.approx(expected, rel=1e-15, abs=0)
    assert isinstance(told, int) == isinstance(expected, int) or told > 1e50


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        (None, {"rope_type": "default"}),
        (LinearScaling(2.0), {"rope_type": "linear", "factor": 2.0}),
        (DynamicScaling(2.0, 64), {"rope_type": "dynamic", "factor": 2.0}),
        (
            YarnScaling(4.0, 16, 1.5),
            {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 16,
                "attention_factor": 1.5,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "truncate": True,
            },
        ),
        (
            LongRopeScaling((1.0,) * 4, (2.0,) * 4, 16, 1.25),
            {
                "rope_type": "longrope",
                "factor": 4.0,
                "short_factor": [1.0] * 4,
                "long_factor": [2.0] * 4,
                "original_max_position_embeddings": 16,
                "attention_factor": 1.25,
            },
        ),
        (
            Llama3Scaling(8.0, 1.0, 4.0, 16),
            {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
            },
        ),
    ],
)
def test_positions(scaling: Any, expected: dict[str, Any]) -> None:
    turning = Rotary(theta=500.0, scaling=scaling)
    assert rotary(turning, config()) == {"rope_theta": 500.0, **expected}


def test_other_positions_are_not_told() -> None:
    assert rotary(Alibi(), config()) == rotary(None, config()) == {}
    assert turning_part(config(positions=Alibi())) == {"partial_rotary_factor": 1.0}
    assert turning_part(config(positions=Rotary(width=2))) == {"partial_rotary_factor": 0.25}
