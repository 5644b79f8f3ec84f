"""How many tokens there may be: both numbers are told before anything is read."""

import pytest

from clearhead.errors import TokenError
from clearhead.positions.kinds import Rotary, T5Buckets
from clearhead.positions.scaling import DynamicScaling
from clearhead.transformer.generation.limits import (
    Limit,
    check_sources,
    longest_cached,
    new_tokens,
)
from tests.transformer.tiny_models import tiny_config

CONFIG = tiny_config(context_length=1000)


def told(lengths: list[int], asked: int | None, config=CONFIG) -> str:
    with pytest.raises(TokenError) as caught:
        new_tokens(config, [[0] * length for length in lengths], asked)
    return str(caught.value)


def test_what_is_asked_for_or_256_or_what_fits() -> None:
    prompts = [[0] * 10, [0] * 744, [0] * 745, [0] * 999]
    assert new_tokens(CONFIG, prompts, None) == (
        Limit(256, "max_new_tokens"),
        Limit(256, "max_new_tokens"),
        Limit(255, "context"),
        Limit(1, "context"),
    )
    assert new_tokens(CONFIG, prompts[:1], 990) == (Limit(990, "max_new_tokens"),)


def test_a_model_without_an_end() -> None:
    config = tiny_config(context_length=None, positions=T5Buckets())
    assert new_tokens(config, [[0] * 5000], 9000) == (Limit(9000, "max_new_tokens"),)
    assert new_tokens(config, [[0] * 5000], None) == (Limit(256, "max_new_tokens"),)


def test_too_long() -> None:
    fits = "this does not fit into the model's context"
    assert told([1000], None) == (
        f"{fits}: the prompt has 1,000 tokens, and the model reads at most 1,000, new ones "
        "included: shorten it"
    )
    assert told([1], 1200) == (
        f"{fits}: the prompt has 1 token and max_new_tokens is 1,200, together 1,201, and the "
        "model reads at most 1,000: ask for at most 999 new ones, or shorten it"
    )
    assert told([10, 980, 2000], 30) == (
        f"{fits}, 2 faults:\n"
        "  - prompt 1 has 980 tokens and max_new_tokens is 30, together 1,010, and the model reads "
        "at most 1,000: ask for at most 20 new ones, or shorten it\n"
        "  - prompt 2 has 2,000 tokens, and the model reads at most 1,000, new ones included: "
        "shorten it"
    )


def test_dynamic_scaling_stretches_the_context() -> None:
    scaling = DynamicScaling(2.5, original_context=1000)
    config = tiny_config(context_length=1000, positions=Rotary(scaling=scaling))
    assert longest_cached(config) == 1000
    assert longest_cached(CONFIG) is None
    assert new_tokens(config, [[0] * 2000], 500) == (Limit(500, "max_new_tokens"),)
    assert "the model reads at most 2,500" in told([2000], 501, config)


def test_what_an_encoder_reads() -> None:
    check_sources(CONFIG, [[0] * 1000])
    with pytest.raises(TokenError) as caught:
        check_sources(CONFIG, [[0] * 1000, [0] * 1001])
    assert str(caught.value) == (
        "this does not fit into the model's context: prompt 1 has 1,001 tokens, and the encoder "
        "reads at most 1,000: shorten it"
    )
