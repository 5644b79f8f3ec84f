"""T5: two stacks without scale, told apart by distance; as released."""

import pytest

from clearhead.errors import CheckpointError
from clearhead.positions.kinds import T5Buckets
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.families.known import from_hugging_face
from clearhead.transformer.families.t5 import T5

BASE = {
    "_name_or_path": "./",
    "architectures": ["T5ForConditionalGeneration"],
    "d_ff": 3072,
    "d_kv": 64,
    "d_model": 768,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.1,
    "eos_token_id": 1,
    "feed_forward_proj": "relu",
    "initializer_factor": 1.0,
    "is_encoder_decoder": True,
    "layer_norm_epsilon": 1e-06,
    "model_type": "t5",
    "n_positions": 512,
    "num_decoder_layers": 10,
    "num_heads": 12,
    "num_layers": 12,
    "output_past": True,
    "pad_token_id": 0,
    "relative_attention_num_buckets": 32,
    "torch_dtype": "float32",
    "transformers_version": "4.11.3",
    "use_cache": True,
    "vocab_size": 32128,
}


def read(**changed: object) -> TransformerConfig:
    return from_hugging_face({**BASE, **changed})


def refused(**changed: object) -> str:
    with pytest.raises(CheckpointError) as caught:
        read(**changed)
    return str(caught.value).removeprefix("the config of this t5 model")


def test_t5_base_as_released():
    stack = {
        "vocabulary_size": 32128,
        "context_length": None,
        "d_model": 768,
        "d_ff": 3072,
        "heads": 12,
        "d_k": 64,
        "positions": T5Buckets(),
        "scale": 1.0,
        "gated": False,
        "activation": "relu",
    }
    encoder = TransformerConfig(**stack, layers=12, kind="encoder", predicts=False)
    expected = {**stack, "layers": 10, "encoder": encoder, "tied_embeddings": True}
    assert read() == TransformerConfig(**expected, logits_scale=768**-0.5)


def test_flan_t5_is_gated_and_has_a_head_of_its_own():
    gated = {"dense_act_fn": "gelu_new", "feed_forward_proj": "gated-gelu", "is_gated_act": True}
    config = read(**gated, tie_word_embeddings=False, num_decoder_layers=None)
    assert (config.gated, config.activation) == (True, "gelu_tanh")
    assert (config.tied_embeddings, config.logits_scale, config.layers) == (False, 1.0, 12)
    assert (config.encoder.gated, config.encoder.activation) == (True, "gelu_tanh")


@pytest.mark.parametrize(("tied", "scaled"), [(True, False), (False, True)])
def test_what_logits_are_made_of_is_scaled_where_tied_unless_said(tied, scaled):
    config = read(tie_word_embeddings=tied, scale_decoder_outputs=scaled)
    assert config.logits_scale == (768**-0.5 if scaled else 1.0)


@pytest.mark.parametrize(
    ("name", "gated", "activation"),
    [
        ("relu", False, "relu"),
        ("gelu", False, "gelu"),
        ("gelu_new", False, "gelu_tanh"),
        ("gated-silu", True, "silu"),
        ("gated-gelu", True, "gelu_tanh"),
        ("gated-gelu_new", True, "gelu_tanh"),
        (None, False, "relu"),
    ],
)
def test_the_feed_forward_part_is_told_by_one_name(name, gated, activation):
    config = read(feed_forward_proj=name)
    assert (config.gated, config.activation) == (gated, activation)


@pytest.mark.parametrize("name", ["mish", "gated-mish", "gated", "gated-gated-relu", 3])
def test_a_name_that_is_none_is_refused(name):
    assert refused(feed_forward_proj=name) == (
        f": feed_forward_proj is {str(name)!r}, expected an activation, or gated-gelu"
    )


def test_buckets_that_cannot_be_are_refused():
    assert refused(relative_attention_num_buckets=31) == (
        ": T5Buckets: buckets must be even, got 31: half may look each way"
    )
    # a fault that is read as 1 hides no other, and is not told twice
    assert refused(relative_attention_num_buckets="many", d_ff=0) == (
        ", 2 faults:\n"
        "  - d_ff must be a positive whole number, got 0\n"
        "  - relative_attention_num_buckets must be a positive whole number, got 'many'"
    )


def test_names_of_both_stacks():
    names = [
        "relative_bias.weight",
        "encoder.relative_bias.weight",
        "layers.2.cross_attention.to_key.weight",
        "layers.2.cross_attention_norm.weight",
        "layers.2.feed_forward.down.weight",
        "encoder.layers.2.feed_forward.down.weight",
        "encoder.final_norm.weight",
    ]
    assert [one.theirs for one in T5.stored(names, gated=True)] == [
        "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        "decoder.block.2.layer.1.EncDecAttention.k.weight",
        "decoder.block.2.layer.1.layer_norm.weight",
        "decoder.block.2.layer.2.DenseReluDense.wo.weight",
        "encoder.block.2.layer.1.DenseReluDense.wo.weight",
        "encoder.final_layer_norm.weight",
    ]


def test_a_plain_feed_forward_part_has_one_product_less():
    up, gate = "layers.0.feed_forward.up.weight", "layers.0.feed_forward.gate.weight"
    place = "decoder.block.0.layer.2.DenseReluDense."
    assert [one.theirs for one in T5.stored([up], gated=False)] == [place + "wi.weight"]
    assert [one.theirs for one in T5.stored([up, gate], gated=True)] == [
        place + "wi_1.weight",
        place + "wi_0.weight",
    ]
