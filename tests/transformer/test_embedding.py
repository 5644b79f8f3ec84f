"""What a token is before the first layer: vector, place and type, added up by hand."""

import pytest
import torch

from clearhead.errors import InputError
from clearhead.positions.absolute import LearnedPositions, SinusoidalPositions
from clearhead.positions.kinds import Alibi, Learned, Rotary, Sinusoidal, T5Buckets
from clearhead.transformer.embedding import Embedding
from tests.accuracy import assert_double
from tests.transformer.test_config import config

PLACES = torch.tensor([[0, 1, 2, 3, 4], [0, 0, 0, 1, 2]])
TYPES = torch.tensor([[0, 0, 1, 2, 1], [2, 2, 2, 0, 0]])


@pytest.fixture
def vectors(generator):
    return torch.randn(2, 5, 32, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("positions", [None, Rotary(), Alibi(), T5Buckets()])
def test_positions_told_elsewhere_add_nothing(positions, vectors):
    plain = Embedding(config(positions=positions))
    assert torch.equal(plain(vectors, positions=PLACES, types=None), vectors)
    assert not list(plain.parameters())


@pytest.mark.parametrize("offset", [0, 2])
def test_everything_at_once_by_hand(offset, vectors, seeded_weights):
    made = config(
        positions=Learned(offset), embedding_scale=3.0, token_types=3, embedding_norm=True,
        norm="layer", norm_epsilon=1e-5,
    )  # fmt: skip
    part = Embedding(made).double()
    x = 3.0 * vectors + part.position.weight[PLACES + offset] + part.token_type.weight[TYPES]
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
    part.norm.weight.data, part.norm.bias.data = torch.randn(2, 32, dtype=torch.float64)
    expected = (x - mean) / (variance + 1e-5).sqrt() * part.norm.weight + part.norm.bias
    assert_double(part(vectors, positions=PLACES, types=TYPES), expected)


def test_without_types_all_are_of_type_0(vectors, seeded_weights):
    part = Embedding(config(positions=None, token_types=3)).double()
    got = part(vectors, positions=PLACES, types=None)
    assert torch.equal(got, part(vectors, positions=PLACES, types=torch.zeros_like(TYPES)))
    assert torch.equal(got, vectors + part.token_type.weight[0])


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_sinusoids_are_added(layout, vectors):
    part = Embedding(config(positions=Sinusoidal(layout)))
    places = SinusoidalPositions(32, layout=layout)(PLACES, dtype=torch.float64)
    assert torch.equal(part(vectors, positions=PLACES, types=None), vectors + places)
    assert not list(part.parameters())


def test_the_table_of_places_is_as_long_as_the_context_and_its_offset():
    part = Embedding(config(positions=Learned(2), context_length=64))
    assert isinstance(part.position, LearnedPositions)
    assert part.position.weight.shape == (66, 32)


def test_a_place_past_the_context_is_refused(vectors):
    part = Embedding(config(positions=Learned(2), context_length=4)).double()
    with pytest.raises(InputError) as caught:
        part(vectors, positions=PLACES, types=None)
    assert str(caught.value) == (
        "positions must lie in 0 … 3, got 0 … 4: this model has learned 4 positions; "
        "shorten the text"
    )


def test_the_factor_is_rounded_to_the_dtype_first_as_gemma_rounds_it(generator):
    part = Embedding(config(positions=None, embedding_scale=2304**0.5 + 0.1))
    x = torch.randn(1, 5, 32, generator=generator).bfloat16()
    factor = torch.tensor(2304**0.5 + 0.1).bfloat16()
    assert torch.equal(part(x, positions=PLACES[:1], types=None), x * factor)
