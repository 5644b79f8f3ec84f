"""Drawing a token: the exact filtered probabilities, and that they are what is drawn from."""

import math

import pytest
import torch

from clearhead.errors import InputError
from clearhead.transformer.generation.sampling import Sampler, probabilities
from clearhead.transformer.generation.settings import Sampling


def by_hand(logits: list[float], *, temperature: float, top_k: int | None, top_p: float | None):
    """The definition, in plain Python."""
    weights = {token: math.exp(z / temperature) for token, z in enumerate(logits)}
    falling = sorted(weights, key=lambda token: (-weights[token], token))
    if top_k is not None:
        border = weights[falling[min(top_k, len(falling)) - 1]]
        falling = [token for token in falling if weights[token] >= border]
    total = sum(weights[token] for token in falling)
    kept, reached = [], 0.0
    for token in falling:
        if top_p is None or reached < top_p:
            kept.append(token)
        reached += weights[token] / total
    total = sum(weights[token] for token in kept)
    return [weights[token] / total if token in kept else 0.0 for token in range(len(logits))]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("top_k", [None, 1, 3, 50])
@pytest.mark.parametrize("top_p", [None, 0.01, 0.5, 0.93, 1.0])
def test_probabilities_are_those_of_the_definition(temperature, top_k, top_p, generator) -> None:
    logits = 2 * torch.randn(20, generator=generator)
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    found = probabilities(logits, sampling)
    assert found.dtype == torch.float64
    expected = by_hand(logits.double().tolist(), temperature=temperature, top_k=top_k, top_p=top_p)
    assert (found - torch.tensor(expected, dtype=torch.float64)).abs().max() <= 1e-12


def test_a_tie_at_the_border_of_top_k_stays_whole() -> None:
    found = probabilities(torch.tensor([1.0, 3.0, 1.0, 0.0]), Sampling(temperature=1.0, top_k=2))
    assert (found > 0).tolist() == [True, True, True, False]


def test_top_p_takes_the_fewest_and_the_first_of_equals() -> None:
    even = torch.zeros(4)
    for top_p, kept in ((0.25, 1), (0.26, 2), (0.5, 2), (0.75, 3), (0.76, 4)):
        found = probabilities(even, Sampling(temperature=1.0, top_p=top_p))
        assert found.tolist() == [1 / kept] * kept + [0.0] * (4 - kept)


def test_top_p_counts_what_top_k_left() -> None:
    p = torch.tensor([0.4, 0.3, 0.2, 0.1])
    found = probabilities(p.log(), Sampling(temperature=1.0, top_k=2, top_p=0.55))
    assert found.tolist() == [1.0, 0.0, 0.0, 0.0]  # 0.4 / 0.7 is above 0.55, 0.4 is not


@pytest.mark.parametrize("temperature", [1e-300, 1e-5])
def test_the_coldest_temperatures_take_the_best(temperature, generator) -> None:
    logits = torch.randn(50, generator=generator)
    sampler = Sampler(Sampling(temperature=temperature, seed=0))
    assert sampler.choose(logits) == int(logits.argmax())


def test_what_is_masked_is_never_drawn() -> None:
    logits = torch.tensor([-math.inf, 0.0, -math.inf, 0.0, -math.inf])
    sampler = Sampler(Sampling(temperature=1.0, seed=1))
    assert {sampler.choose(logits) for _ in range(200)} == {1, 3}


@pytest.mark.parametrize(
    "settings", [{}, {"top_k": 4}, {"top_p": 0.8}, {"top_k": 6, "top_p": 0.7, "temperature": 1.6}]
)
def test_tokens_come_as_often_as_their_probabilities_say(settings, seed, generator) -> None:
    logits = torch.randn(8, generator=generator)
    sampling = Sampling(**{"temperature": 1.0, "seed": seed, **settings})
    expected = probabilities(logits, sampling)
    sampler, draws = Sampler(sampling), 20_000
    found = torch.zeros(8, dtype=torch.float64)
    for _ in range(draws):
        found[sampler.choose(logits)] += 1
    assert found[expected == 0].sum() == 0
    likely = expected > 0
    chi_square = ((found - draws * expected)[likely] ** 2 / (draws * expected[likely])).sum()
    # 60 is beyond all but one in 10^10 draws of a chi-square with 7 degrees of freedom
    assert chi_square < 60


def test_a_seed_repeats_and_rows_have_their_own(generator) -> None:
    logits = torch.randn(40, 1000, generator=generator)
    sampling = Sampling(temperature=1.0, seed=7)

    def drawn(sampler: Sampler) -> list[int]:
        return [sampler.choose(row) for row in logits]

    first = drawn(Sampler(sampling))
    assert drawn(Sampler(sampling)) == first
    other = Sampler(sampling, row=3)
    assert other.seed == 10
    assert drawn(other) == drawn(Sampler(Sampling(temperature=1.0, seed=10))) != first


def test_without_a_seed_one_is_found_and_repeats(generator) -> None:
    logits = torch.randn(40, 1000, generator=generator)
    unseeded = Sampler(Sampling(temperature=1.0))
    first = [unseeded.choose(row) for row in logits]
    again = Sampler(Sampling(temperature=1.0, seed=unseeded.seed))
    assert [again.choose(row) for row in logits] == first


def test_torchs_own_random_numbers_are_left_alone() -> None:
    before = torch.random.get_rng_state()
    Sampler(Sampling(temperature=1.0, seed=0)).choose(torch.zeros(5))
    Sampler(Sampling(temperature=1.0)).choose(torch.zeros(5))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_most_probable_token_needs_no_seed() -> None:
    sampler = Sampler(Sampling(seed=5))
    assert sampler.seed is None
    assert sampler.choose(torch.tensor([0.0, 2.0, 1.0])) == 1


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_broken_logits_are_said(broken: float, temperature: float) -> None:
    with pytest.raises(InputError) as caught:
        Sampler(Sampling(temperature=temperature)).choose(torch.tensor([0.0, broken, 1.0]))
    assert str(caught.value) == (
        f"model: its largest logit is {broken}, which is no score: weights that are broken, or "
        "numbers too large for their dtype; float16 ends at 65504, so load it with dtype='float32' "
        "or 'bfloat16'"
    )
