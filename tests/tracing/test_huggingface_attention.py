"""``attn_implementation="clearhead"``: a model's own forward through it, and the call itself."""

import pytest
import torch
from torch import nn

import clearhead as ch
from clearhead.errors import UnsupportedError
from clearhead.pipeline.tap import Site, tapping
from clearhead.tracing.huggingface_attention import attention_function
from clearhead.tracing.huggingface_masks import LazyMask
from tests.tracing.closeness import assert_as_near
from tests.tracing.families import DECODERS, ENCODERS, TRACED, made, with_attention
from tests.tracing.largest import Largest
from tests.tracing.padding import padded, positions
from tests.tracing.taps import Reading

ch.register_attention()

ONE_KERNEL = {**DECODERS, "bert": ENCODERS["bert"], "phi3": TRACED["phi3"]}


# ------------------------------------------------------------------------------------------ forward


@torch.no_grad()
@pytest.mark.parametrize("family", ONE_KERNEL)
@pytest.mark.parametrize("length", [1, 2, 33])
def test_logits_are_those_of_sdpa_bit_for_bit_where_the_kernel_is_the_same(
    family, length, seeded_weights, generator
):
    model = made(ONE_KERNEL[family], sliding_window=35)
    ids = torch.randint(3, 99, (2, length), generator=generator)
    ours, theirs = (with_attention(model, name)(ids)[0] for name in ("clearhead", "sdpa"))
    assert torch.equal(ours, theirs)


@torch.no_grad()
@pytest.mark.parametrize("family", TRACED)
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_logits_are_as_near_as_those_of_eager(family, side, seeded_weights, generator):
    model = made(TRACED[family])
    ids, real = padded(generator, side=side)
    places = positions(real) + (2 if family == "roberta" else 0)
    given = {"attention_mask": real, "position_ids": places}
    eager = with_attention(model, "eager")
    ours, peer = (m(ids, **given)[0] for m in (with_attention(model, "clearhead"), eager))
    if eager._can_set_experts_implementation():
        eager.set_experts_implementation("eager")  # the other one knows no float64
    eager = eager.double()
    for row in range(3):
        kept = real[row].bool()
        # one row alone: in float64 a row of padding is NaN in some families' eager attention
        alone = {"position_ids": places[row : row + 1, kept]}
        truth = eager(ids[row : row + 1, kept], **alone)[0][0]
        assert_as_near(ours[row, kept], peer[row, kept], truth)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("family", ["llama", "gpt2", "bert"])
def test_a_mask_of_the_users_own_is_followed(family, kind, seeded_weights, generator):
    model = made(TRACED[family])
    ids = torch.randint(3, 99, (2, 7), generator=generator)
    allowed = torch.rand((2, 1, 7, 7), generator=generator) < 0.6
    allowed |= torch.eye(7, dtype=torch.bool)
    lowest = torch.finfo(torch.float32).min
    additive = torch.zeros(allowed.shape).masked_fill(~allowed, lowest)
    ours = with_attention(model, "clearhead")(
        ids, attention_mask=allowed if kind == "bool" else additive
    )[0]
    eager = with_attention(model, "eager")
    peer = eager(ids, attention_mask=additive)[0]
    truth = eager.double()(ids, attention_mask=additive.double())[0]
    assert_as_near(ours, peer, truth)


@torch.no_grad()
def test_documents_packed_in_a_row_do_not_see_each_other(tiny_llama, tiny_mistral, generator):
    ids = torch.randint(3, 99, (1, 12), generator=generator)
    places = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6]])
    for model in (tiny_llama, tiny_mistral):
        ours = with_attention(model, "clearhead")
        packed = ours(ids, position_ids=places, use_cache=False).logits
        eager = with_attention(model, "eager")
        peer = eager(ids, position_ids=places, use_cache=False).logits
        alone = [eager.double()(part).logits for part in (ids[:, :5], ids[:, 5:])]
        assert_as_near(packed, peer, torch.cat(alone, 1))
        changed = ids.clone()
        changed[:, :5] = 98 - changed[:, :5]
        again = ours(changed, position_ids=places, use_cache=False).logits
        assert torch.equal(again[:, 5:], packed[:, 5:])


@torch.no_grad()
@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gpt_oss", "llama4", "bert"])
@pytest.mark.parametrize("side", [None, "left"])
def test_nothing_of_n_by_m_is_made(family, side, seeded_weights):
    n = 1536
    lengths = {"max_position_embeddings": n}
    model = with_attention(made(TRACED[family], **lengths), "clearhead").base_model
    ids = torch.full((1, n), 7)
    real = torch.ones_like(ids)
    if side:
        real[:, :100] = 0
    with Largest() as largest:
        model(ids, attention_mask=real)
    # one byte an entry would be n²; blocks of 256 rows over all four heads are the most
    assert largest.nbytes <= 4 * 4 * 256 * n < 4 * n * n


# --------------------------------------------------------------------------------- the call itself


class Layer(nn.Module):
    """Stands for a transformers attention module."""

    is_causal = True
    layer_idx = 3


@pytest.fixture
def call(generator):
    def attend(mask=None, n=4, m=6, **given):
        query = torch.randn(1, 4, n, 8, generator=generator)
        key, value = (torch.randn(1, 2, m, 8, generator=generator) for _ in range(2))
        return attention_function(Layer(), query, key, value, mask, **given)

    return attend


def test_the_context_comes_with_heads_beside_positions_and_without_weights(call):
    context, weights = call()
    assert context.shape == (1, 4, 4, 8)
    assert context.is_contiguous()
    assert weights is None


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"indices": torch.zeros(1)}, "indices"),
        ({"block_indices": torch.zeros(1)}, "block_indices"),
        (
            {"s_aux": torch.zeros(1, 4, 1, 1)},
            "sinks of shape (1, 4, 1, 1) where one a head is known",
        ),
        ({"sinks": torch.zeros(2, 2)}, "sinks of shape (2, 2) where one a head is known"),
        (
            {"dropout": 0.5, "indices": torch.zeros(1)},
            "indices, dropout=0.5 (call model.eval(), or set attention dropout to 0)",
        ),
    ],
)
def test_what_clearhead_does_not_do_is_refused_by_name(given, text, call):
    with pytest.raises(UnsupportedError) as caught:
        call(**given)
    assert str(caught.value) == f"Layer asks attention for what clearhead does not do: {text}"


def test_keys_that_the_mask_was_not_made_for_are_refused(call):
    mask = LazyMask(ch.causal_mask(), 2, 0, 6)
    call(mask)
    with pytest.raises(UnsupportedError) as caught:
        call(mask, m=7)
    assert str(caught.value) == "Layer attends to 7 keys where its mask was made for 6"


@pytest.mark.parametrize(
    ("given", "mask", "start"),
    [
        ({}, "causal_mask()", 2),
        ({"is_causal": True}, "causal_mask()", 2),
        ({"is_causal": False}, "None", None),
        ({"n": 1}, "None", None),
        ({"mask": torch.ones(1, 1, 4, 8, dtype=torch.bool)}, "from_tensor", None),
        (
            {"cu_seq_lens_k": torch.tensor([0, 2, 6]), "is_causal": False},
            "document_mask(ids[1, 6])",
            2,
        ),
    ],
)
def test_without_a_mask_of_ours_the_call_or_the_module_says_who_sees_whom(given, mask, start, call):
    reading = Reading()
    with tapping(reading):
        call(**given)
    (rule,) = reading.rules.values()
    assert mask in repr(rule.mask)
    assert rule.query_start == start


def test_a_bias_of_positions_and_a_mask_are_added(call, generator):
    bias = torch.randn(1, 4, 4, 6, generator=generator)
    mask = torch.randn(1, 1, 4, 9, generator=generator)
    reading = Reading()
    with tapping(reading):
        call(mask, position_bias=bias)
    (rule,) = reading.rules.values()
    assert torch.equal(rule.bias, bias + mask[..., :6])
    assert rule.mask is None


def test_a_row_of_lowest_numbers_sees_nothing(call):
    lowest = torch.finfo(torch.float32).min
    mask = torch.zeros(1, 1, 4, 6)
    mask[..., 1, :], mask[..., 2, 3:] = lowest, -torch.inf
    reading = Reading()
    with tapping(reading):
        context, _ = call(mask)
    assert context.isfinite().all()
    assert (context[:, 1] == 0).all()
    (level,) = [value for (_, name), value in reading.values.items() if name == "logsumexp"]
    assert (level == -torch.inf).all(1).tolist() == [[False, True, False, False]]


def test_a_module_that_is_not_watched_still_says_where_it_stands(call):
    reading = Reading()
    with tapping(reading):
        call()
    assert {site for site, _ in reading.seen} == {Site(3, "self", "Layer")}
