"""Norms: by hand, as the released models have them, and as a configuration names them."""

import math

import pytest
import torch
from torch import nn

from clearhead.transformer.norms import RMSNorm, make_norm
from tests.transformer.test_config import config


def test_a_normed_vector_by_hand():
    norm = RMSNorm(2, epsilon=0.0)
    norm.weight.data = torch.tensor([1.0, 10.0])
    # Root mean square of (3, 4) is √12.5.
    expected = torch.tensor([3.0, 40.0]) / math.sqrt(12.5)
    torch.testing.assert_close(norm(torch.tensor([3.0, 4.0])), expected)
    assert norm(torch.zeros(2)).isnan().all()
    assert torch.equal(RMSNorm(2, epsilon=1e-6)(torch.zeros(2)), torch.zeros(2))


def test_an_offset_is_added_to_the_weights_and_without_weights_all_is_1(generator):
    x = torch.randn(3, 8, generator=generator)
    plain, offset = RMSNorm(8, epsilon=1e-6), RMSNorm(8, epsilon=1e-6, offset=1.0)
    assert torch.equal(offset.weight, torch.zeros(8))
    assert torch.equal(offset(x), plain(x))
    plain.weight.data, offset.weight.data = torch.full((8,), 3.0), torch.full((8,), 2.0)
    assert torch.equal(offset(x), plain(x))
    bare = RMSNorm(8, epsilon=1e-6, learned=False)
    assert torch.equal(bare(x), RMSNorm(8, epsilon=1e-6)(x))
    assert not list(bare.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_norms_are_bit_for_bit_those_of_the_released_models(dtype, generator):
    from transformers.models.gemma2.modeling_gemma2 import Gemma2RMSNorm
    from transformers.models.llama.modeling_llama import LlamaRMSNorm
    from transformers.models.llama4.modeling_llama4 import Llama4TextL2Norm

    x, weight = (torch.randn(s, generator=generator).to(dtype) for s in ((2, 5, 32), (32,)))
    pairs = [
        (RMSNorm(32, epsilon=1e-5), LlamaRMSNorm(32, eps=1e-5)),
        (RMSNorm(32, epsilon=1e-5, offset=1.0), Gemma2RMSNorm(32, eps=1e-5)),
        (RMSNorm(32, epsilon=1e-6, learned=False), Llama4TextL2Norm(eps=1e-6)),
    ]
    for ours, theirs in pairs:
        for norm in (ours, theirs):
            for parameter in norm.parameters():
                parameter.data = weight
        assert torch.equal(ours(x), theirs(x)), type(theirs)


def test_norms_are_bit_for_bit_those_of_pytorch(generator):
    norm = RMSNorm(48, epsilon=1e-5)
    norm.weight.data = torch.randn(48, generator=generator)
    for shape in ((1, 48), (3, 7, 48)):
        x = torch.randn(shape, generator=generator)
        assert torch.equal(norm(x), nn.functional.rms_norm(x, (48,), norm.weight, 1e-5))


def test_a_configuration_names_its_norm():
    rms = make_norm(config(norm_epsilon=1e-4, norm_offset=1.0))
    assert isinstance(rms, RMSNorm)
    assert (rms.weight.shape, rms.epsilon, rms.offset) == ((32,), 1e-4, 1.0)
    layer = make_norm(config(norm="layer", norm_epsilon=1e-4), width=8)
    assert isinstance(layer, nn.LayerNorm)
    assert (layer.normalized_shape, layer.eps) == ((8,), 1e-4)
