"""GPT-2, whose weights are stored turned, and GPT-NeoX, side by side; as released."""

import pytest
import torch

from clearhead.errors import CheckpointError
from clearhead.positions.kinds import Learned, Rotary
from clearhead.transformer.config import LayerKind, TransformerConfig
from clearhead.transformer.families.gpt import GPT2, GPT_NEOX
from clearhead.transformer.families.known import from_hugging_face

GPT2_SMALL = {
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1,
    "bos_token_id": 50256,
    "embd_pdrop": 0.1,
    "eos_token_id": 50256,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2",
    "n_ctx": 1024,
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024,
    "resid_pdrop": 0.1,
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    "vocab_size": 50257,
}
PYTHIA = {
    "architectures": ["GPTNeoXForCausalLM"],
    "bos_token_id": 0,
    "eos_token_id": 0,
    "hidden_act": "gelu",
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 2048,
    "model_type": "gpt_neox",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "rotary_emb_base": 10000,
    "rotary_pct": 0.25,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "transformers_version": "4.24.0",
    "use_cache": True,
    "use_parallel_residual": True,
    "vocab_size": 50304,
}
_PLAIN = {
    "norm": "layer",
    "norm_epsilon": 1e-5,
    "input_bias": True,
    "output_bias": True,
    "gated": False,
    "feed_forward_bias": True,
}


def test_gpt_2_as_released():
    assert from_hugging_face(GPT2_SMALL) == TransformerConfig(
        vocabulary_size=50257,
        context_length=1024,
        d_model=768,
        d_ff=3072,
        layers=12,
        heads=12,
        positions=Learned(),
        activation="gelu_tanh",
        tied_embeddings=True,
        **_PLAIN,
    )


@pytest.mark.parametrize("scaled", [True, False])
def test_scores_of_deeper_layers_may_be_divided_by_their_number(scaled):
    keys = {**GPT2_SMALL, "scale_attn_weights": scaled, "n_layer": 3}
    config = from_hugging_face({**keys, "scale_attn_by_inverse_layer_idx": True})
    scale = 1 / 8 if scaled else 1.0
    assert config.pattern == tuple(LayerKind(scale=scale / n) for n in (1, 2, 3))
    plain = from_hugging_face(keys)
    assert (plain.pattern, plain.scale) == ((LayerKind(),), None if scaled else 1.0)


def test_the_width_inside_is_four_times_the_models_where_it_is_not_said():
    assert from_hugging_face({**GPT2_SMALL, "n_inner": None}).d_ff == 3072
    assert from_hugging_face({**GPT2_SMALL, "n_inner": 5}).d_ff == 5


def test_pythia_160m_as_released():
    assert from_hugging_face(PYTHIA) == TransformerConfig(
        vocabulary_size=50304,
        context_length=2048,
        d_model=768,
        d_ff=3072,
        layers=12,
        heads=12,
        positions=Rotary(width=16),
        parallel=True,
        activation="gelu",
        **_PLAIN,
    )


def test_pythia_as_transformers_writes_it_now():
    old = ("rotary_emb_base", "rotary_pct")
    new = {name: value for name, value in PYTHIA.items() if name not in old}
    ropes = {"rope_type": "default", "rope_theta": 10_000, "partial_rotary_factor": 0.25}
    assert from_hugging_face({**new, "rope_parameters": ropes}) == from_hugging_face(PYTHIA)
    assert from_hugging_face(new) == from_hugging_face(PYTHIA)


def test_what_pythia_may_be_without():
    config = from_hugging_face({**PYTHIA, "use_parallel_residual": False, "attention_bias": False})
    assert (config.parallel, config.input_bias, config.output_bias) == (False, False, False)
    assert from_hugging_face({**PYTHIA, "rotary_pct": 1.0}).positions == Rotary()
    with pytest.raises(CheckpointError, match=r"partial_rotary_factor must be at most 1, got 1\.5"):
        from_hugging_face({**PYTHIA, "rotary_pct": 1.5})


def test_gpt_2s_fused_product_is_turned_and_cut_in_three():
    names = [f"layers.7.attention.to_{part}.weight" for part in ("value", "query", "key")]
    [fused] = GPT2.stored(names, gated=False)
    assert fused.theirs == "transformer.h.7.attn.c_attn.weight"
    stored = torch.arange(24.0).view(2, 12)
    parts = fused.layout.split(stored, [torch.Size((4, 2))] * 3, heads=2)
    assert torch.equal(torch.cat(parts), stored.mT)
    assert fused.ours == (names[1], names[2], names[0])


def test_pythias_fused_product_is_not_a_flat_cut_in_three():
    names = [f"layers.0.attention.to_{part}.bias" for part in ("query", "key", "value")]
    [fused] = GPT_NEOX.stored(names, gated=False)
    assert fused.theirs == "gpt_neox.layers.0.attention.query_key_value.bias"
    parts = fused.layout.split(torch.arange(12), [torch.Size((4,))] * 3, heads=2)
    assert [part.tolist() for part in parts] == [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]
