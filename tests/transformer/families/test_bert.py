"""BERT, RoBERTa and DistilBERT: encoders, post-norm, with learned positions; as released."""

import pytest

from clearhead.errors import CheckpointError
from clearhead.positions.kinds import Learned
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.families.bert import BERT, DISTILBERT
from clearhead.transformer.families.keys import NonsenseError
from clearhead.transformer.families.known import from_hugging_face

BASE = {
    "architectures": ["BertForMaskedLM"],
    "attention_probs_dropout_prob": 0.1,
    "gradient_checkpointing": False,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "model_type": "bert",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
    "transformers_version": "4.6.0.dev0",
    "type_vocab_size": 2,
    "use_cache": True,
    "vocab_size": 30522,
}
ROBERTA = {
    **BASE,
    "architectures": ["RobertaForMaskedLM"],
    "model_type": "roberta",
    "bos_token_id": 0,
    "eos_token_id": 2,
    "pad_token_id": 1,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "vocab_size": 50265,
}
DISTIL = {
    "activation": "gelu",
    "architectures": ["DistilBertForMaskedLM"],
    "attention_dropout": 0.1,
    "dim": 768,
    "dropout": 0.1,
    "hidden_dim": 3072,
    "initializer_range": 0.02,
    "max_position_embeddings": 512,
    "model_type": "distilbert",
    "n_heads": 12,
    "n_layers": 6,
    "output_past": True,
    "pad_token_id": 0,
    "qa_dropout": 0.1,
    "seq_classif_dropout": 0.2,
    "sinusoidal_pos_embds": False,
    "tie_weights_": True,
    "vocab_size": 28996,
}
_LIKE_BERT = {
    "d_model": 768,
    "d_ff": 3072,
    "heads": 12,
    "kind": "encoder",
    "embedding_norm": True,
    "norm": "layer",
    "norm_place": "after",
    "final_norm": False,
    "input_bias": True,
    "output_bias": True,
    "activation": "gelu",
    "gated": False,
    "feed_forward_bias": True,
}
_MASKED = {"logits_transform": True, "logits_bias": True, "tied_embeddings": True}


def test_bert_base_as_released():
    expected = {
        "vocabulary_size": 30522,
        "context_length": 512,
        "layers": 12,
        "positions": Learned(),
        "token_types": 2,
        "norm_epsilon": 1e-12,
        **_LIKE_BERT,
    }
    assert from_hugging_face(BASE) == TransformerConfig(**expected, **_MASKED)
    headless = from_hugging_face({**BASE, "architectures": ["BertModel"]})
    assert headless == TransformerConfig(**expected, predicts=False, pooler=True)


def test_the_first_multilingual_berts_as_released():
    unused = {
        "directionality": "bidi",
        "pooler_fc_size": 768,
        "pooler_num_attention_heads": 12,
        "pooler_num_fc_layers": 3,
        "pooler_size_per_head": 128,
        "pooler_type": "first_token_transform",
    }
    assert from_hugging_face({**BASE, **unused}) == from_hugging_face(BASE)
    with pytest.raises(CheckpointError, match="directionality is 'left', only 'bidi' is known"):
        from_hugging_face({**BASE, "directionality": "left"})


def test_distances_instead_of_places_are_refused():
    with pytest.raises(CheckpointError) as caught:
        from_hugging_face({**BASE, "position_embedding_type": "relative_key"})
    assert str(caught.value) == (
        "the config of this bert model: position_embedding_type is 'relative_key', only 'absolute' "
        "is known"
    )


def test_roberta_base_as_released():
    assert from_hugging_face(ROBERTA) == TransformerConfig(
        vocabulary_size=50265,
        context_length=512,  # of 514 rows two stand before the first position's
        layers=12,
        positions=Learned(offset=2),
        token_types=1,
        norm_epsilon=1e-5,
        **_LIKE_BERT,
        **_MASKED,
    )


@pytest.mark.parametrize(("pad", "offset"), [(None, 2), (1, 2), (0, 1), (4, 5), (-1, 0)])
def test_rows_up_to_the_padding_tokens_are_before_the_first_position(pad, offset):
    config = from_hugging_face({**ROBERTA, "pad_token_id": pad})
    assert config.positions == Learned(offset)
    assert config.context_length == 514 - offset


@pytest.mark.parametrize(
    ("pad", "why"),
    [
        (-5, "a whole number of -1 or more, got -5"),
        (True, "a whole number of -1 or more, got True"),
        ("1", "a whole number of -1 or more, got '1'"),
        (513, "below 513, for there are 514 positions, got 513"),
        (10**30, f"below 513, for there are 514 positions, got {10**30}"),
    ],
)
def test_a_padding_token_that_cannot_be_is_refused(pad, why):
    with pytest.raises(NonsenseError) as caught:
        from_hugging_face({**ROBERTA, "pad_token_id": pad})
    assert str(caught.value) == f"the config of this roberta model: pad_token_id must be {why}"


def test_robertas_head_knows_one_activation():
    with pytest.raises(CheckpointError, match="hidden_act is 'relu', only 'gelu' is known"):
        from_hugging_face({**ROBERTA, "hidden_act": "relu"})


def test_distilbert_base_as_released():
    expected = {
        "vocabulary_size": 28996,
        "context_length": 512,
        "layers": 6,
        "positions": Learned(),
        "norm_epsilon": 1e-12,
        **_LIKE_BERT,
    }
    assert from_hugging_face(DISTIL) == TransformerConfig(**expected, **_MASKED)
    headless = from_hugging_face({**DISTIL, "architectures": ["DistilBertModel"]})
    assert headless == TransformerConfig(**expected, predicts=False)
    # how the table of places began says nothing: it is stored
    assert from_hugging_face({**DISTIL, "sinusoidal_pos_embds": True}) == from_hugging_face(DISTIL)


def test_the_last_bias_stands_alone_in_bert_and_with_its_weight_in_distilbert():
    names = ["to_logits.bias", "to_logits.weight"]
    assert [one.theirs for one in BERT.stored(names, gated=False)] == [
        "cls.predictions.bias",
        "cls.predictions.decoder.weight",
    ]
    assert [one.theirs for one in DISTILBERT.stored(names, gated=False)] == [
        "vocab_projector.bias",
        "vocab_projector.weight",
    ]
