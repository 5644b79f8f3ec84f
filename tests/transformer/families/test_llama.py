"""The Llama table names every tensor and reads every key of the real thing."""

import pytest

from clearhead.transformer.config import from_hugging_face
from clearhead.transformer.families.llama import LLAMA
from clearhead.transformer.model import Transformer


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_every_tensor_of_a_llama_has_a_name_here(tied, biases):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=11,
        hidden_size=8,
        intermediate_size=12,
        num_hidden_layers=12,  # two digits
        num_attention_heads=2,
        attention_bias=biases,
        mlp_bias=biases,
        tie_word_embeddings=tied,
    )
    theirs = {name: p.shape for name, p in LlamaForCausalLM(config).named_parameters()}
    ours = Transformer(from_hugging_face(config.to_dict())).named_parameters()
    assert {LLAMA.tensor_name(name): p.shape for name, p in ours} == theirs


def test_every_key_that_transformers_writes_is_understood():
    from transformers import LlamaConfig

    written = LlamaConfig(rope_parameters={"rope_type": "linear", "rope_theta": 5.0, "factor": 2.0})
    config = from_hugging_face(written.to_dict())
    assert (config.d_model, config.layers, config.d_k) == (4096, 32, 128)
    assert (config.context_length, config.norm_epsilon, config.rotary_theta) == (2048, 1e-6, 5.0)
