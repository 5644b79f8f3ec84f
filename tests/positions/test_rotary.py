"""Rotary positions: angles by hand, laws of turning, and the bits of the released models."""

import cmath
import math

import pytest
import torch
from torch import Tensor

from clearhead.errors import InputError, ShapeError
from clearhead.positions.kinds import Rotary
from clearhead.positions.rotary import RotaryEmbedding, rotate
from clearhead.positions.scaling import DynamicScaling, LongRopeScaling
from tests.accuracy import assert_double
from tests.positions.released import (
    D_K,
    KINDS,
    ORIGINAL,
    WIDTHS,
    draw,
    places,
    released_of,
    theta_of,
)

EPS32 = 2.0**-23
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def embedding(
    kind: str, generator: torch.Generator, *, width: int = D_K, interleaved: bool = False
) -> RotaryEmbedding:
    scaling = released_of(kind, generator, width=width).scaling
    return RotaryEmbedding(D_K, Rotary(theta_of(generator), scaling, width, interleaved))


# ------------------------------------------------------------------------------------- by hand


def test_a_pair_turns_by_its_position():
    x = torch.tensor([1.0, 0.0]).expand(1, 1, 3, 2)
    phases = RotaryEmbedding(2).phases(torch.tensor([[0, 1, 2]]), dtype=torch.float32)
    expected = [[math.cos(i), math.sin(i)] for i in range(3)]
    torch.testing.assert_close(rotate(x, phases), torch.tensor([[expected]]))


def test_pairs_stand_half_the_width_apart_or_side_by_side():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]).reshape(1, 1, 1, 5)

    def turned(*, interleaved: bool) -> list[float]:
        rotary = RotaryEmbedding(5, Rotary(width=4, interleaved=interleaved))
        return rotate(x, rotary.phases(torch.tensor([[7]]), dtype=x.dtype)).flatten().tolist()

    quick, slow = cmath.exp(7j), cmath.exp(0.07j)
    apart, beside = ((1 + 3j) * quick, (2 + 4j) * slow), ((1 + 2j) * quick, (3 + 4j) * slow)
    assert turned(interleaved=False) == pytest.approx(
        [apart[0].real, apart[1].real, apart[0].imag, apart[1].imag, 5.0]
    )
    assert turned(interleaved=True) == pytest.approx(
        [beside[0].real, beside[0].imag, beside[1].real, beside[1].imag, 5.0]
    )


def test_no_phases_turn_nothing(generator):
    x = torch.randn(1, 2, 3, 4, generator=generator)
    assert rotate(x, None) is x


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_positions_are_never_rounded_to_sixteen_bits(dtype):
    # Case 19 (candle#3520). bfloat16 has no 15,962: it would read 15,936, another angle altogether.
    phases = RotaryEmbedding(2).phases(torch.tensor([[15962]]), dtype=dtype)
    assert phases.cosine.dtype == dtype
    assert float(phases.cosine[..., 0]) == float(torch.tensor(math.cos(15962)).to(dtype))
    assert abs(float(phases.cosine[..., 0]) - math.cos(15936)) > 0.1


# ------------------------------------------------------------------------------------------ laws


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_product_depends_on_the_distance_alone(kind, width, interleaved, generator):
    q, k = (draw(generator, rows=50, n=1) for _ in range(2))
    rotary = embedding(kind, generator, width=width, interleaved=interleaved)
    furthest, length = 1000, torch.tensor([1001])

    def product(i: int, j: int) -> Tensor:
        at_i, at_j = (
            rotary.phases(torch.tensor([[place]]), dtype=q.dtype, lengths=length)
            for place in (i, j)
        )
        return (rotate(q, at_i) * rotate(k, at_j)).sum(-1)

    # An angle of p rounds by p · eps at most, in four places.
    factor = getattr(rotary.rotary.scaling, "attention_factor", 1.0)
    allowed = 4 * furthest * EPS32 * factor**2 * q.norm(dim=-1) * k.norm(dim=-1)
    near, far = product(7, 0), product(furthest, furthest - 7)
    assert ((near - far).abs() <= allowed).all()
    assert ((product(8, 0) - far).abs() > allowed).any()


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_turning_keeps_the_lengths_of_pairs(kind, interleaved, generator):
    x, rotary = draw(generator), embedding(kind, generator, interleaved=interleaved)
    turned = rotate(x, rotary.phases(places(generator), dtype=x.dtype))

    def lengths(of: Tensor) -> Tensor:
        shape = (D_K // 2, 2) if interleaved else (2, D_K // 2)
        return of.unflatten(-1, shape).norm(dim=-1 if interleaved else -2)

    factor = getattr(rotary.rotary.scaling, "attention_factor", 1.0)
    assert (lengths(turned) / lengths(x) / factor - 1).abs().max() <= 4 * EPS32


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_interleaved_is_the_complex_product(kind, width, generator):
    x, where = draw(generator), places(generator)
    rotary = embedding(kind, generator, width=width, interleaved=True)
    phases = rotary.phases(where, dtype=x.dtype)
    turns = torch.complex(phases.cosine[..., 0::2], phases.sine[..., 1::2])
    pairs = torch.view_as_complex(x[..., :width].reshape(3, 2, 9, width // 2, 2))
    truth = torch.cat((torch.view_as_real(pairs * turns).flatten(-2), x[..., width:]), dim=-1)
    assert_double(rotate(x, phases), truth)


def test_both_orders_of_pairs_are_one_rotation(generator):
    x, where = draw(generator), places(generator)
    scaling, theta = released_of("yarn", generator).scaling, theta_of(generator)
    halves, beside = (
        RotaryEmbedding(D_K, Rotary(theta, scaling, None, interleaved)).phases(where, dtype=x.dtype)
        for interleaved in (False, True)
    )
    laid_beside = x.unflatten(-1, (2, D_K // 2)).mT.flatten(-2)
    turned = rotate(laid_beside, beside).unflatten(-1, (D_K // 2, 2)).mT.flatten(-2)
    assert torch.equal(turned, rotate(x, halves))


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("width", [4, 8])
def test_what_does_not_turn_keeps_its_bits(width, interleaved, generator):
    # Case 23 (T#48241): the whole head was turned.
    x, rotary = draw(generator), embedding("yarn", generator, width=width, interleaved=interleaved)
    x[..., -4:] = torch.tensor([-0.0, math.inf, -math.inf, math.nan])
    turned = rotate(x, rotary.phases(places(generator), dtype=x.dtype))
    left, right = (part[..., width:].contiguous().view(torch.int64) for part in (x, turned))
    assert torch.equal(left, right)
    assert not (turned[..., :width] == x[..., :width]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_never_matter(kind, dtype, generator):
    x, where = draw(generator).to(dtype), places(generator)
    rotary = embedding(kind, generator)
    together = rotate(x, rotary.phases(where, dtype=dtype))
    for b in range(len(x)):
        alone = rotate(x[b : b + 1], rotary.phases(where[b : b + 1], dtype=dtype))
        assert torch.equal(together[b : b + 1], alone)


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_token_alone_has_the_angle_it_has_among_all(kind, generator):
    # Cases 20 and 21 (T#25104, T#33129): one length, one set of frequencies, whoever asks.
    rotary, n = embedding(kind, generator), 2 * ORIGINAL
    where, lengths = torch.arange(n)[None], torch.tensor([n])
    whole = rotary.phases(where, dtype=torch.float32)
    last = rotary.phases(where[:, -1:], dtype=torch.float32, lengths=lengths)
    assert torch.equal(whole.cosine[:, :, -1:], last.cosine)
    assert torch.equal(whole.sine[:, :, -1:], last.sine)


@pytest.mark.parametrize("kind", KINDS)
def test_a_growing_text_turns_its_keys_anew_where_angles_depend_on_length(kind, generator):
    rotary, where = embedding(kind, generator), torch.arange(8)[None]
    before, after = (
        rotary.phases(where, dtype=torch.float32, lengths=torch.tensor([length])).cosine
        for length in (ORIGINAL, ORIGINAL + 1)
    )
    assert torch.equal(before, after) != rotary.depends_on_length


def test_one_row_of_positions_serves_texts_of_different_lengths(generator):
    rotary, where = embedding("dynamic", generator), torch.arange(5)
    lengths = torch.tensor([5, 2 * ORIGINAL, 3 * ORIGINAL])
    shared = rotary.phases(where[None], dtype=torch.float32, lengths=lengths)
    each = rotary.phases(where.expand(3, 5), dtype=torch.float32, lengths=lengths)
    assert torch.equal(shared.cosine, each.cosine)
    assert not torch.equal(shared.cosine[0], shared.cosine[1])


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("width", [8, D_K])
def test_gradients_turn_back(width, interleaved, generator):
    x = draw(generator).requires_grad_()
    rotary = embedding("llama3", generator, width=width, interleaved=interleaved)
    phases = rotary.phases(places(generator), dtype=x.dtype)
    assert torch.autograd.gradcheck(lambda z: rotate(z, phases), (x,))


@pytest.mark.parametrize("kind", KINDS)
def test_no_tokens_have_no_phases(kind, generator):
    rotary = embedding(kind, generator)
    phases = rotary.phases(torch.zeros(2, 0, dtype=torch.long), dtype=torch.float32)
    assert rotate(torch.zeros(2, 3, 0, D_K), phases).shape == (2, 3, 0, D_K)


@pytest.mark.compiled
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_turning_is_one_graph(kind, interleaved, generator):
    torch.compiler.reset()
    rotary, x = embedding(kind, generator, width=8, interleaved=interleaved), draw(generator)
    where = places(generator)

    @torch.compile(backend="eager", fullgraph=True)
    def turned(x: Tensor, where: Tensor) -> Tensor:
        return rotate(x, rotary.phases(where, dtype=x.dtype))

    assert torch.equal(turned(x, where), rotate(x, rotary.phases(where, dtype=x.dtype)))


# ---------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: RotaryEmbedding(5),
            "RotaryEmbedding: d_k must be even and positive, got 5: numbers turn in pairs",
        ),
        (
            lambda: RotaryEmbedding(8, Rotary(width=10)),
            "RotaryEmbedding: width (10) must not be above d_k (8)",
        ),
        (
            lambda: RotaryEmbedding(0, Rotary(width=10)),
            "RotaryEmbedding: d_k must be a positive whole number, got 0",
        ),
        (
            lambda: RotaryEmbedding(2, Rotary(scaling=DynamicScaling(2.0, 64))),
            "RotaryEmbedding: d_k must be at least 4 for DynamicScaling, got 2",
        ),
        (
            lambda: RotaryEmbedding(8, Rotary(scaling=LongRopeScaling((1.0,), (2.0,), 64, 1.0))),
            "RotaryEmbedding: d_k is 8, so LongRopeScaling must have 4 factors, one a pair, got 1",
        ),
    ],
)
def test_numbers_that_make_no_pairs_are_refused(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize("shape", [(2,), (3, 1), ()])
def test_lengths_that_are_not_one_a_row_are_refused(shape, generator):
    rotary, lengths = embedding("dynamic", generator), torch.ones(shape, dtype=torch.long)
    with pytest.raises(ShapeError) as caught:
        rotary.phases(places(generator), dtype=torch.float32, lengths=lengths)
    assert str(caught.value) == (
        f"lengths must be (3,), one number a row of positions, got shape {shape}"
    )
