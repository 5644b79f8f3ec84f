"""What one call tells its layers: places, masks, angles, temperature; each made once."""

import pytest
import torch

from clearhead.errors import InputError
from clearhead.positions.bias import AlibiBias, T5RelativeBias
from clearhead.positions.kinds import Alibi, Rotary, T5Buckets
from clearhead.positions.rotary import RotaryEmbedding
from clearhead.positions.scaling import DynamicScaling, LongRopeScaling
from clearhead.transformer.cache import KVCache
from clearhead.transformer.calls import Call, Encoded
from clearhead.transformer.config import LayerKind, QueryTemperature
from tests.transformer.tiny_models import tiny_config

IDS = torch.zeros(3, 7, dtype=torch.int64)
LEFT = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1]]).bool()
RIGHT = LEFT.flip(1)
HOLE = torch.tensor([[1] * 7, [1, 1, 0, 1, 1, 0, 0], [0] * 7]).bool()
DOCUMENTS = torch.tensor([[0, 0, 0, 1, 1, 2, 2], [5] * 7, [3, 2, 2, 2, 3, 3, 3]])


def call(**given: object) -> Call:
    settings = {"config": tiny_config(**given.pop("fields", {})), "ids": IDS}
    return Call(**{**settings, **given})


def seen(made: Call, index: int = 0) -> torch.Tensor:
    """Which keys each query of one layer sees, (batch, n, n)."""
    rule = made.layer(index, dtype=torch.float64).rule
    start = 0 if rule.query_start is None else rule.query_start
    dense = rule.mask.to_dense(queries=7, keys=7, batch=3, query_start=start)
    return dense.expand(3, 1, 7, 7)[:, 0]


STEPS = torch.arange(7)
LOWER = STEPS[:, None] >= STEPS


# ---------------------------------------------------------------------------------------- places


@pytest.mark.parametrize(
    ("real", "places"),
    [
        (None, [[0, 1, 2, 3, 4, 5, 6]]),
        (LEFT, [[0, 1, 2, 3, 4, 5, 6], [0, 0, 0, 0, 1, 2, 3], [0, 0, 0, 0, 0, 0, 0]]),
        (RIGHT, [[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 3, 3, 3], [0, 0, 0, 0, 0, 0, 0]]),
        (HOLE, [[0, 1, 2, 3, 4, 5, 6], [0, 1, 1, 2, 3, 3, 3], [0, 0, 0, 0, 0, 0, 0]]),
    ],
)
def test_real_tokens_are_counted_from_0_on(real, places):
    assert call(real=real).positions().tolist() == places


def test_places_begin_anew_in_each_document():
    assert call(documents=DOCUMENTS).positions().tolist() == [
        [0, 1, 2, 0, 1, 0, 1],
        [0, 1, 2, 3, 4, 5, 6],
        [0, 0, 1, 2, 0, 1, 2],
    ]


def test_places_go_on_after_what_a_cache_holds():
    cache = KVCache(tiny_config(), batch=3, capacity=20)
    cache.lengths = (0, 4, 9)
    step = cache.step(LEFT, rows=3, tokens=7)
    places = call(real=LEFT, step=step).positions()
    for row, first in enumerate((0, 4, 9)):
        expected = first + torch.arange(int(LEFT[row].sum()))
        assert torch.equal(places[row, LEFT[row]], expected)


def test_no_tokens_have_no_places():
    assert call(ids=IDS[:, :0]).positions().shape == (1, 0)


# ----------------------------------------------------------------------------------------- masks


def test_a_decoder_looks_back_and_an_encoder_both_ways():
    assert torch.equal(seen(call()), LOWER.expand(3, 7, 7))
    assert seen(call(fields={"kind": "encoder"})).all()


def test_padding_is_not_looked_at():
    for real in (LEFT, RIGHT):
        assert torch.equal(seen(call(real=real)), LOWER & real[:, None])


def test_windows_and_chunks_are_those_of_the_layer():
    fields = {"pattern": (LayerKind(window=3), LayerKind(), LayerKind(chunk=3))}
    near = STEPS[:, None] - STEPS < 3
    chunk = STEPS[:, None] // 3 == STEPS // 3
    made = call(fields=fields)
    for index, expected in enumerate((LOWER & near, LOWER, LOWER & chunk)):
        assert torch.equal(seen(made, index), expected.expand(3, 7, 7)), index


def test_an_encoders_window_reaches_as_far_to_either_side():
    made = call(fields={"kind": "encoder", "pattern": (LayerKind(window=3),)})
    assert torch.equal(seen(made), ((STEPS[:, None] - STEPS).abs() < 3).expand(3, 7, 7))


def test_chunks_are_counted_from_the_first_real_token():
    made = call(fields={"pattern": (LayerKind(chunk=3),)}, real=LEFT)
    first = torch.tensor([0, 3, 6])[:, None]
    chunk = (STEPS - first).div(3, rounding_mode="floor")
    expected = LOWER & (chunk[:, :, None] == chunk[:, None]) & LEFT[:, None]
    got = seen(made)
    assert torch.equal(got[LEFT], expected[LEFT])


def test_documents_do_not_see_each_other():
    # a document that goes on after another one is one document to the mask
    same = DOCUMENTS[:, :, None] == DOCUMENTS[:, None]
    assert torch.equal(seen(call(documents=DOCUMENTS)), LOWER & same)


# -------------------------------------------------------------------------- biases, angles, factors


def test_a_bias_by_distance_goes_with_the_mask():
    relative = T5RelativeBias(4, buckets=4, max_distance=6, bidirectional=False)
    made = call(fields={"positions": Alibi()}).layer(0, dtype=torch.float64)
    assert isinstance(made.rule.bias, AlibiBias)
    assert made.rule.bias.heads == 4
    buckets = call(fields={"positions": T5Buckets(4, 6)}, relative_bias=relative)
    assert buckets.layer(2, dtype=torch.float64).rule.bias is relative
    assert call().layer(0, dtype=torch.float64).rule.bias is None


def test_angles_are_those_of_the_layers_own_kind():
    own = Rotary(theta=7.0, width=2)
    fields = {"pattern": (LayerKind(), LayerKind(rotary="none"), LayerKind(rotary=own))}
    made = call(fields=fields, real=LEFT)
    places = made.positions()
    for index, rotary in ((0, Rotary()), (2, own)):
        got = made.layer(index, dtype=torch.float64).phases
        expected = RotaryEmbedding(4, rotary).phases(places, dtype=torch.float64)
        assert torch.equal(got.cosine, expected.cosine)
        assert torch.equal(got.sine, expected.sine)
    assert made.layer(1, dtype=torch.float64).phases is None


LONG = LongRopeScaling((1.0, 1.2), (2.0, 3.0), original_context=5, attention_factor=1.1)


@pytest.mark.parametrize("scaling", [LONG, DynamicScaling(4.0, 3)])
@pytest.mark.parametrize("real", [None, LEFT, RIGHT])
def test_angles_go_by_the_length_of_each_rows_own_text(scaling, real):
    rotary = Rotary(scaling=scaling)
    made = call(fields={"positions": rotary}, real=real)
    lengths = torch.full((3,), 7) if real is None else real.sum(-1)
    expected = RotaryEmbedding(4, rotary).phases(
        made.positions(), dtype=torch.float64, lengths=lengths
    )
    got = made.layer(0, dtype=torch.float64).phases
    assert torch.equal(got.cosine, expected.cosine)


def test_the_past_counts_as_length():
    rotary = Rotary(scaling=LONG)
    config = tiny_config(positions=rotary)
    cache = KVCache(config, batch=3, capacity=20, dtype=torch.float64)
    cache.lengths = (0, 4, 9)
    step = cache.step(LEFT, rows=3, tokens=7)
    made = Call(config, IDS, LEFT, step=step)
    lengths = torch.tensor([7, 8, 10])
    expected = RotaryEmbedding(4, rotary).phases(
        made.positions(), dtype=torch.float64, lengths=lengths
    )
    assert torch.equal(made.layer(0, dtype=torch.float64).phases.cosine, expected.cosine)


def test_a_temperature_by_hand():
    heat = QueryTemperature(strength=0.5, floor=3.0)
    made = call(fields={"pattern": (LayerKind(temperature=heat), LayerKind())}, real=LEFT)
    got = made.layer(0, dtype=torch.float64).temperature
    factor = 1 + 0.5 * ((made.positions() + 1) // 3).double().log1p()
    assert got.shape == (3, 1, 7, 1)
    torch.testing.assert_close(got.double(), factor[:, None, :, None])
    assert made.layer(1, dtype=torch.float64).temperature is None


def test_an_encoded_text_is_looked_at_where_it_is_real(generator):
    hidden = torch.randn(3, 9, 16, generator=generator)
    real = torch.ones(3, 9, dtype=torch.bool)
    real[1, 4:] = False
    made = Call(tiny_config("distances alone"), IDS, source=Encoded(hidden, real))
    told = made.layer(0, dtype=torch.float32)
    assert told.source is hidden
    dense = told.cross_rule.mask.to_dense(queries=7, keys=9, batch=3)
    assert torch.equal(dense.expand(3, 1, 7, 9)[:, 0], real[:, None].expand(3, 7, 9))
    assert told.cross_rule.bias is None  # T5's cross-attention has no distances
    whole = Call(tiny_config("distances alone"), IDS, source=Encoded(hidden))
    assert whole.layer(0, dtype=torch.float32).cross_rule.mask is None


def test_layers_of_one_kind_are_told_the_same_things():
    fields = {"pattern": (LayerKind(window=3), LayerKind()), "positions": Rotary()}
    made = call(fields=fields, real=LEFT)
    first, second, third = (made.layer(index, dtype=torch.float64) for index in range(3))
    assert first.rule is third.rule
    assert first.rule is not second.rule
    assert first.phases is second.phases is third.phases


# ------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "fields",
    [
        {"pattern": (LayerKind(window=3),)},
        {"pattern": (LayerKind(chunk=3),)},
        {"positions": Alibi()},
        {"positions": T5Buckets(4, 6)},
    ],
    ids=str,
)
def test_padding_between_real_tokens_is_refused_where_it_would_stretch_distances(fields):
    with pytest.raises(InputError) as caught:
        call(fields=fields, real=HOLE).layer(0, dtype=torch.float64)
    assert str(caught.value) == (
        "attention_mask has padding between real tokens in row 1: with windows, chunks, a bias by "
        "distance or a cache, padding may stand only at either end"
    )
    both = LEFT & torch.tensor([[True] * 7, [True] * 6 + [False], [True] * 7])
    for real in (LEFT, RIGHT, both, torch.zeros_like(LEFT)):
        call(fields=fields, real=real).layer(0, dtype=torch.float64)


def test_padding_between_real_tokens_is_refused_with_a_cache_and_let_through_without():
    step = KVCache(tiny_config(), batch=3, capacity=20).step(HOLE, rows=3, tokens=7)
    with pytest.raises(InputError, match="padding between real tokens in row 1"):
        call(real=HOLE, step=step).layer(0, dtype=torch.float64)
    assert torch.equal(seen(call(real=HOLE)), LOWER & HOLE[:, None])


def test_documents_are_refused_where_they_would_change_chunks_or_angles():
    with pytest.raises(InputError) as caught:
        call(fields={"pattern": (LayerKind(chunk=3),)}, documents=DOCUMENTS).layer(
            0, dtype=torch.float64
        )
    assert str(caught.value) == ("documents= cannot be packed where layers look at chunks of a row")
    with pytest.raises(InputError) as caught:
        call(fields={"positions": Rotary(scaling=LONG)}, documents=DOCUMENTS).layer(
            0, dtype=torch.float64
        )
    assert str(caught.value) == (
        "documents= cannot be packed where rotary positions depend on a text's length"
    )
