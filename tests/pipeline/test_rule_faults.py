"""What is wrong with a rule is said at once, by name, with what was got."""

import pytest
import torch

from clearhead.masks import causal_mask
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.rule_faults import four_axes, rule_faults
from clearhead.positions.bias import AlibiBias, T5RelativeBias

FULL = (2, 4, 5, 7)
NO_START = (
    "query_start must be an integer or integers (2,), one a batch row, "
    "got torch.float32 of shape (2,)"
)
NO_MASK = (
    "mask must be a clearhead mask (Mask.from_tensor makes one, where True may look), got Tensor"
)


def _rule(**values: object) -> ScoreRule:
    """A rule as a caller without type checks makes it."""
    rule = ScoreRule()
    for name, value in values.items():
        object.__setattr__(rule, name, value)
    return rule


def test_a_rule_that_fits_has_no_fault() -> None:
    rule = ScoreRule(
        scale=0.1,
        softcap=30.0,
        bias=torch.zeros(4, 1, 7),
        mask=causal_mask(),
        sinks=torch.zeros(4),
        query_start=torch.tensor([0, 2]),
    )
    assert rule_faults(rule, FULL) == []


def test_sizes_and_numbers_are_all_said() -> None:
    rule = _rule(
        scale=float("nan"),
        softcap=0.0,
        bias=torch.zeros(3, 7),
        sinks=torch.zeros(5),
        query_start=torch.zeros(2),
    )
    assert rule_faults(rule, FULL) == [
        "softcap must be finite and above 0, got 0.0; None is no cap",
        "scale must be finite, got nan",
        "bias must broadcast to (batch, heads, n, m) = (2, 4, 5, 7), got (3, 7)",
        "sinks must have one logit a head, shape (4,), got (5,)",
        NO_START,
    ]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("scale", "0.1", "scale must be a number, got str"),
        ("softcap", 1j, "softcap must be a number, got complex"),
        ("bias", 5.0, "bias must be a tensor or a position bias, got float"),
        ("sinks", [0.0] * 4, "sinks must be a tensor, got list"),
        ("query_start", 2.0, "query_start must be an integer, or one a batch row, got float"),
        ("query_start", True, "query_start must be an integer, or one a batch row, got bool"),
        (
            "query_start",
            torch.tensor(True),
            (
                "query_start must be an integer or integers (2,), one a batch row, "
                "got torch.bool of shape ()"
            ),
        ),
        ("key_start", "a", "key_start must be an integer, got str"),
        ("key_start", None, "key_start must be an integer, got NoneType"),
        (
            "sinks",
            torch.ones(4, dtype=torch.bool),
            "sinks must be floating point, got torch.bool",
        ),
        ("mask", torch.ones(5, 7, dtype=torch.bool), NO_MASK),
    ],
)
def test_a_value_of_another_kind_is_named(name: str, value: object, said: str) -> None:
    assert rule_faults(_rule(**{name: value}), FULL) == [said]


def test_a_position_bias_asks_where_the_queries_stand_and_fits_the_heads() -> None:
    several = "5 queries can stand at several places among 7 keys"
    what = "the position of the first query: keys - queries where they are the last tokens"
    t5 = "T5RelativeBias(heads=4, buckets=32, max_distance=128, bidirectional=True)"
    assert rule_faults(ScoreRule(bias=AlibiBias(3)), FULL) == [
        "bias must have as many heads as query, 4, got AlibiBias(heads=3)",
        f"AlibiBias(heads=3): expected query_start=, because {several}; give {what}",
    ]
    assert rule_faults(ScoreRule(softcap=0.0, bias=T5RelativeBias(4)), FULL) == [
        "softcap must be finite and above 0, got 0.0; None is no cap",
        f"{t5}: expected query_start=, because {several}; give {what}",
    ]
    assert rule_faults(ScoreRule(bias=AlibiBias(4), query_start=2), FULL) == []
    assert rule_faults(ScoreRule(bias=AlibiBias(4)), (2, 4, 7, 7)) == []


def test_axes_are_filled_up_in_front() -> None:
    assert four_axes(torch.Size([3, 4])) == (1, 1, 3, 4)
