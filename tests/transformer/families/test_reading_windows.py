"""What many families spell alike: which layers have a window."""

import pytest

from clearhead.transformer.config import LayerKind
from clearhead.transformer.families.keys import ConfigKeys
from clearhead.transformer.families.reading import layer_windows, shortest

SLIDING, FULL = "sliding_attention", "full_attention"


def windows(written: dict[str, object], **given: object) -> list[int | None]:
    keys = ConfigKeys(written)
    pattern = layer_windows(keys, **{"layers": 4, "kinds": [SLIDING], "window": 9, **given})
    assert keys.finish() == []
    return [kind.window for kind in pattern]


def test_windows_where_nothing_is_said_are_the_familys():
    assert windows({}) == [9]
    assert windows({}, window=None) == [None]
    assert windows({}, kinds=[SLIDING, FULL]) == [9, None]
    assert windows({}, kinds=[FULL]) == [None]


def test_a_window_that_is_said_counts_and_null_is_none():
    assert windows({"sliding_window": 3}) == [3]
    assert windows({"sliding_window": None}) == [None]
    assert windows({"sliding_window": 3}, kinds=[FULL, SLIDING]) == [None, 3]


def test_kinds_that_are_said_count_and_are_cut_to_their_pattern():
    assert windows({"layer_types": [SLIDING, FULL, SLIDING, FULL]}) == [9, None]
    assert windows({"layer_types": [FULL] * 4}) == [None]
    assert windows({"layer_types": [FULL, SLIDING, SLIDING, FULL]}) == [None, 9, 9]


@pytest.mark.parametrize(
    "kinds", [[SLIDING] * 3, [SLIDING] * 5, [FULL, "linear_attention"] * 2, "full"]
)
def test_kinds_that_are_not_one_a_layer_or_not_known_are_refused(kinds):
    keys = ConfigKeys({"layer_types": kinds})
    layer_windows(keys, layers=4, kinds=[SLIDING], window=9)
    expected = "a list of 4 words 'sliding_attention' or 'full_attention'"
    assert keys.finish() == [f"layer_types must be {expected}, got {kinds!r}"]


@pytest.mark.parametrize("count", range(1, 9))
def test_the_shortest_pattern_gives_the_layers_again(count, generator):
    import torch

    for _ in range(9):
        chosen = torch.randint(1, 3, (count,), generator=generator).tolist()
        kinds = [LayerKind(window=window) for window in chosen]
        pattern = shortest(kinds)
        assert [pattern[n % len(pattern)] for n in range(count)] == kinds
        for length in range(1, len(pattern)):
            assert [kinds[n % length] for n in range(count)] != kinds


def test_no_layers_have_an_empty_pattern():
    assert shortest([]) == ()
