"""Every model we build: its laws, its places at the tap, what it gives and what it refuses."""

import pytest
import torch

from clearhead.errors import InputError
from clearhead.pipeline.tap import Site, Tap, tapping
from clearhead.transformer.cache import KVCache
from clearhead.transformer.model import Transformer, real_tokens
from tests.accuracy import assert_double
from tests.transformer.doubled import Doubled
from tests.transformer.tiny_models import (
    BOTH,
    DECODERS,
    ENCODERS,
    VOCABULARY,
    some_ids,
    tiny,
    tiny_config,
)

ALL = [*DECODERS, *ENCODERS, *BOTH]


def run(
    model: Transformer,
    ids: torch.Tensor,
    *,
    source_ids: torch.Tensor | None = None,
    source_mask: torch.Tensor | None = None,
    **given: object,
) -> torch.Tensor:
    """The last vectors of a model; one with an encoder reads the source, or the ids reversed."""
    if model.encoder is not None:
        read = ids.flip(1) if source_ids is None else source_ids
        given["source"] = model.encode(read, attention_mask=source_mask)
    with torch.no_grad(), Doubled():
        return model(ids, **given).hidden


# ------------------------------------------------------------------------------------------ laws


@pytest.mark.parametrize("name", [*DECODERS, *BOTH])
def test_a_later_token_never_reaches_an_earlier_one(name, generator, seeded_weights):
    model, ids = tiny(name), some_ids(generator, 2, 17)
    read, changed = some_ids(generator, 2, 6), ids.clone()
    changed[:, 11:] = (changed[:, 11:] + 1) % VOCABULARY
    before, after = (run(model, each, source_ids=read) for each in (ids, changed))
    assert not torch.equal(before[:, 11:], after[:, 11:])
    assert_double(after[:, :11], before[:, :11])
    if "experts" not in name:  # an expert's products round by how many tokens chose it
        assert torch.equal(before[:, :11], after[:, :11])
    # NaN times nothing is NaN: what reaches an earlier token however faintly would spoil it
    early = torch.arange(17)[:, None] < 11
    model.token_embedding.register_forward_hook(lambda _, __, x: x.where(early, torch.nan))
    assert_double(run(model, ids, source_ids=read)[:, :11], before[:, :11])


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_looks_both_ways(name, generator, seeded_weights):
    model, ids = tiny(name), some_ids(generator, 1, 7)
    changed = ids.clone()
    changed[:, -1] = (changed[:, -1] + 1) % VOCABULARY
    differs = (run(model, ids) != run(model, changed)).any(-1)
    assert differs.all()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("side", ["left", "right"])
def test_what_stands_in_the_padding_changes_nothing(name, side, generator, seeded_weights):
    model, ids = tiny(name), some_ids(generator, 2, 13)
    real = torch.ones(2, 13, dtype=torch.bool)
    real[1, slice(0, 6) if side == "left" else slice(7, 13)] = False
    other, read = torch.where(real, ids, (ids + 1) % VOCABULARY), some_ids(generator, 2, 5)
    before, after = (run(model, i, source_ids=read, attention_mask=real) for i in (ids, other))
    assert torch.equal(before[real], after[real])


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_amount_changes_nothing(name, side, generator, seeded_weights):
    model, ids, read = tiny(name), some_ids(generator, 1, 7), some_ids(generator, 1, 5)
    alone = run(model, ids, source_ids=read)
    for pads in (1, 5, 20):
        filling, ones = some_ids(generator, 1, pads), torch.ones(1, 7, dtype=torch.int64)
        order = slice(None, None, 1 if side == "left" else -1)
        padded = torch.cat((filling, ids)[order], dim=1)
        mask = torch.cat((torch.zeros_like(filling), ones)[order], dim=1)
        got = run(model, padded, source_ids=read, attention_mask=mask)[mask.bool()]
        assert_double(got, alone[0])


@pytest.mark.parametrize("name", BOTH)
def test_padding_of_the_source_changes_nothing(name, generator, seeded_weights):
    model, ids, read = tiny(name), some_ids(generator, 1, 7), some_ids(generator, 1, 5)
    alone = run(model, ids, source_ids=read)
    for side in (1, -1):
        padded = torch.cat((some_ids(generator, 1, 4), read)[::side], 1)
        mask = torch.cat((torch.zeros(1, 4), torch.ones(1, 5))[::side], 1).bool()
        got = run(model, ids, source_ids=padded, source_mask=mask)
        assert_double(got, alone)


@pytest.mark.parametrize("name", ALL)
def test_neighbours_in_a_batch_do_not_matter(name, generator, seeded_weights):
    model, ids = tiny(name), some_ids(generator, 3, 7)
    together = run(model, ids)
    for row in range(3):
        assert_double(together[row], run(model, ids[row : row + 1])[0])


def test_without_positions_permuting_what_an_encoder_reads_permutes_its_output(
    generator, seeded_weights
):
    model, ids = tiny("pooled", positions=None), some_ids(generator, 1, 9)
    order = torch.randperm(9, generator=generator)
    assert_double(run(model, ids[:, order]), run(model, ids)[:, order])


@pytest.mark.parametrize("name", ALL)
def test_a_mask_of_ones_is_no_mask(name, generator, seeded_weights):
    model, ids = tiny(name), some_ids(generator, 2, 9)
    assert torch.equal(run(model, ids), run(model, ids, attention_mask=torch.ones_like(ids)))
    assert real_tokens(torch.ones(2, 3)) is None
    assert real_tokens(None) is None
    assert torch.equal(real_tokens(torch.tensor([[0, 1]])), torch.tensor([[False, True]]))


@pytest.mark.parametrize("name", ALL)
def test_gradients_reach_every_weight(name, generator, seeded_weights):
    model, ids = tiny(name), some_ids(generator, 4, 12)
    source = model.encode(ids.flip(1)) if name in BOTH else None
    given = {"token_types": ids % 2} if model.config.token_types else {}
    output = model(ids, source=source, **given)
    parts = (output.logits, output.hidden, output.pooled)
    sum(part.square().mean() for part in parts if part is not None).backward()
    for weight_name, weight in model.named_parameters():
        assert weight.grad is not None, weight_name
        assert weight.grad.isfinite().all(), weight_name
        # a key's bias adds the same to a whole row of scores, which softmax does not see
        assert weight.grad.any() or weight_name.endswith("to_key.bias"), weight_name


# --------------------------------------------------------------------------------------- the tap


class Names(Tap):
    """Notes which site sends what."""

    def __init__(self) -> None:
        self.sites: list[Site] = []

    def visit(self, site: Site, quantity: str, value: torch.Tensor) -> torch.Tensor:
        if quantity == "query":
            self.sites.append(site)
        return value


@torch.no_grad()
@pytest.mark.parametrize("name", ALL)
def test_the_tap_sees_every_site_in_order_and_changes_no_bit(name, generator, seeded_weights):
    model, ids, names = tiny(name), some_ids(generator, 2, 8), Names()
    plain = run(model, ids)
    with tapping(names):
        assert torch.equal(run(model, ids), plain)
    assert tuple(names.sites) == model.sites()
    for site in model.sites():
        attention = model.get_submodule(site.name)
        weight, bias = model.output_projection(site)
        assert weight is attention.to_output.weight
        assert bias is attention.to_output.bias


def test_sites_are_named_apart():
    assert Transformer(tiny_config()).sites() == tuple(
        Site(index, "self", f"layers.{index}.attention") for index in range(3)
    )
    both = Transformer(tiny_config("distances alone")).sites()
    assert both[:2] == tuple(
        Site(index, "encoder", f"encoder.layers.{index}.attention") for index in range(2)
    )
    assert both[2:] == tuple(
        site
        for index in range(3)
        for site in (
            Site(index, "self", f"layers.{index}.attention"),
            Site(index, "cross", f"layers.{index}.cross_attention"),
        )
    )


def test_a_site_of_another_model_is_refused():
    model, site = Transformer(tiny_config()), Site(3, "self", "layers.3.attention")
    with pytest.raises(InputError) as caught:
        model.output_projection(site)
    assert str(caught.value) == f"site must be one of this model's 3 sites, got {site}"


# ----------------------------------------------------------------------------------- what it gives


@torch.no_grad()
@pytest.mark.parametrize("name", ALL)
def test_logits_and_pooled_vector_are_made_of_the_last_vectors(name, generator, seeded_weights):
    model, ids = tiny(name), some_ids(generator, 2, 7)
    source = model.encode(ids) if name in BOTH else None
    output = model(ids, source=source)
    assert output.hidden.shape == (2, 7, 16)
    if model.config.predicts:
        assert torch.equal(output.logits, model.to_logits(output.hidden))
        assert output.logits.shape == (2, 7, VOCABULARY)
    else:
        assert output.logits is None
    if model.config.pooler:
        assert torch.equal(output.pooled, model.pooler(output.hidden[:, 0]).tanh())
    else:
        assert output.pooled is None


@torch.no_grad()
@pytest.mark.parametrize("keep", [1, 3, 7, 99, torch.tensor([4, 0, -1]), torch.tensor([]).long()])
def test_positions_are_kept_as_asked(keep, generator, seeded_weights):
    model, ids = tiny(), some_ids(generator, 2, 7)
    whole, kept = model(ids), model(ids, logits_to_keep=keep)
    chosen = keep if isinstance(keep, torch.Tensor) else slice(-keep, None)
    assert torch.equal(kept.hidden, whole.hidden[:, chosen])
    assert_double(kept.logits, whole.logits[:, chosen])


@torch.no_grad()
def test_the_first_token_is_pooled_whatever_is_kept(generator, seeded_weights):
    model, ids = tiny("pooled"), some_ids(generator, 2, 7)
    assert torch.equal(model(ids, logits_to_keep=1).pooled, model(ids).pooled)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
@pytest.mark.parametrize("name", [name for name in ALL if name != "pooled"])
def test_no_ids_give_no_vectors(name, shape, seeded_weights):
    model = tiny(name)
    assert run(model, torch.zeros(shape, dtype=torch.int64)).shape == (*shape, 16)


def test_a_first_token_that_is_pooled_must_be_there(seeded_weights):
    model = tiny("pooled")
    assert model(torch.zeros(0, 3, dtype=torch.int64)).pooled.shape == (0, 16)
    with pytest.raises(InputError) as caught:
        model(torch.zeros(2, 0, dtype=torch.int64))
    assert str(caught.value) == (
        "the model cannot read this: ids must have a first token, whose vector this model pools; "
        "they are empty"
    )


def test_weights_that_are_the_same_are_one_parameter():
    tied = Transformer(tiny_config("as first published"))
    assert tied.to_logits.weight is tied.token_embedding.weight
    assert tied.encoder.token_embedding.weight is tied.token_embedding.weight
    untied = Transformer(tiny_config())
    assert untied.to_logits.weight is not untied.token_embedding.weight


# -------------------------------------------------------------------------------------- bad input


def test_what_does_not_fit_is_refused_at_once():
    with pytest.raises(InputError) as caught:
        Transformer(tiny_config())(
            torch.tensor([[1, 29, -1]]), attention_mask=torch.ones(1, 2, dtype=torch.int64)
        )
    assert str(caught.value) == (
        "the model cannot read this, 2 faults:\n"
        "  - ids must lie in 0 … 28, got -1 … 29\n"
        "  - attention_mask must have the shape of ids (1, 3), got (1, 2)"
    )


def test_a_model_without_an_encoder_encodes_nothing():
    with pytest.raises(InputError) as caught:
        Transformer(tiny_config()).encode(torch.zeros(1, 3, dtype=torch.int64))
    assert str(caught.value) == "encode: this model has no encoder; call the model itself"


def test_an_encoder_with_a_cache_is_refused():
    model = Transformer(tiny_config("masked"))
    cache = KVCache(tiny_config(), capacity=8)
    with pytest.raises(InputError) as caught:
        model(torch.zeros(1, 3, dtype=torch.int64), cache=cache)
    assert str(caught.value) == (
        "the model cannot read this: cache: an encoder reads its text only once"
    )


def test_what_is_encoded_is_checked(generator):
    model = Transformer(tiny_config("distances alone"))
    with pytest.raises(InputError, match=r"ids must lie in 0 … 28, got 29 … 29"):
        model.encode(torch.full((1, 3), 29))
    source = model.encode(some_ids(generator, 2, 5))
    with pytest.raises(InputError, match="source must have as many rows as ids, 1, got 2"):
        model(some_ids(generator, 1, 3), source=source)
