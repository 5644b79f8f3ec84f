"""How weights lie in memory: the numbers stay, whatever the order, and only where it pays."""

import copy

import pytest
import torch

from clearhead.transformer.weight_layout import lay_out, restore_layout
from tests.transformer.tiny_models import some_ids, tiny


@pytest.fixture
def models(seeded_weights):
    """The same model twice, the second one laid out."""
    plain = tiny().float()
    laid = copy.deepcopy(plain)
    lay_out(laid)
    return plain, laid


def wide(model):
    """Weights that rows are multiplied with, wider out than in."""
    return [
        weight
        for name, weight in model.named_parameters()
        if weight.dim() == 2 and weight.shape[0] > weight.shape[1] and "embedding" not in name
    ]


def same(one, other):
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


def test_numbers_stay_and_wide_weights_lie_input_by_input(models) -> None:
    plain, laid = models
    assert same(plain, laid)
    found = wide(laid)
    assert len(found) >= laid.config.layers
    assert all(weight.stride() == (1, weight.shape[0]) for weight in found)
    others = [w for w in laid.parameters() if all(w is not one for one in found)]
    assert all(weight.is_contiguous() for weight in others)


def test_what_the_model_says_stays(models, generator) -> None:
    plain, laid = models
    ids = some_ids(generator, 2, 9)
    torch.testing.assert_close(laid(ids).logits, plain(ids).logits)


def test_tied_weights_stay_one(seeded_weights) -> None:
    model = tiny(tied_embeddings=True).float()
    lay_out(model)
    assert model.to_logits.weight is model.token_embedding.weight


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_dtypes_are_laid_as_pytorch_does(models, dtype) -> None:
    plain, laid = models
    assert all(weight.is_contiguous() for weight in laid.to(dtype).parameters())
    assert same(plain.to(dtype), laid)


def test_only_float32_is_laid_out(seeded_weights) -> None:
    model = tiny().to(torch.bfloat16)
    lay_out(model)
    assert all(weight.is_contiguous() for weight in model.parameters())


def test_restoring_leaves_what_pays(models) -> None:
    _, laid = models
    restore_layout(laid)
    assert all(not weight.is_contiguous() for weight in wide(laid))
