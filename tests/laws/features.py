"""What a call of attention can be made of, and a small set of calls where every two things meet."""

import itertools
import random
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from clearhead.masks import (
    Mask,
    causal_mask,
    chunked_mask,
    document_mask,
    padding_mask,
    prefix_lm_mask,
    sliding_window_mask,
)
from clearhead.positions.bias import AlibiBias
from clearhead.positions.position_bias import PositionBias
from tests.laws.calls import t5_bias

__all__ = ["BIASES", "FEATURES", "MASK_KINDS", "Case", "covering_array", "pairs", "possible"]

Case = Mapping[str, object]
Pair = tuple[tuple[str, object], tuple[str, object]]

#: The feature table: each call takes one value of every line.
FEATURES: dict[str, tuple[object, ...]] = {
    "mask": (
        *("none", "causal", "window", "padding", "document"),
        *("prefix", "chunk", "tree", "tensor", "mask_mod"),
    ),
    "bias": ("none", "(n, m)", "(heads, n, m)", "with -inf", "ALiBi", "T5"),
    "softcap": (None, 3.0),
    "sinks": ("none", "one a head"),
    "kv_heads": (1, 2, 4),  # of four query heads
    "d_v": (24, 16, 40),  # d_k is 24: equal, narrower, wider
    "strides": ("contiguous", "transposed", "expanded", "inner", "every second"),
    "dtype": (torch.float32, torch.bfloat16, torch.float16, torch.float64),
    "n": (0, 1, 2, 255, 256, 257),  # blocks are 256 rows and columns
    "m": (0, 1, 2, 255, 256, 257),
    "query_start": ("none", "integer", "one a row"),
    "impl": ("auto", "tiles", "reference"),
}


def possible(case: Case) -> bool:
    """Whether a call exists: masks and position biases have to know where queries stand."""
    if not {"n", "m", "query_start"} <= case.keys() or case["n"] == case["m"]:
        return True
    if case["query_start"] == "none" and case.get("bias") in {"ALiBi", "T5"}:
        return False
    if "mask" not in case:
        return True
    if case["query_start"] == "none":
        return case["mask"] in {"none", "padding", "tensor"}
    documents = case["mask"] in {"document", "tree"} and case["query_start"] == "integer"
    return not documents or case["n"] < case["m"]


# ------------------------------------------------------------------------------- every two meet


def pairs(case: Case) -> set[Pair]:
    """Every two features of a case, in the order of the table."""
    return set(itertools.combinations(case.items(), 2))


def covering_array(
    features: Mapping[str, tuple[object, ...]], *, possible: Callable[[Case], bool] = lambda _: True
) -> list[dict[str, object]]:
    """Greedily make cases until every two values of different features have met in one.

    The cases are the same in every run, so that each has a name.
    """
    chance = random.Random(0)
    order = list(features)
    left = {
        pair
        for one, other in itertools.combinations(order, 2)
        for pair in itertools.product(_values(features, one), _values(features, other))
    }
    cases: list[dict[str, object]] = []
    while left:
        first = min(left, key=repr)
        tries = [_case(first, left, features, possible, chance) for _ in range(12)]
        best = max(tries, key=lambda case: len(pairs(case) & left))
        left -= pairs(best)
        cases.append(best)
    return cases


def _values(features: Mapping[str, tuple[object, ...]], name: str) -> list[tuple[str, object]]:
    return [(name, value) for value in features[name]]


def _case(
    start: Pair,
    left: set[Pair],
    features: Mapping[str, tuple[object, ...]],
    possible: Callable[[Case], bool],
    chance: random.Random,
) -> dict[str, object]:
    """One case with two given values; each other is the possible one that meets most anew."""
    case: dict[str, object] = dict(start)
    names = [name for name in features if name not in case]
    for name in chance.sample(names, len(names)):
        choices = [c for c in _values(features, name) if possible({**case, name: c[1]})]
        chance.shuffle(choices)
        _, value = max(choices, key=lambda choice: sum(p in left for p in _meets(choice, case)))
        case[name] = value
    return {name: case[name] for name in features}


def _meets(choice: tuple[str, object], case: Case) -> Iterator[Pair]:
    for other in case.items():
        yield choice, other
        yield other, choice


# ------------------------------------------------------------------- what the names stand for


def _keep(m: int) -> Tensor:
    keep = torch.arange(m) % 7 != 3
    return torch.stack([keep, torch.arange(m) >= m // 3])


def _ids(m: int) -> Tensor:
    ids = torch.arange(m) // 50
    ids[m // 2 : m // 2 + 3] = -1
    return ids


def _allowed(n: int, m: int) -> Tensor:
    allowed = torch.rand(2, 4, n, m, generator=torch.Generator().manual_seed(n * 1000 + m)) < 0.6
    allowed[1, 2, : n // 2] = False
    return allowed


#: Masks for two batch rows, four heads, n queries and m keys.
MASK_KINDS: dict[str, Callable[[int, int], Mask | None]] = {
    "none": lambda _n, _m: None,
    "causal": lambda _n, _m: causal_mask(),
    "window": lambda _n, _m: causal_mask() & sliding_window_mask(20),
    "padding": lambda _n, m: padding_mask(_keep(m)),
    "document": lambda _n, m: document_mask(_ids(m)),
    "prefix": lambda _n, m: prefix_lm_mask(torch.tensor([0, m // 2])),
    "chunk": lambda _n, _m: chunked_mask(64, start=torch.tensor([0, 5])),
    "tree": lambda _n, m: (causal_mask() & padding_mask(_keep(m))) | ~document_mask(_ids(m)),
    "tensor": lambda n, m: Mask.from_tensor(_allowed(n, m)),
    "mask_mod": lambda _n, _m: Mask.from_mask_mod(lambda b, h, i, j: (3 * i + j + h * b) % 4 != 0),
}


def _with_holes(bias: Tensor, generator: torch.Generator) -> Tensor:
    bias = bias.masked_fill(torch.rand(bias.shape, generator=generator) < 0.3, -torch.inf)
    bias[1, : bias.shape[1] // 2] = -torch.inf  # whole rows of one head
    return bias


#: Biases for four heads, n queries and m keys.
BIASES: dict[str, Callable[[int, int, torch.Generator], Tensor | PositionBias | None]] = {
    "none": lambda _n, _m, _g: None,
    "(n, m)": lambda n, m, g: torch.randn(n, m, generator=g),
    "(heads, n, m)": lambda n, m, g: torch.randn(4, n, m, generator=g),
    "with -inf": lambda n, m, g: _with_holes(torch.randn(4, n, m, generator=g), g),
    "ALiBi": lambda _n, _m, _g: AlibiBias(4),
    "T5": lambda _n, _m, g: t5_bias(torch.randn(32, 4, generator=g)),
}
