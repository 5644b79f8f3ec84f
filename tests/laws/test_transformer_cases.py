"""What went wrong elsewhere and a Transformer's parts decide; numbers are those of the list."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from clearhead.errors import CheckpointError
from clearhead.masks import padding_mask
from clearhead.pipeline.attention import attention
from clearhead.pipeline.tap import tapping
from clearhead.positions.kinds import Alibi, Rotary
from clearhead.positions.rotary import RotaryEmbedding
from clearhead.positions.scaling import Llama3Scaling
from clearhead.transformer.attention import MultiHeadAttention
from clearhead.transformer.calls import Call, Encoded
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.families.known import from_hugging_face
from clearhead.transformer.gguf.architecture import Dealt
from clearhead.transformer.gguf.known import ARCHITECTURES
from clearhead.transformer.model import Transformer
from tests.accuracy import assert_double
from tests.laws.architectures import held
from tests.tracing.taps import Reading
from tests.transformer.beside_theirs import Alone
from tests.transformer.doubled import Doubled
from tests.transformer.released_families import VOCABULARY, loaded, made, saved, twin
from tests.transformer.tiny_models import BOTH, DECODERS, ENCODERS, some_ids, tiny, tiny_config

ALL = [*DECODERS, *ENCODERS, *BOTH]
SIDES = pytest.mark.parametrize("side", ["left", "right"])


def crossing(*, softcap: float | None = None, mask: Tensor | None = None) -> Tensor:
    """O of q = [1, 1] over keys [1, 1], [1, 0] and values [10, 2], [0, 8], W_O doing nothing."""
    module = MultiHeadAttention(2, heads=1, d_source=4, softcap=softcap).double()
    both, nothing = torch.eye(2).double(), torch.zeros(2, 2).double()
    module.to_query.weight.data = module.to_output.weight.data = both
    module.to_key.weight.data = torch.cat((both, nothing), 1)
    module.to_value.weight.data = torch.cat((nothing, both), 1)
    source = torch.tensor([[[1, 1, 10, 2], [1, 0, 0, 8], [9, 9, 99, 99]]]).double()
    seen = padding_mask(torch.tensor([1, 1, 0])) if mask is None else padding_mask(mask)
    return module(torch.ones(1, 1, 2).double(), source, mask=seen).detach()[0, 0]


def mixed(*scores: float) -> Tensor:
    """The values of `crossing`, mixed by softmax of these scores."""
    weights = torch.tensor(scores, dtype=torch.float64).softmax(-1)
    return weights @ torch.tensor([[10, 2], [0, 8]]).double()


def released(variant: str, folder: Path) -> tuple[Alone, Transformer]:
    """A model of transformers in float64 throughout, and ours."""
    theirs = made(variant)
    with Doubled():
        alone = Alone(twin(theirs, variant))
    return alone, loaded(saved(theirs, folder), torch.float64)


# ------------------------------------------------------------------------------------------ masks


@SIDES
@pytest.mark.parametrize("name", ENCODERS)
@torch.no_grad()
def test_case_9_columns_padded_in_every_row_are_not_dropped(
    name: str, side: str, generator: torch.Generator, seeded_weights: None
) -> None:
    """Case 9: an encoder reads 6 tokens, 5 of them real in every row: its output is 6 long."""
    model, ids = tiny(name), some_ids(generator, 2, 6)
    real = torch.ones(2, 6, dtype=torch.bool)
    real[:, 0 if side == "left" else 5] = False
    with Doubled():
        padded, alone = model(ids, attention_mask=real), model(ids[real].view(2, 5))
    assert padded.hidden.shape == (2, 6, 16)
    assert_double(padded.hidden[real], alone.hidden.flatten(0, 1))


# ------------------------------------------------------------------------------ scale and soft-cap


@torch.no_grad()
def test_case_15_a_scale_of_each_layers_own_holds_on_every_path(
    generator: torch.Generator, seeded_weights: None, tmp_path: Path
) -> None:
    """Case 15: GPT-2 with scale_attn_by_inverse_layer_idx: layer n has 1/√d / (n + 1), always."""
    alone, model = released("gpt2 inverse layer scale", tmp_path)
    ids, cache = torch.randint(3, VOCABULARY, (1, 7), generator=generator), held(model, batch=1)
    with Doubled(), tapping(whole := Reading()):
        full = model(ids).logits
    with Doubled(), tapping(steps := Reading()):
        stepped = torch.cat([model(token, cache=cache).logits for token in ids.split(1, 1)], 1)
    expected = alone.of(ids[0], ids[0])["logits"]
    assert_double(full, expected)
    assert_double(stepped, expected)
    for reading in (whole, steps):
        assert [rule.scale for rule in reading.rules.values()] == [8**-0.5, 8**-0.5 / 2]


def test_case_16_scores_are_scaled_once() -> None:
    """Case 16: 1/√d once: scores 1.414 and 0.707, context [6.7, 3.98]."""
    assert_double(crossing(), mixed(2 / math.sqrt(2), 1 / math.sqrt(2)))
    assert crossing().tolist() == pytest.approx([6.7, 3.98], abs=0.01)


@pytest.mark.parametrize("name", ALL)
@torch.no_grad()
def test_case_16_every_site_of_every_model_scales_once(
    name: str, generator: torch.Generator, seeded_weights: None
) -> None:
    """Case 16: C is made of Q and K with the configuration's scale, or 1/√d_k, and no other."""
    model, ids = tiny(name), some_ids(generator, 1, 6)
    with tapping(seen := Reading()):
        model(ids, source=model.encode(ids) if name in BOTH else None)
    for site in model.sites():
        query, key, value, context = (
            seen.values[site, part] for part in ("query", "key", "value", "context")
        )
        config = model.config if site.kind != "encoder" else model.encoder.config
        scale = 1 / math.sqrt(query.shape[-1]) if config.scale is None else config.scale
        scaled = attention(query * scale, key, value, rule=replace(seen.rules[site], scale=1.0))
        assert_double(context, scaled.context)


def test_case_17_a_soft_cap_bends_scores_before_the_mask() -> None:
    """Case 17: cap · tanh(s / cap), then mask, then softmax: a masked score is not bent to −cap."""
    bent = [0.5 * math.tanh(score / math.sqrt(2) / 0.5) for score in (2, 1)]
    assert_double(crossing(softcap=0.5), mixed(*bent))
    assert crossing(softcap=0.5, mask=torch.tensor([0, 1, 0])).tolist() == [0, 8]


@pytest.mark.parametrize("scalar", [224, 256, 144, 1])
@pytest.mark.parametrize("variant", ["gemma2 windows", "gemma3 windows"])
def test_case_18_the_scale_is_that_of_the_config(variant: str, scalar: int) -> None:
    """Case 18: heads of 224 and a query_pre_attn_scalar of 256: 1/√256."""
    keys = made(variant).config.to_dict()
    config = from_hugging_face({**keys, "head_dim": 224, "query_pre_attn_scalar": scalar})
    assert config.scale == scalar**-0.5


# -------------------------------------------------------------------------------------- positions


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["grouped heads", "windows with own angles", "two sets of angles"])
def test_case_19_angles_are_float32_whatever_the_model_is(name: str, dtype: torch.dtype) -> None:
    """Case 19: position 15,962 is turned by its own angle, not by that of 15,968 or 15,936."""
    config = tiny_config(name, context_length=20_000)
    for layer in range(config.layers):
        narrow, wide = (angles_at(15_962, config, layer, kind) for kind in (dtype, torch.float32))
        assert torch.equal(narrow.cosine, wide.cosine.to(dtype))
        assert torch.equal(narrow.sine, wide.sine.to(dtype))
    plain = RotaryEmbedding(4).phases(torch.tensor([[15_962]]), dtype=dtype).cosine[0, 0, 0, 0]
    assert float(plain) == pytest.approx(math.cos(15_962), abs=torch.finfo(dtype).eps)


def angles_at(place: int, config: TransformerConfig, layer: int, dtype: torch.dtype) -> object:
    """Angles of one layer for the token at one place, in a model of one dtype."""
    cache = held(Transformer(config).to(dtype), batch=1, capacity=20_000)
    cache.lengths = (place,)
    call = Call(config, torch.zeros(1, 1).long(), step=cache.step(None, rows=1, tokens=1))
    return call.layer(layer, dtype=dtype).phases


def test_case_22_a_scaling_is_applied_and_an_unknown_one_refused() -> None:
    """Case 22: llama3's is no dead letter; what nobody knows is refused by name."""
    config = from_hugging_face(made("llama llama3").config.to_dict())
    assert config.positions.scaling == Llama3Scaling(8.0, 1.0, 4.0, original_context=16)
    stretched = RotaryEmbedding(8, config.positions).frequencies()
    assert not torch.equal(stretched, RotaryEmbedding(8, Rotary(theta=500.0)).frequencies())
    keys = made("llama").config.to_dict()
    turned = {"rope_type": "spiral", "rope_theta": 500.0}
    with pytest.raises(CheckpointError) as caught:
        from_hugging_face({**keys, "rope_parameters": turned})
    assert "rope_parameters.rope_type is 'spiral', only default, linear, " in str(caught.value)


@pytest.mark.parametrize(
    ("variant", "width"),
    [
        ("gpt_neox parallel, partial", 4),
        ("gpt_neox tied", 2),
        ("gpt_neox serial", 8),
        ("phi3 longrope, partial", 4),
        ("phi3", 8),
    ],
)
@torch.no_grad()
def test_case_23_only_the_named_part_of_a_head_turns(
    variant: str, width: int, generator: torch.Generator, seeded_weights: None, tmp_path: Path
) -> None:
    """Case 23: one token again and again: its query's first numbers turn, the others do not."""
    _, model = released(variant, tmp_path)
    with tapping(seen := Reading()):
        model(torch.full((1, 5), 7))
    for name in ("query", "key"):
        turned = seen.values[model.sites()[0], name][0]
        assert_double(turned[:, :, width:], turned[:, :1, width:].expand(-1, 5, -1))
        assert ((turned[:, 1:, :width] - turned[:, :1, :width]).abs() > 1e-6).all()


def test_case_24_rows_of_query_and_key_are_put_back_for_llama_alone() -> None:
    """Case 24: GGUF files of llama have q and k in another order; of no other architecture."""
    dealt = {
        (name, module.rsplit(".", 1)[1])
        for name, architecture in ARCHITECTURES.items()
        for module, stored in architecture.modules.items()
        if isinstance(stored, Dealt)
    }
    assert {name for name, _ in dealt} <= {"llama"}
    assert {module for _, module in dealt} == {"attn_q", "attn_k"}
    rows = np.arange(16 * 3, dtype=np.float32).reshape(16, 3)  # two heads of 8
    written = rows.reshape(2, 2, 4, 3).swapaxes(1, 2).reshape(16, 3)
    restored = Dealt("any").restored(written, width=8)
    assert np.array_equal(restored, rows)
    assert not np.array_equal(written, rows)


@torch.no_grad()
def test_case_25_neox_has_query_key_and_value_head_by_head(
    generator: torch.Generator, seeded_weights: None, tmp_path: Path
) -> None:
    """Case 25: a flat split in three has the right shapes and the wrong numbers."""
    alone, model = released("gpt_neox parallel, partial", tmp_path)
    ids, first = torch.randint(3, VOCABULARY, (1, 7), generator=generator), model.layers[0]
    fused = alone.model.gpt_neox.layers[0].attention.query_key_value.weight
    parts = (first.attention.to_query, first.attention.to_key, first.attention.to_value)
    by_head = fused.view(4, 3, 8, 32)
    for place, part in enumerate(parts):
        assert torch.equal(part.weight, by_head[:, place].reshape(32, 32))
    expected = alone.of(ids[0], ids[0])["logits"]
    with Doubled():
        assert_double(model(ids).logits, expected)
        for part, flat in zip(parts, fused.chunk(3), strict=True):
            part.weight.copy_(flat)
        assert (model(ids).logits - expected).abs().max() > 0.1


@pytest.mark.parametrize("read", [0, 1, 30])
def test_case_26_alibi_goes_by_absolute_position_at_each_step(read: int) -> None:
    """Case 26: at a decode step it is slope × distance, not 0."""
    config = tiny_config("alibi", positions=Alibi())
    cache = held(Transformer(config), batch=1)
    cache.lengths = (read,)
    call = Call(config, torch.zeros(1, 1).long(), step=cache.step(None, rows=1, tokens=1))
    zeros = torch.zeros(1, 4, 1, 4), torch.zeros(1, 1, read + 1, 4), torch.zeros(1, 1, read + 1, 4)
    rule = call.layer(0, dtype=torch.float32).rule
    scores = attention(*zeros, rule=rule).scores.to_dense()[0, :, 0]
    slopes = torch.tensor([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8])
    assert torch.equal(scores, -slopes[:, None] * torch.arange(read, -1, -1))


@pytest.mark.parametrize("name", BOTH)
@torch.no_grad()
def test_case_27_cross_attention_knows_no_distances(
    name: str, generator: torch.Generator, seeded_weights: None
) -> None:
    """Case 27: no bias and no angles: what was encoded may stand in any order."""
    model, ids = tiny(name), some_ids(generator, 2, 6)
    source = model.encode(some_ids(generator, 2, 9))
    order = torch.randperm(9, generator=generator)
    with Doubled(), tapping(seen := Reading()):
        plain = model(ids, source=source).hidden
        turned = model(ids, source=Encoded(source.hidden[:, order])).hidden
    assert_double(turned, plain)
    assert {site.kind for site, rule in seen.rules.items() if rule.bias is None} >= {"cross"}


@torch.no_grad()
def test_case_28_key_heads_are_repeated_not_tiled(generator: torch.Generator) -> None:
    """Case 28: 4 query heads on 2 key heads read key heads [0, 0, 1, 1]."""
    module, x = MultiHeadAttention(16, heads=4, kv_heads=2), torch.randn(1, 1, 16)
    with tapping(seen := Reading()):
        module(x)  # one token: every context is the value it reads
    value, context = (seen.values[module.site, name][0, :, 0] for name in ("value", "context"))
    assert torch.equal(context, value[[0, 0, 1, 1]])
