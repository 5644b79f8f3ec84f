"""Padding: a trace of a padded row is the trace of its sequence, whatever the padding is."""

import copy

import pytest
import torch

from clearhead.errors import InputError
from clearhead.positions.kinds import Alibi, T5Buckets
from clearhead.tracing.recorder import KEEPABLE
from clearhead.tracing.trace import trace
from clearhead.transformer.model import Transformer
from tests.accuracy import assert_double
from tests.tracing.closeness import assert_as_near
from tests.tracing.families import DECODERS, ENCODERS, TRACED, made, with_attention
from tests.tracing.padding import padded, positions
from tests.tracing.shapes import ALONE, drawn
from tests.transformer.doubled import Doubled

FAMILIES = {**DECODERS, **ENCODERS, **{name: TRACED[name] for name in ("gemma2", "gpt_oss")}}
OURS = {f"our {name}": config for name, config in ALONE.items()}
SIDES = ("left", "right")
QUANTITIES = ("query", "key", "value", "logsumexp", "context", "output")


@pytest.fixture(params=[*FAMILIES, *OURS])
def model(request, seeded_weights):
    if request.param in FAMILIES:
        return made(FAMILIES[request.param])
    return drawn(OURS[request.param])


def in_float64(model):
    twin = copy.deepcopy(model).double()
    if getattr(twin, "_can_set_experts_implementation", bool)():
        twin.set_experts_implementation("eager")  # the other one knows no float64
    return twin


@pytest.mark.parametrize("side", SIDES)
def test_traces_of_a_padded_batch_are_those_of_its_sequences(side, model, generator):
    ids, real = padded(generator, side=side)
    exact = in_float64(model)
    batch = trace(model, ids, attention_mask=real)
    for row, found in enumerate(batch):
        own = ids[row, real[row].bool()]
        alone, truth = trace(model, own), trace(exact, own)
        assert found.token_ids == alone.token_ids == tuple(own.tolist())
        assert found.causal == alone.causal
        assert found.nbytes == alone.nbytes
        assert_as_near(found.next_logits, alone.next_logits, truth.next_logits)
        for layer, single, true in zip(found, alone, truth, strict=True):
            for name in QUANTITIES:
                assert_as_near(*(getattr(x, name) for x in (layer, single, true)))
            assert_as_near(*(x.weights.to_dense() for x in (layer, single, true)))


@pytest.mark.parametrize("side", SIDES)
def test_what_the_padding_is_does_not_matter_bit_for_bit(side, model, generator):
    ids, real = padded(generator, side=side)
    other = torch.where(real.bool(), ids, torch.randint(3, 99, ids.shape, generator=generator))
    # experts multiply the tokens of all rows together: padding sent elsewhere rounds them otherwise
    experts = getattr(model.config, "num_local_experts", 0) > 0 or "experts=E" in str(model.config)
    given = {"attention_mask": real, "keep": KEEPABLE, "layers": [0] if experts else None}
    for one, two in zip(trace(model, ids, **given), trace(model, other, **given), strict=True):
        assert experts or torch.equal(one.next_logits, two.next_logits)
        for ours, again in zip(one, two, strict=True):
            for name in (*QUANTITIES, "attention_input"):
                assert torch.equal(getattr(ours, name), getattr(again, name)), name
            assert torch.equal(ours.weights.to_dense(), again.weights.to_dense())


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.int32])
def test_a_mask_may_have_any_dtype(dtype, tiny_llama, generator):
    ids, real = padded(generator, side="left")
    expected = trace(tiny_llama, ids, attention_mask=real)
    for one, two in zip(
        trace(tiny_llama, ids, attention_mask=real.to(dtype)), expected, strict=True
    ):
        assert torch.equal(one[2].query, two[2].query)


def test_one_row_with_a_mask_is_a_list_of_one(model, generator):
    (ids, real), model = padded(generator, side="left"), in_float64(model)
    with Doubled():  # roots and sigmoids, float32 by definition, would round by the call's shape
        (found,) = trace(model, ids[1:2], attention_mask=real[1:2])
        alone = trace(model, ids[1, 3:])
        assert found.token_ids == alone.token_ids
        assert_double(found[1].weights.to_dense(), alone[1].weights.to_dense())


@pytest.mark.parametrize("side", SIDES)
def test_queries_are_counted_among_the_real_tokens(side, model, generator):
    (ids, real), model = padded(generator, side=side), in_float64(model)
    given = {"attention_mask": real, "queries": slice(-2, None)}
    for found, whole in zip(
        trace(model, ids, **given), trace(model, ids, attention_mask=real), strict=True
    ):
        count = len(whole)
        assert found.queries.tolist() == [count - 2, count - 1]
        assert found.sources().target == count - 1
        for ours, every in zip(found, whole, strict=True):
            assert torch.equal(ours.query, every.query[:, -2:])
            assert_double(ours.weights.to_dense(), every.weights.to_dense()[:, -2:])


HOLES = torch.tensor([[1, 1, 0, 0, 1, 1, 0, 1, 1, 1, 1], [0, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0]])


def test_holes_in_the_middle_are_padding_too(model, generator):
    ids = torch.randint(3, 99, HOLES.shape, generator=generator)
    exact = in_float64(model)
    if isinstance(model, Transformer) and _counts_slots(model.config):
        with pytest.raises(InputError, match=r"padding between real tokens in row 0"):
            trace(model, ids, attention_mask=HOLES)
        return
    batch = trace(model, ids, attention_mask=HOLES)
    # a window counts places of the row, holes included: such layers are held to eager below
    windowed = getattr(model.config, "sliding_window", None) is not None
    for row, found in enumerate(batch):
        own = ids[row, HOLES[row].bool()]
        assert found.token_ids == tuple(own.tolist())
        if windowed:
            continue
        alone, truth = trace(model, own), trace(exact, own)
        assert_as_near(found.next_logits, alone.next_logits, truth.next_logits)
        for layer, single, true in zip(found, alone, truth, strict=True):
            assert_as_near(*(x.weights.to_dense() for x in (layer, single, true)))


def _counts_slots(config) -> bool:
    """Whether distances count, which our own models measure in places of the row."""
    measured = any(kind.window or kind.chunk for kind in config.pattern)
    return measured or isinstance(config.positions, Alibi | T5Buckets)


@torch.no_grad()
@pytest.mark.parametrize("family", FAMILIES)
def test_rows_with_holes_are_those_of_eager_at_the_real_places(family, seeded_weights, generator):
    model = made(FAMILIES[family])
    ids = torch.randint(3, 99, HOLES.shape, generator=generator)
    places = positions(HOLES) + (2 if family == "roberta" else 0)
    eager = with_attention(model, "eager")
    given = {"attention_mask": HOLES, "position_ids": places, "output_attentions": True}
    peer = eager(ids, **given).attentions
    for row, found in enumerate(trace(model, ids, attention_mask=HOLES)):
        kept = HOLES[row].bool()
        for layer, theirs in zip(found, peer, strict=True):
            expected = theirs[row][:, kept][..., kept]
            assert (layer.weights.to_dense() - expected).abs().max() < 1e-4


def test_padding_may_reach_past_the_context(tiny_llama, tiny_gpt2, generator):
    ids = torch.randint(3, 99, (1, 80), generator=generator)
    real = torch.zeros(1, 80).bool()
    real[:, 30:50] = True
    for model in (tiny_llama, tiny_gpt2):
        (found,) = trace(model, ids, attention_mask=real)
        alone = trace(model, ids[:, 30:50])
        assert (found.next_logits - alone.next_logits).abs().max() < 1e-4
