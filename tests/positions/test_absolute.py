"""Absolute positions: tables and sinusoids, by hand and against released models."""

import math

import pytest
import torch

from clearhead.errors import InputError
from clearhead.positions.absolute import LearnedPositions, SinusoidalPositions

EPS32 = 2.0**-23


# --------------------------------------------------------------------------------------- learned


def test_a_position_has_its_row(generator):
    table = LearnedPositions(7, 4)
    positions = torch.randint(0, 7, (2, 5), generator=generator)
    assert torch.equal(table(positions), table.weight[positions])
    assert {name: tuple(p.shape) for name, p in table.named_parameters()} == {"weight": (7, 4)}


def test_an_offset_skips_rows_as_in_bart(generator):
    from transformers.models.bart.modeling_bart import BartLearnedPositionalEmbedding

    theirs, ours = BartLearnedPositionalEmbedding(7, 4), LearnedPositions(7, 4, offset=2)
    with torch.no_grad():
        theirs.weight.copy_(torch.randn(9, 4, generator=generator))
    ours.load_state_dict(theirs.state_dict())
    assert torch.equal(ours(torch.arange(7)[None]), theirs(torch.zeros(1, 7)))


def test_gradients_reach_the_rows_that_were_read():
    table = LearnedPositions(4, 2, offset=1)
    table(torch.tensor([[0, 0, 2]])).sum().backward()
    assert table.weight.grad.tolist() == [[0, 0], [2, 2], [0, 0], [1, 1], [0, 0]]


def test_no_tokens_have_no_vectors():
    nothing = torch.zeros(2, 0, dtype=torch.long)
    assert LearnedPositions(4, 2)(nothing).shape == (2, 0, 2)
    assert SinusoidalPositions(2)(nothing, dtype=torch.float32).shape == (2, 0, 2)


@pytest.mark.parametrize(("low", "high"), [(0, 7), (3, 900), (-1, 6)])
def test_a_position_beyond_the_table_is_refused(low, high):
    with pytest.raises(InputError) as caught:
        LearnedPositions(7, 4, offset=2)(torch.tensor([[low, high]]))
    assert str(caught.value) == (
        f"positions must lie in 0 … 6, got {low} … {high}: "
        "this model has learned 7 positions; shorten the text"
    )


def test_sizes_that_make_no_table_are_refused():
    with pytest.raises(InputError) as caught:
        LearnedPositions(0, 0, offset=-1)
    assert str(caught.value) == (
        "LearnedPositions, 3 faults:\n"
        "  - count must be a positive whole number, got 0\n"
        "  - d_model must be a positive whole number, got 0\n"
        "  - offset must be a whole number, at least 0, got -1"
    )


@pytest.mark.compiled
def test_absolute_positions_are_one_graph():
    table, sinusoids = LearnedPositions(7, 4), SinusoidalPositions(4)

    @torch.compile(backend="eager", fullgraph=True)
    def both(positions: torch.Tensor) -> torch.Tensor:
        return table(positions) + sinusoids(positions, dtype=torch.float32)

    positions = torch.arange(7)[None]
    expected = table(positions) + sinusoids(positions, dtype=torch.float32)
    assert torch.equal(both(positions), expected)


# ------------------------------------------------------------------------------------ sinusoidal


@pytest.mark.parametrize(
    ("layout", "order"), [("interleaved", [0, 1, 2, 3]), ("halves", [0, 2, 1, 3])]
)
def test_sinusoids_by_hand(layout, order):
    # Two pairs: one turns by 1 a position, the other by 0.01.
    expected = [
        [0.0, 1.0, 0.0, 1.0],
        [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)],
        [math.sin(500), math.cos(500), math.sin(5), math.cos(5)],
    ]
    got = SinusoidalPositions(4, layout=layout)(torch.tensor([[0, 1, 500]]), dtype=torch.float32)
    assert torch.equal(got, torch.tensor([expected])[..., order])


def test_a_step_is_a_rotation_of_every_pair(generator):
    # Vaswani et al. 2017, section 3.5: P_{i+k} is a linear function of P_i, the same for every i.
    sinusoids = SinusoidalPositions(16)
    i, k = torch.randint(0, 4000, (2, 1, 1), generator=generator)

    def pairs(place: torch.Tensor) -> torch.Tensor:
        vector = sinusoids(place, dtype=torch.float64).unflatten(-1, (-1, 2))
        return torch.complex(vector[..., 1], vector[..., 0])

    # Each of the three is rounded to float32 once.
    assert (pairs(i + k) - pairs(i) * pairs(k)).abs().max() <= 4 * EPS32


def test_sinusoids_are_those_of_marian_and_distilbert():
    # Both store what numpy makes in float64: equal, but where its last bit decides a rounding.
    from transformers.models.distilbert.modeling_distilbert import create_sinusoidal_embeddings
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    positions = torch.arange(512)[None]
    marian = MarianSinusoidalPositionalEmbedding(512, 48).create_weight()
    distilbert = torch.empty(512, 48)
    create_sinusoidal_embeddings(512, 48, distilbert)
    for layout, theirs in (("halves", marian), ("interleaved", distilbert)):
        ours = SinusoidalPositions(48, layout=layout)(positions, dtype=torch.float32)[0]
        assert (ours - theirs).abs().max() <= EPS32 / 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_only_the_result_is_rounded(dtype):
    # Case 19 (candle#3520), for X: bfloat16 has no 15,962.
    sinusoids, positions = SinusoidalPositions(8), torch.tensor([[15962]])
    wide = sinusoids(positions, dtype=torch.float32)
    assert torch.equal(sinusoids(positions, dtype=dtype), wide.to(dtype))


def test_sinusoids_hold_nothing_to_load():
    assert SinusoidalPositions(8).state_dict() == {}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: SinusoidalPositions(7),
            "SinusoidalPositions: d_model must be even, got 7: each sine has a cosine",
        ),
        (
            lambda: SinusoidalPositions(0, layout="quarters"),
            (
                "SinusoidalPositions, 2 faults:\n"
                "  - d_model must be a whole number, at least 2, got 0\n"
                "  - layout must be 'halves' or 'interleaved', got 'quarters'"
            ),
        ),
    ],
)
def test_what_makes_no_sinusoids_is_refused(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == message
