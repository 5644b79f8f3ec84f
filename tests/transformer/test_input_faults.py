"""What a model cannot read is said before it reads, all at once."""

import pytest
import torch

from clearhead.errors import InputError
from clearhead.transformer.input_faults import check_inputs
from tests.transformer.tiny_models import tiny_config

IDS = torch.tensor([[1, 2, 3], [4, 5, 28]])
ONES = torch.ones(2, 3, dtype=torch.int64)


def said(ids: torch.Tensor = IDS, *, name: str = "grouped heads", **given: object) -> str:
    with pytest.raises(InputError) as caught:
        check_inputs(tiny_config(name), ids, **given)
    return str(caught.value)


@pytest.mark.parametrize("mask", [ONES, ONES.bool(), ONES.to(torch.uint8), None])
@pytest.mark.parametrize("keep", [0, 1, 99, torch.tensor([0, -1, 2]), torch.tensor([]).long()])
def test_what_fits_is_let_through(mask, keep):
    check_inputs(tiny_config(), IDS, attention_mask=mask, keep=keep, cached=2)
    check_inputs(tiny_config(), IDS.int(), documents=ONES.cumsum(-1), keep=keep)
    check_inputs(tiny_config("masked"), IDS, token_types=ONES)
    check_inputs(tiny_config("distances alone"), IDS, source=torch.zeros(2, 5, 16), cached=2)


def test_every_fault_is_named_at_once():
    assert said(
        torch.tensor([[1, 29, -1]]),
        attention_mask=torch.ones(1, 2),
        documents=torch.ones(1, 3),
        token_types=torch.ones(3, 1, dtype=torch.int64),
        source=torch.zeros(2, 5, 16),
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
    assert said(name="masked", cached=2) == expected


@pytest.mark.parametrize("given", [{"cached": 2}, {"attention_mask": ONES}])
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
    ],
)
def test_positions_to_keep_that_are_not_there(keep, fault):
    assert said(keep=keep) == f"the model cannot read this: logits_to_keep {fault}"
