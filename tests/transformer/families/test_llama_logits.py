"""Our decoder gives the logits of transformers' Llama bit for bit, where the kernels are the same.

That the numbers of all families are right is proved by test_equal_to_transformers.py.
"""

import pytest
import torch

from clearhead.transformer.model import Transformer
from tests.transformer.released_families import loaded
from tests.transformer.tiny_llama import VARIANTS, make, some_ids


@pytest.fixture(params=VARIANTS)
def theirs(request, seeded_weights):
    return make(**VARIANTS[request.param])


@pytest.fixture
def folder(theirs, tmp_path):
    theirs.save_pretrained(tmp_path)
    return tmp_path


@torch.no_grad()
def test_logits_are_bit_for_bit_those_of_transformers(theirs, folder, generator):
    ids = some_ids(generator, 2, 33)
    ours = loaded(folder)
    assert torch.equal(ours(ids).logits, theirs(ids).logits)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bit_logits_are_bit_for_bit_those_of_transformers(dtype, plain_folder, generator):
    from transformers import LlamaForCausalLM

    ids = some_ids(generator, 2, 33)
    theirs = LlamaForCausalLM.from_pretrained(plain_folder, dtype=dtype)
    ours = loaded(plain_folder, dtype)
    assert torch.equal(ours(ids).logits, theirs(ids).logits)


@torch.no_grad()
@pytest.mark.parametrize("keep", [0, 1, 3, 99, torch.tensor([4, 0]), torch.tensor([-1])])
def test_kept_logits_are_those_of_transformers(keep, plain_folder, generator):
    from transformers import LlamaForCausalLM

    ids = some_ids(generator, 2, 5)
    theirs = LlamaForCausalLM.from_pretrained(plain_folder)(ids, logits_to_keep=keep).logits
    ours = loaded(plain_folder)(ids, logits_to_keep=keep).logits
    assert torch.equal(ours, theirs)


@torch.no_grad()
@pytest.mark.real_model
def test_smollm2_is_bit_for_bit_that_of_transformers(smollm2, smollm2_hf, generator):
    ids = torch.randint(0, 49152, (1, 300), generator=generator)
    assert isinstance(smollm2, Transformer)
    assert torch.equal(smollm2(ids).logits, smollm2_hf(ids).logits)


@torch.no_grad()
@pytest.mark.real_model
def test_smollm2_knows_the_capital_of_france(smollm2):
    tokenizer = smollm2.clearhead_tokenizer
    ids = torch.tensor([tokenizer.encode("The capital of France is")])
    probabilities = smollm2(ids, logits_to_keep=1).logits[0, 0].softmax(-1)
    assert tokenizer.decode([int(probabilities.argmax())]) == " Paris"
    assert round(float(probabilities.max()), 3) == 0.773
