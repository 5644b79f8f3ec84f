"""One table of quantities: complete, in order, and true of what attention gives."""

import pytest
import torch

import clearhead as ch
from clearhead.pipeline.tap import TAPPED
from clearhead.quantities import QUANTITIES, quantity

NAMES = [entry.name for entry in QUANTITIES]


def test_every_symbol_of_the_formula_has_its_name() -> None:
    symbols = {entry.symbol: entry.name for entry in QUANTITIES if entry.symbol}
    assert symbols == {
        "X": "attention_input",
        "Q": "query",
        "K": "key",
        "V": "value",
        "S": "scores",
        "L": "logsumexp",
        "A": "weights",
        "C": "context",
        "O": "output",
    }


def test_names_are_unique_and_every_column_is_filled() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(q.shape and q.meaning.endswith(".") and q.producer and q.cost for q in QUANTITIES)


def test_what_passes_the_tap_is_in_the_table() -> None:
    assert set(TAPPED) <= set(NAMES)


def test_shapes_are_those_of_a_real_result(generator: torch.Generator) -> None:
    sizes = {"heads": 6, "kv_heads": 2, "n": 5, "m": 7, "d_k": 4, "d_v": 3}
    query = torch.randn(6, 5, 4, generator=generator)
    key = torch.randn(2, 7, 4, generator=generator)
    value = torch.randn(2, 7, 3, generator=generator)
    result = ch.attention(query, key, value)
    found = {"query": query, "key": key, "value": value} | {
        name: getattr(result, name)
        for name in ("raw_scores", "scores", "logsumexp", "weights", "context")
    }
    for name, tensor in found.items():
        axes = quantity(name).shape.strip("()").split(", ")
        assert tuple(tensor.shape) == tuple(sizes[axis] for axis in axes), name


def test_an_unknown_name_lists_those_there_are() -> None:
    with pytest.raises(KeyError, match="no quantity is called 'wieghts'; the names are attention_"):
        quantity("wieghts")
