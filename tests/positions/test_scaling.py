"""A scaling is a plain value that refuses what means nothing."""

import math
import subprocess
import sys

import pytest

from clearhead.errors import InputError
from clearhead.positions.scaling import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    YarnScaling,
    longrope_attention_factor,
    yarn_attention_factor,
)


def test_scalings_compare_by_what_they_say():
    assert LinearScaling(2.0) == LinearScaling(2.0) != LinearScaling(3.0)
    assert LinearScaling(2.0) != DynamicScaling(2.0, 64)
    scalings = {Llama3Scaling(8.0, 1.0, 4.0, 64), Llama3Scaling(8.0, 1.0, 4.0, 64)}
    assert len(scalings) == 1
    with pytest.raises(AttributeError):
        LinearScaling(2.0).factor = 3.0


def test_a_scaling_is_named_without_torch():
    code = "import sys, clearhead.positions.scaling; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_attention_factors_by_hand():
    assert yarn_attention_factor(math.e) == pytest.approx(1.1)
    assert yarn_attention_factor(math.e, mscale=2.0, mscale_all_dim=1.0) == pytest.approx(1.2 / 1.1)
    assert yarn_attention_factor(math.e, mscale=2.0) == yarn_attention_factor(math.e)
    assert yarn_attention_factor(math.e, mscale=0.0, mscale_all_dim=1.0) == pytest.approx(1.1)
    assert longrope_attention_factor(32.0, original_context=4096) == pytest.approx(
        math.sqrt(1 + 5 / 12)
    )
    assert yarn_attention_factor(0.5) == longrope_attention_factor(1.0, original_context=64) == 1.0


@pytest.mark.parametrize(
    "weights", [{}, {"mscale": 0.7}, {"mscale": 1.3, "mscale_all_dim": 0.7}, {"mscale_all_dim": 1}]
)
@pytest.mark.parametrize("factor", [0.5, 1.0, 4.0, 40.0])
def test_attention_factors_are_those_of_transformers(factor, weights):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    def theirs(kind: str, **rope: object) -> float:
        rope = {"rope_type": kind, "rope_theta": 10_000.0, "factor": factor, **rope}
        rope["original_max_position_embeddings"] = 64
        config = LlamaConfig(head_dim=4, max_position_embeddings=4096, rope_parameters=rope)
        return ROPE_INIT_FUNCTIONS[kind](config)[1]

    assert yarn_attention_factor(factor, **weights) == theirs("yarn", **weights)
    assert longrope_attention_factor(factor, original_context=64) == theirs(
        "longrope", short_factor=[1.0, 1.0], long_factor=[1.0, 1.0]
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: LinearScaling(0.0),
            "LinearScaling: factor must be a positive finite number, got 0.0",
        ),
        (
            lambda: DynamicScaling(math.inf, 6.5),
            (
                "DynamicScaling, 2 faults:\n"
                "  - factor must be a positive finite number, got inf\n"
                "  - original_context must be a positive whole number, got 6.5"
            ),
        ),
        (
            lambda: YarnScaling(4.0, 0, 0.0, beta_fast=1.0, beta_slow=1.0),
            (
                "YarnScaling, 3 faults:\n"
                "  - original_context must be a positive whole number, got 0\n"
                "  - attention_factor must be a positive finite number, got 0.0\n"
                "  - beta_slow (1.0) must be below beta_fast (1.0)"
            ),
        ),
        (
            lambda: YarnScaling(4.0, 64, 1.0, beta_fast=-1.0),
            "YarnScaling: beta_fast must be a positive finite number, got -1.0",
        ),
        (
            lambda: LongRopeScaling((1.0, 0.0), (1.0,), 64, 1.0),
            (
                "LongRopeScaling, 2 faults:\n"
                "  - short_factors[1] must be a positive finite number, got 0.0\n"
                "  - short_factors and long_factors must have one number a pair each, got 2 and 1"
            ),
        ),
        (
            lambda: LongRopeScaling((), (), 64, 1.0),
            (
                "LongRopeScaling: "
                "short_factors and long_factors must have one number a pair each, got 0 and 0"
            ),
        ),
        (
            lambda: Llama3Scaling(-8.0, 4.0, 4.0, 64),
            (
                "Llama3Scaling, 2 faults:\n"
                "  - factor must be a positive finite number, got -8.0\n"
                "  - low_frequency_factor (4.0) must be below high_frequency_factor (4.0)"
            ),
        ),
        (
            lambda: Llama3Scaling(8.0, 0.0, 4.0, 64),
            "Llama3Scaling: low_frequency_factor must be a positive finite number, got 0.0",
        ),
    ],
)
def test_what_means_nothing_is_refused(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == message
