"""How checkpoints lay tensors out: each way and back, over random shapes, and what goes where."""

import pytest
import torch
from torch import Tensor

from clearhead.transformer.families.layout import (
    Alone,
    ByHead,
    Columns,
    Layout,
    OneRow,
    Rows,
    Side,
)

HEADS = 3


def some(generator: torch.Generator, most: int = 5) -> int:
    return int(torch.randint(1, most + 1, (), generator=generator))


def outputs_side_by_side(generator: torch.Generator, *, parts: int, bias: bool) -> list[Tensor]:
    """Weights (out, in), or biases, of several linear layers that read the same."""
    width = some(generator)
    sizes = [HEADS * some(generator) for _ in range(parts)]
    shapes = [(size,) if bias else (size, width) for size in sizes]
    return [torch.randn(shape, generator=generator) for shape in shapes]


CASES = [
    (kind, parts, bias)
    for kind in (Alone, Rows, Columns, ByHead)
    for parts in (1, 2, 3)
    for bias in (False, True)
    if kind is not Alone or parts == 1
]


@pytest.mark.parametrize("repeat", range(5))
@pytest.mark.parametrize(("kind", "parts", "bias"), CASES)
def test_joined_and_split_again_nothing_changes(kind, parts, bias, repeat, generator):
    ours = outputs_side_by_side(generator, parts=parts, bias=bias)
    _there_and_back(kind(*map(str, range(parts))), ours)


@pytest.mark.parametrize("repeat", range(5))
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_experts_and_rows_come_back_too(parts, repeat, generator):
    experts, width = some(generator), some(generator)
    shapes = [(experts, width, some(generator)) for _ in range(parts)]
    ours = [torch.randn(shape, generator=generator) for shape in shapes]
    _there_and_back(Side(*map(str, range(parts))), ours)
    _there_and_back(OneRow("0"), [torch.randn(some(generator), generator=generator)])


def _there_and_back(layout: Layout, ours: list[Tensor]) -> None:
    shapes = [tensor.shape for tensor in ours]
    joined = layout.join(ours, heads=HEADS)
    assert joined.shape == layout.shape(shapes)
    assert joined.numel() == sum(tensor.numel() for tensor in ours)
    again = layout.split(joined, shapes, heads=HEADS)
    assert [tensor.shape for tensor in again] == shapes
    assert all(torch.equal(one, other) for one, other in zip(again, ours, strict=True))
    # and the other way round
    assert torch.equal(layout.join(again, heads=HEADS), joined)


def test_a_layout_knows_whose_tensors_it_holds():
    assert Rows("q", "k", "v").ours == ("q", "k", "v")
    assert Rows("q", "k") == Rows("q", "k")
    assert Rows("q", "k") != Rows("k", "q")


Q = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
K = torch.tensor([[5.0, 6.0], [7.0, 8.0]])


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (Rows("q", "k"), [[1, 2], [3, 4], [5, 6], [7, 8]]),
        (Columns("q", "k"), [[1, 3, 5, 7], [2, 4, 6, 8]]),
        (Side("q", "k"), [[1, 2, 5, 6], [3, 4, 7, 8]]),
        # q, k of head 0, then of head 1: not all of q first
        (ByHead("q", "k"), [[1, 2], [5, 6], [3, 4], [7, 8]]),
    ],
)
def test_what_stands_where(layout, expected):
    assert layout.join([Q, K], heads=2).tolist() == expected


def test_a_bias_is_not_turned():
    assert Columns("q", "k").join([Q[0], K[0]], heads=2).tolist() == [1, 2, 5, 6]
    assert OneRow("b").join([Q[0]], heads=2).tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("layout", "count"), [(Alone("q"), 1), (Rows("q", "k"), 2), (Side("q", "k"), 2)]
)
def test_what_can_be_a_view_is_one(layout, count):
    joined = layout.join([Q, K][:count], heads=2)
    for part in layout.split(joined, [Q.shape, K.shape][:count], heads=2):
        assert part.untyped_storage().data_ptr() == joined.untyped_storage().data_ptr()
    turned = Columns("q")
    stored = torch.randn(4, 3)
    [part] = turned.split(stored, [torch.Size((3, 4))], heads=2)
    assert part.data_ptr() == stored.data_ptr()


def test_pythias_fused_rows_are_dealt_out_as_gpt_neox_deals_them(seeded_weights):
    from transformers import GPTNeoXConfig, GPTNeoXModel

    config = GPTNeoXConfig(
        vocab_size=9, hidden_size=12, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=HEADS, rotary_pct=0.5,
    )  # fmt: skip
    attention = GPTNeoXModel(config).layers[0].attention
    x = torch.randn(1, 5, 12)
    fused = attention.query_key_value(x).view(1, 5, HEADS, 12).transpose(1, 2).chunk(3, -1)
    weight, bias = attention.query_key_value.weight, attention.query_key_value.bias
    layout = ByHead("q", "k", "v")
    weights = layout.split(weight, [torch.Size((12, 12))] * 3, heads=HEADS)
    biases = layout.split(bias, [torch.Size((12,))] * 3, heads=HEADS)
    for expected, w, b in zip(fused, weights, biases, strict=True):
        got = (x @ w.T + b).unflatten(-1, (HEADS, 4)).transpose(1, 2)
        torch.testing.assert_close(got, expected)
