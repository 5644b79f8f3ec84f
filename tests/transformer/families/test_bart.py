"""BART: an encoder and a decoder, post-norm, as first published; as released."""

import pytest

from clearhead.errors import CheckpointError
from clearhead.positions.kinds import Learned
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.families.bart import BART
from clearhead.transformer.families.known import from_hugging_face

BASE = {
    "_num_labels": 3,
    "activation_dropout": 0.1,
    "activation_function": "gelu",
    "add_bias_logits": False,
    "add_final_layer_norm": False,
    "architectures": ["BartForConditionalGeneration"],
    "attention_dropout": 0.1,
    "bos_token_id": 0,
    "classif_dropout": 0.1,
    "classifier_dropout": 0.0,
    "d_model": 768,
    "decoder_attention_heads": 12,
    "decoder_ffn_dim": 3072,
    "decoder_layerdrop": 0.0,
    "decoder_layers": 6,
    "decoder_start_token_id": 2,
    "dropout": 0.1,
    "early_stopping": True,
    "encoder_attention_heads": 12,
    "encoder_ffn_dim": 3072,
    "encoder_layerdrop": 0.0,
    "encoder_layers": 6,
    "eos_token_id": 2,
    "extra_pos_embeddings": 2,
    "force_bos_token_to_be_generated": False,
    "forced_eos_token_id": 2,
    "gradient_checkpointing": False,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
    "init_std": 0.02,
    "is_encoder_decoder": True,
    "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2},
    "max_position_embeddings": 1024,
    "model_type": "bart",
    "no_repeat_ngram_size": 3,
    "normalize_before": False,
    "normalize_embedding": True,
    "num_beams": 4,
    "num_hidden_layers": 6,
    "pad_token_id": 1,
    "scale_embedding": False,
    "static_position_embeddings": False,
    "task_specific_params": {"summarization": {"length_penalty": 1.0}},
    "torch_dtype": "float32",
    "transformers_version": "4.12.0.dev0",
    "use_cache": True,
    "vocab_size": 50265,
}


def read(**changed: object) -> TransformerConfig:
    return from_hugging_face({**BASE, **changed})


def test_bart_base_as_released():
    stack = {
        "vocabulary_size": 50265,
        "context_length": 1024,
        "d_model": 768,
        "d_ff": 3072,
        "layers": 6,
        "heads": 12,
        "positions": Learned(offset=2),
        "embedding_norm": True,
        "norm": "layer",
        "norm_epsilon": 1e-5,
        "norm_place": "after",
        "final_norm": False,
        "input_bias": True,
        "output_bias": True,
        "activation": "gelu",
        "gated": False,
        "feed_forward_bias": True,
    }
    encoder = TransformerConfig(**stack, kind="encoder", predicts=False)
    expected = {**stack, "encoder": encoder, "logits_bias": True, "tied_embeddings": True}
    assert read() == TransformerConfig(**expected)


def test_each_stack_has_its_own_sizes():
    config = read(encoder_layers=2, decoder_layers=3, encoder_attention_heads=8, encoder_ffn_dim=5)
    assert (config.layers, config.heads, config.d_ff) == (3, 12, 3072)
    assert (config.encoder.layers, config.encoder.heads, config.encoder.d_ff) == (2, 8, 5)


def test_the_embedding_may_be_scaled_in_both():
    config = read(scale_embedding=True)
    assert config.embedding_scale == config.encoder.embedding_scale == 768**0.5


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("normalize_before", False),
        ("normalize_embedding", True),
        ("add_final_layer_norm", False),
        ("static_position_embeddings", False),
        ("add_bias_logits", False),
    ],
)
def test_what_no_released_bart_has_is_refused(name, known):
    with pytest.raises(CheckpointError) as caught:
        read(**{name: not known})
    assert str(caught.value) == (
        f"the config of this bart model: {name} is {not known}, only {known} is known"
    )


def test_an_encoder_that_cannot_be_is_refused():
    with pytest.raises(CheckpointError) as caught:
        read(encoder_attention_heads=7)
    assert str(caught.value) == (
        "the config of this bart model: these values make no Transformer: d_model (768) must be a "
        "multiple of heads (7) where d_k is left out"
    )


def test_names_of_both_stacks():
    names = [
        "token_embedding.weight",
        "embedding.position.weight",
        "encoder.embedding.norm.bias",
        "layers.5.attention_norm.weight",
        "layers.5.cross_attention.to_output.bias",
        "layers.5.cross_attention_norm.bias",
        "encoder.layers.5.feed_forward.up.weight",
        "to_logits.bias",
    ]
    assert [one.theirs for one in BART.stored(names, gated=False)] == [
        "model.shared.weight",
        "model.decoder.embed_positions.weight",
        "model.encoder.layernorm_embedding.bias",
        "model.decoder.layers.5.self_attn_layer_norm.weight",
        "model.decoder.layers.5.encoder_attn.out_proj.bias",
        "model.decoder.layers.5.encoder_attn_layer_norm.bias",
        "model.encoder.layers.5.fc1.weight",
        "final_logits_bias",
    ]
