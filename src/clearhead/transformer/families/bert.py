"""BERT, RoBERTa and DistilBERT: encoders, post-norm, with learned positions."""

from typing import Any

from clearhead.positions.kinds import Learned
from clearhead.transformer.families.family import Family
from clearhead.transformer.families.keys import ConfigKeys

__all__ = ["BERT", "DISTILBERT", "ROBERTA"]

_LAYER = "layers.{layer}."
_ENCODER: dict[str, Any] = {
    "kind": "encoder",
    "embedding_norm": True,
    "norm": "layer",
    "norm_place": "after",
    "final_norm": False,
    "input_bias": True,
    "output_bias": True,
    "gated": False,
    "feed_forward_bias": True,
}
_MASKED: dict[str, Any] = {"logits_transform": True, "logits_bias": True}
_HEADLESS: dict[str, Any] = {"predicts": False, "tied_embeddings": False}


def _bert(keys: ConfigKeys) -> dict[str, Any]:
    keys.only("directionality", "bidi")
    keys.only("position_embedding_type", "absolute")
    return {
        **_ENCODER,
        "vocabulary_size": keys.size("vocab_size"),
        "context_length": keys.size("max_position_embeddings"),
        "d_model": keys.size("hidden_size"),
        "d_ff": keys.size("intermediate_size"),
        "layers": keys.size("num_hidden_layers"),
        "heads": keys.size("num_attention_heads"),
        "positions": Learned(),
        "token_types": keys.size("type_vocab_size", default=2),
        "norm_epsilon": keys.number("layer_norm_eps", default=1e-12),
        "activation": keys.activation("hidden_act", default="gelu"),
        "tied_embeddings": keys.flag("tie_word_embeddings", default=True),
    }


def _roberta(keys: ConfigKeys) -> dict[str, Any]:
    pad = keys.value("pad_token_id")
    keys.only("hidden_act", "gelu")  # the only one its head knows
    fields = _bert(keys)
    rows = fields["context_length"]
    offset = _offset(keys, pad, rows=rows)
    return {
        **fields,
        "context_length": max(rows - offset, 1),
        "positions": Learned(offset=offset),
    }


def _offset(keys: ConfigKeys, pad: object, *, rows: int) -> int:
    """Rows that no position has: those up to the padding token's; of -1 there are none."""
    pad = 1 if pad is None else pad
    if not isinstance(pad, int) or isinstance(pad, bool) or pad < -1:
        keys.mean_nothing("pad_token_id", f"must be a whole number of -1 or more, got {pad!r}")
        return 0
    if pad + 1 >= rows and not keys.faults:
        why = f"must be below {rows - 1}, for there are {rows} positions, got {pad}"
        keys.mean_nothing("pad_token_id", why)
        return 0
    return pad + 1


def _distilbert(keys: ConfigKeys) -> dict[str, Any]:
    keys.value("sinusoidal_pos_embds")  # how the table began; it is stored either way
    return {
        **_ENCODER,
        "vocabulary_size": keys.size("vocab_size"),
        "context_length": keys.size("max_position_embeddings", default=512),
        "d_model": keys.size("dim"),
        "d_ff": keys.size("hidden_dim"),
        "layers": keys.size("n_layers"),
        "heads": keys.size("n_heads"),
        "positions": Learned(),
        "norm_epsilon": 1e-12,
        "activation": keys.activation("activation", default="gelu"),
        "tied_embeddings": keys.flag("tie_word_embeddings", default=True),
    }


def _bert_modules(prefix: str) -> dict[str, str]:
    layer = f"{prefix}encoder.layer.{{layer}}."
    return {
        f"{prefix}embeddings.word_embeddings": "token_embedding",
        f"{prefix}embeddings.position_embeddings": "embedding.position",
        f"{prefix}embeddings.token_type_embeddings": "embedding.token_type",
        f"{prefix}embeddings.LayerNorm": "embedding.norm",
        f"{layer}attention.self.query": _LAYER + "attention.to_query",
        f"{layer}attention.self.key": _LAYER + "attention.to_key",
        f"{layer}attention.self.value": _LAYER + "attention.to_value",
        f"{layer}attention.output.dense": _LAYER + "attention.to_output",
        f"{layer}attention.output.LayerNorm": _LAYER + "attention_norm",
        f"{layer}intermediate.dense": _LAYER + "feed_forward.up",
        f"{layer}output.dense": _LAYER + "feed_forward.down",
        f"{layer}output.LayerNorm": _LAYER + "feed_forward_norm",
        f"{prefix}pooler.dense": "pooler",
    }


_DROPOUTS = frozenset({"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"})
# written into the first multilingual configs, and never read by a model
_UNUSED_POOLER = frozenset(
    f"pooler_{name}"
    for name in ("fc_size", "num_attention_heads", "num_fc_layers", "size_per_head", "type")
)
_BERT_HEAD = "cls.predictions."

BERT = Family(
    model_type="bert",
    architectures={"BertForMaskedLM": _MASKED, "BertModel": {**_HEADLESS, "pooler": True}},
    fields=_bert,
    modules={
        **_bert_modules("bert."),
        _BERT_HEAD + "transform.dense": "to_logits.transform",
        _BERT_HEAD + "transform.LayerNorm": "to_logits.norm",
        _BERT_HEAD + "bias": "to_logits.bias",
        _BERT_HEAD + "decoder.weight": "to_logits.weight",
    },
    prefix="bert.",
    twins={
        _BERT_HEAD + "decoder.weight": "bert.embeddings.word_embeddings.weight",
        _BERT_HEAD + "decoder.bias": _BERT_HEAD + "bias",
    },
    # a table of places; and, in the first released files, what no masked token is guessed with
    ignored=r"bert\.embeddings\.position_ids"
    r"|(bert\.pooler\.dense|cls\.seq_relationship)\.(weight|bias)",
    harmless=_DROPOUTS | _UNUSED_POOLER | {"gradient_checkpointing"},
)
ROBERTA = Family(
    model_type="roberta",
    architectures={
        "RobertaForMaskedLM": _MASKED,
        "RobertaModel": {**_HEADLESS, "pooler": True},
    },
    fields=_roberta,
    modules={
        **_bert_modules("roberta."),
        "lm_head.dense": "to_logits.transform",
        "lm_head.layer_norm": "to_logits.norm",
        "lm_head.bias": "to_logits.bias",
        "lm_head.decoder.weight": "to_logits.weight",
    },
    prefix="roberta.",
    twins={
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
    ignored=r"roberta\.embeddings\.position_ids|roberta\.pooler\.dense\.(weight|bias)",
    harmless=_DROPOUTS | {"gradient_checkpointing"},
)
_DISTIL = "distilbert.transformer.layer.{layer}."

DISTILBERT = Family(
    model_type="distilbert",
    architectures={"DistilBertForMaskedLM": _MASKED, "DistilBertModel": _HEADLESS},
    fields=_distilbert,
    modules={
        "distilbert.embeddings.word_embeddings": "token_embedding",
        "distilbert.embeddings.position_embeddings": "embedding.position",
        "distilbert.embeddings.LayerNorm": "embedding.norm",
        _DISTIL + "attention.q_lin": _LAYER + "attention.to_query",
        _DISTIL + "attention.k_lin": _LAYER + "attention.to_key",
        _DISTIL + "attention.v_lin": _LAYER + "attention.to_value",
        _DISTIL + "attention.out_lin": _LAYER + "attention.to_output",
        _DISTIL + "sa_layer_norm": _LAYER + "attention_norm",
        _DISTIL + "ffn.lin1": _LAYER + "feed_forward.up",
        _DISTIL + "ffn.lin2": _LAYER + "feed_forward.down",
        _DISTIL + "output_layer_norm": _LAYER + "feed_forward_norm",
        "vocab_transform": "to_logits.transform",
        "vocab_layer_norm": "to_logits.norm",
        "vocab_projector": "to_logits",
    },
    prefix="distilbert.",
    twins={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
    harmless=frozenset(
        {"dropout", "attention_dropout", "qa_dropout", "seq_classif_dropout", "tie_weights_"}
    ),
)
