"""ALiBi and T5's relative bias: the numbers of released models, at any position."""

import pytest
import torch
from transformers import T5Config
from transformers.models.bloom.modeling_bloom import _get_alibi_slopes, build_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention

from clearhead.errors import InputError
from clearhead.positions.bias import AlibiBias, T5RelativeBias


def test_alibi_by_hand() -> None:
    bias = AlibiBias(2)
    assert bias.slopes == (1 / 16, 1 / 256)
    tile = bias.tile(range(3), range(3))
    distances = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
    assert torch.equal(tile, -torch.stack([distances / 16, distances / 256])[None])


def test_eight_heads_have_the_slopes_of_the_paper() -> None:
    assert AlibiBias(8).slopes == tuple(2.0**-h for h in range(1, 9))


@pytest.mark.parametrize("heads", [*range(1, 34), 40, 71, 112])
def test_slopes_are_those_of_released_models(heads: int) -> None:
    theirs = _get_alibi_slopes(heads, torch.device("cpu"))
    # theirs are powers taken in float32, whose error grows with the power
    torch.testing.assert_close(torch.tensor(AlibiBias(heads).slopes), theirs, rtol=2e-6, atol=0)


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def test_alibi_is_the_released_tensor_but_for_one_number_a_row(heads: int) -> None:
    theirs = build_alibi_tensor(torch.ones(1, 50), heads, torch.float32).view(1, heads, 1, 50)
    ours = AlibiBias(heads).tile(range(50), range(50))
    row = torch.tensor(AlibiBias(heads).slopes)[:, None, None] * torch.arange(50)[:, None]
    past = torch.ones(50, 50).tril().bool()
    assert torch.equal(ours[..., past], (theirs - row)[..., past])


def test_alibi_falls_both_ways() -> None:
    tile = AlibiBias(3).tile(range(9), range(9))
    assert torch.equal(tile, tile.mT)
    assert (tile.diff(dim=-1)[:, :, 0] < 0).all()


def test_alibi_is_as_exact_as_it_is_asked_to_be() -> None:
    exact = AlibiBias(12).tile(range(5), range(5), dtype=torch.float64)
    assert exact[0, 8, 4, 0] == -4 * 2.0**-0.5
    assert exact.dtype == torch.float64
    torch.testing.assert_close(exact.float(), AlibiBias(12).tile(range(5), range(5)))


def test_alibi_never_masks_and_never_learns() -> None:
    assert not AlibiBias(4).masking
    assert not AlibiBias(4).requires_grad
    assert AlibiBias(4) == AlibiBias(4)
    assert repr(AlibiBias(4)) == "AlibiBias(heads=4)"


def test_alibi_has_a_head() -> None:
    with pytest.raises(InputError) as caught:
        AlibiBias(0)
    assert str(caught.value) == "AlibiBias: heads must be at least 1, got 0"


# -------------------------------------------------------------------------------------------- T5


def _pair(
    buckets: int, max_distance: int, bidirectional: bool
) -> tuple[T5RelativeBias, T5Attention]:
    config = T5Config(
        num_heads=3,
        d_model=12,
        d_kv=4,
        relative_attention_num_buckets=buckets,
        relative_attention_max_distance=max_distance,
        is_decoder=not bidirectional,
    )
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    ours = T5RelativeBias(
        3, buckets=buckets, max_distance=max_distance, bidirectional=bidirectional
    )
    ours.load_state_dict(theirs.relative_attention_bias.state_dict())
    return ours, theirs


@pytest.mark.usefixtures("seeded_weights")
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(
    ("buckets", "max_distance"), [(32, 128), (8, 20), (16, 1000), (6, 9), (4, 2), (64, 100_000)]
)
def test_t5_is_the_released_bias_to_the_bit(
    buckets: int, max_distance: int, bidirectional: bool
) -> None:
    if buckets == 4 and not bidirectional:
        max_distance = 3
    ours, theirs = _pair(buckets, max_distance, bidirectional)
    for past in (0, 1, 130, 1500):
        expected = theirs.compute_bias(9, 1700, past_seen_tokens=past)
        rows = range(past, past + 9)
        assert torch.equal(ours.tile(rows, range(1700)), expected)
        assert torch.equal(ours.tile(torch.tensor(rows), torch.arange(1700)), expected)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_by_hand(bidirectional: bool) -> None:
    bias = T5RelativeBias(1, buckets=8, max_distance=16, bidirectional=bidirectional)
    distances = torch.tensor([-99, -16, -8, -5, -4, -3, -2, -1, 0, 1, 2, 3, 5, 99])
    if bidirectional:  # four a direction, two of them for one distance
        assert bias.bucket(distances).tolist() == [3, 3, 3, 2, 2, 2, 2, 1, 0, 5, 6, 6, 6, 7]
    else:
        assert bias.bucket(distances).tolist() == [7, 7, 6, 4, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0]


def test_t5_keeps_the_dtype_asked_for_and_its_gradient() -> None:
    bias = T5RelativeBias(2).to(torch.bfloat16)
    assert torch.equal(bias.tile(range(3), range(3)), torch.zeros(1, 2, 3, 3))
    tile = bias.tile(range(4), range(4), dtype=torch.float64)
    assert tile.dtype == torch.float64
    tile.sum().backward()
    assert bias.weight.grad[:, 0].tolist()[:4] == [4, 3, 2, 1]
    assert bias.weight.grad[:, 0].tolist()[16:20] == [0, 3, 2, 1]


def test_t5_says_what_it_is_and_whether_it_learns_or_masks() -> None:
    bias = T5RelativeBias(2, bidirectional=False)
    assert repr(bias) == (
        "T5RelativeBias(heads=2, buckets=32, max_distance=128, bidirectional=False)"
    )
    assert [*bias.state_dict()] == ["weight"]
    assert bias.requires_grad
    assert not bias.requires_grad_(False).requires_grad
    assert not bias.masking
    with torch.no_grad():
        bias.weight[3, 1] = -torch.inf
    assert bias.masking


def test_numbers_that_make_no_buckets_are_refused() -> None:
    def said(*heads: int, **options: int) -> str:
        with pytest.raises(InputError) as caught:
            T5RelativeBias(*heads, **options)
        return str(caught.value)

    assert said(0, buckets=7) == (
        "T5RelativeBias, 2 faults:\n"
        "  - heads must be at least 1, got 0\n"
        "  - buckets must be even and at least 4, half of them a direction, got 7"
    )
    assert said(1, buckets=1, bidirectional=False) == (
        "T5RelativeBias: buckets must be at least 2, got 1"
    )
    assert said(1, max_distance=8) == (
        "T5RelativeBias: max_distance must be more than the 8 distances that have a bucket each, "
        "got 8"
    )
