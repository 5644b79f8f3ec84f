"""What a model cannot read is said before it reads, all at once."""

import pytest
import torch

from clearhead.errors import InputError
from clearhead.transformer.cache import KVCache
from clearhead.transformer.calls import Encoded
from clearhead.transformer.input_faults import check_inputs
from tests.transformer.tiny_models import tiny_config

IDS = torch.tensor([[1, 2, 3], [4, 5, 28]])
ONES = torch.ones(2, 3, dtype=torch.int64)
CACHE = KVCache(tiny_config(), batch=2, capacity=4)


def said(ids: torch.Tensor = IDS, *, name: str = "grouped heads", **given: object) -> str:
    with pytest.raises(InputError) as caught:
        check_inputs(tiny_config(name), ids, **given)
    return str(caught.value)


@pytest.mark.parametrize("mask", [ONES, ONES.bool(), ONES.to(torch.uint8), None])
@pytest.mark.parametrize("keep", [0, 1, 99, torch.tensor([0, -1, 2]), torch.tensor([]).long()])
def test_what_fits_is_let_through(mask, keep):
    cache = KVCache(tiny_config(), batch=2, capacity=4)
    check_inputs(tiny_config(), IDS, attention_mask=mask, keep=keep, cache=cache)
    check_inputs(tiny_config(), IDS.int(), documents=ONES.cumsum(-1), keep=keep)
    check_inputs(tiny_config("masked"), IDS, token_types=ONES)
    both, source = tiny_config("distances alone"), Encoded(torch.zeros(2, 5, 16))
    check_inputs(both, IDS, source=source, cache=KVCache(both, batch=2, capacity=4))


def test_every_fault_is_named_at_once():
    assert said(
        torch.tensor([[1, 29, -1]]),
        attention_mask=torch.ones(1, 2),
        documents=torch.ones(1, 3),
        token_types=torch.ones(3, 1, dtype=torch.int64),
        source=Encoded(torch.zeros(2, 5, 16)),
        keep=-1,
    ) == (
        "the model cannot read this, 10 faults:\n"
        "  - ids must lie in 0 … 28, got -1 … 29\n"
        "  - attention_mask must have the shape of ids (1, 3), got (1, 2)\n"
        "  - attention_mask must be bool or integers, 1 where a token is real, got torch.float32\n"
        "  - documents must be whole numbers, got torch.float32\n"
        "  - token_types must have the shape of ids (1, 3), got (3, 1)\n"
        "  - token_types: this model does not tell types apart\n"
        "  - source: this model has no encoder, and looks at no other text\n"
        "  - documents: packed texts are read whole: without cache or attention_mask\n"
        "  - source must have as many rows as ids, 1, got 2\n"
        "  - logits_to_keep must be 0 (all) or how many last positions, got -1"
    )


@pytest.mark.parametrize("shape", [(3,), (), (1, 2, 3)])
def test_ids_without_a_batch_axis(shape):
    expected = f"the model cannot read this: ids must be (batch, n), got shape {shape}"
    assert said(torch.zeros(shape, dtype=torch.int64)) == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64])
def test_ids_that_are_no_whole_numbers(dtype):
    expected = f"the model cannot read this: ids must be whole numbers, got {dtype}"
    assert said(torch.zeros(2, 3, dtype=dtype)) == expected


def test_types_that_are_not_there():
    assert said(name="masked", token_types=2 * ONES) == (
        "the model cannot read this: token_types must lie in 0 … 1, got 2 … 2"
    )


def test_a_text_to_look_at_that_is_missing():
    assert said(name="distances alone", documents=ONES) == (
        "the model cannot read this, 2 faults:\n"
        "  - documents: texts cannot be packed in a model with an encoder\n"
        "  - source: this model looks at an encoded text; give model.encode(ids)"
    )


def test_an_encoder_has_no_cache():
    expected = "the model cannot read this: cache: an encoder reads its text only once"
    assert said(name="masked", cache=CACHE) == expected


@pytest.mark.parametrize("given", [{"cache": CACHE}, {"attention_mask": ONES}])
def test_packed_texts_are_read_whole(given):
    assert said(documents=ONES, **given) == (
        "the model cannot read this: documents: packed texts are read whole: "
        "without cache or attention_mask"
    )


@pytest.mark.parametrize(
    ("keep", "fault"),
    [
        (-1, "must be 0 (all) or how many last positions, got -1"),
        (torch.tensor([[0, 1]]), "must list positions, got torch.int64 of shape (1, 2)"),
        (torch.tensor([0.0]), "must list positions, got torch.float32 of shape (1,)"),
        (torch.tensor([True]), "must list positions, got torch.bool of shape (1,)"),
        (torch.tensor([0, -4]), "must lie in -3 … 2, got -4 … 0"),
        (torch.tensor([3]), "must lie in -3 … 2, got 3 … 3"),
        (True, "must be 0 (all) or how many last positions, got True"),
        (1.5, "must be 0 (all) or how many last positions, got 1.5"),
        (None, "must be 0 (all) or how many last positions, got None"),
        (
            torch.tensor([0], dtype=torch.uint8),
            "must be int64 or int32, got torch.uint8: give logits_to_keep.long()",
        ),
    ],
)
def test_positions_to_keep_that_are_not_there(keep, fault):
    assert said(keep=keep) == f"the model cannot read this: logits_to_keep {fault}"


def test_what_is_no_tensor_at_all():
    given = {"attention_mask": [1], "documents": 5, "source": ONES, "cache": {}, "keep": 1.5}
    assert said([[1, 2]], **given) == (
        "the model cannot read this, 6 faults:\n"
        "  - ids must be a tensor (batch, n), got list\n"
        "  - attention_mask must be a tensor of the shape of ids, got list\n"
        "  - documents must be a tensor of the shape of ids, got int\n"
        "  - source must be what model.encode(ids) gives, got Tensor\n"
        "  - cache must be a clearhead KVCache, got dict\n"
        "  - logits_to_keep must be 0 (all) or how many last positions, got 1.5"
    )


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.uint16])
def test_whole_numbers_that_no_embedding_reads(dtype):
    assert said(IDS.to(dtype), name="masked", token_types=ONES.to(dtype)) == (
        "the model cannot read this, 2 faults:\n"
        f"  - ids must be int64 or int32, got {dtype}: give ids.long()\n"
        f"  - token_types must be int64 or int32, got {dtype}: give token_types.long()"
    )


def test_texts_have_numbers_from_0_on():
    assert said(documents=torch.tensor([[0, 0, 1], [2, -1, -1]])) == (
        "the model cannot read this: documents must be 0 or more, got -1: padding may be a text of "
        "its own"
    )


def test_sources_of_another_shape():
    wide, short = Encoded(torch.zeros(2, 5, 17)), Encoded(torch.zeros(2, 5, 16))
    # while shapes are checked, none can be made of it
    object.__setattr__(short, "real", torch.ones(2, 4, dtype=torch.bool))
    assert said(name="distances alone", source=wide) == (
        "the model cannot read this: source.hidden must be (batch, m, 16), got shape (2, 5, 17)"
    )
    assert said(name="distances alone", source=short) == (
        "the model cannot read this: source.real must have the shape of source.hidden's tokens "
        "(2, 5), got (2, 4)"
    )
