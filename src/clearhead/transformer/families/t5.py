"""T5: an encoder and a decoder without scale, told apart by distance alone."""

from typing import Any

from clearhead.positions.kinds import T5Buckets
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.families.family import Family
from clearhead.transformer.families.keys import ACTIVATIONS, ConfigKeys

__all__ = ["T5"]


def _t5(keys: ConfigKeys) -> dict[str, Any]:
    layers, d_model, d_head = keys.size("num_layers"), keys.size("d_model"), keys.size("d_kv")
    keys.value("n_positions")  # what it was trained on; distances have no end
    gated, activation = _feed_forward(keys)
    stack: dict[str, Any] = {
        "vocabulary_size": keys.size("vocab_size"),
        "context_length": None,
        "d_model": d_model,
        "d_ff": keys.size("d_ff"),
        "heads": keys.size("num_heads"),
        "d_k": d_head,
        "d_v": d_head,
        "positions": T5Buckets(
            buckets=keys.size("relative_attention_num_buckets", default=32),
            max_distance=keys.size("relative_attention_max_distance", default=128),
        ),
        "norm_epsilon": keys.number("layer_norm_epsilon", default=1e-6),
        "scale": 1.0,
        "gated": gated,
        "activation": activation,
    }
    tied = keys.flag("tie_word_embeddings", default=True)
    scaled = keys.flag("scale_decoder_outputs", default=tied)
    keys.only("is_encoder_decoder", known=True)
    return {
        **stack,
        "layers": keys.size("num_decoder_layers", default=layers),
        "encoder": None
        if keys.faults
        else TransformerConfig(**stack, layers=layers, kind="encoder", predicts=False),
        "tied_embeddings": tied,
        "logits_scale": d_model**-0.5 if scaled else 1.0,
    }


def _feed_forward(keys: ConfigKeys) -> tuple[bool, str]:
    """Whether it is gated, and its activation, from a name such as ``gated-gelu``."""
    keys.value("dense_act_fn")  # both are told by the name
    keys.value("is_gated_act")
    name = str(keys.value("feed_forward_proj") or "relu")
    if name == "gated-gelu":
        return True, "gelu_tanh"
    gated, act = name.startswith("gated-"), name.removeprefix("gated-")
    if act not in ACTIVATIONS:
        keys.refuse("feed_forward_proj", f"is {name!r}, expected an activation, or gated-gelu")
    return gated, ACTIVATIONS.get(act, "relu")


def _modules() -> dict[str, str]:
    found = {"shared": "token_embedding", "lm_head": "to_logits"}
    for stack, ours in (("encoder.", "encoder."), ("decoder.", "")):
        block, layer = f"{stack}block.{{layer}}.layer.", f"{ours}layers.{{layer}}."
        feed_forward = f"{block}{1 if ours else 2}."
        table = f"{stack}block.0.layer.0.SelfAttention.relative_attention_bias"
        found |= {
            table: f"{ours}relative_bias",
            f"{block}0.layer_norm": f"{layer}attention_norm",
            **_attention(f"{block}0.SelfAttention.", f"{layer}attention."),
            f"{feed_forward}layer_norm": f"{layer}feed_forward_norm",
            f"{feed_forward}DenseReluDense.wi_0": f"{layer}feed_forward.gate",
            f"{feed_forward}DenseReluDense.wi_1": f"{layer}feed_forward.up",
            f"{feed_forward}DenseReluDense.wo": f"{layer}feed_forward.down",
            f"{stack}final_layer_norm": f"{ours}final_norm",
        }
    cross, layer = "decoder.block.{layer}.layer.1.", "layers.{layer}."
    found |= _attention(f"{cross}EncDecAttention.", f"{layer}cross_attention.")
    return found | {f"{cross}layer_norm": f"{layer}cross_attention_norm"}


def _attention(theirs: str, ours: str) -> dict[str, str]:
    names = {"q": "to_query", "k": "to_key", "v": "to_value", "o": "to_output"}
    return {theirs + name: ours + name_here for name, name_here in names.items()}


_GATED = _modules()
_PLAIN = {
    theirs.replace("wi_1", "wi"): ours for theirs, ours in _GATED.items() if "wi_0" not in theirs
}

T5 = Family(
    model_type="t5",
    architectures={"T5ForConditionalGeneration": {}},
    fields=_t5,
    modules=_GATED,
    plain_modules=_PLAIN,
    twins={
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    },
    # cross-attention has no distances: a table that nobody ever read
    ignored=r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
    harmless=frozenset({"dropout_rate", "initializer_factor", "classifier_dropout"}),
)
