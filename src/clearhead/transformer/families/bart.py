"""BART: an encoder and a decoder, post-norm, as the Transformer was first published."""

from typing import Any

from clearhead.positions.kinds import Learned
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.families.family import Family
from clearhead.transformer.families.keys import ConfigKeys
from clearhead.transformer.families.layout import Layout, OneRow

__all__ = ["BART"]


def _bart(keys: ConfigKeys) -> dict[str, Any]:
    d_model = keys.size("d_model")
    keys.only("is_encoder_decoder", known=True)
    for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        # written by the first version, whose models all had these
        keys.only(name, name == "normalize_embedding")
    keys.only("static_position_embeddings", known=False)
    keys.only("extra_pos_embeddings", 2)
    keys.only("add_bias_logits", known=False)
    shared: dict[str, Any] = {
        "vocabulary_size": keys.size("vocab_size"),
        "context_length": keys.size("max_position_embeddings", default=1024),
        "d_model": d_model,
        "positions": Learned(offset=2),
        "embedding_scale": d_model**0.5 if keys.flag("scale_embedding", default=False) else 1.0,
        "embedding_norm": True,
        "norm": "layer",
        "norm_epsilon": 1e-5,
        "norm_place": "after",
        "final_norm": False,
        "input_bias": True,
        "output_bias": True,
        "activation": keys.activation("activation_function", default="gelu"),
        "gated": False,
        "feed_forward_bias": True,
    }
    encoder, decoder = (_stack(keys, name) for name in ("encoder", "decoder"))
    keys.value("num_hidden_layers")  # the encoder's once more
    return {
        **shared,
        **decoder,
        "encoder": None
        if keys.faults
        else TransformerConfig(**shared, **encoder, kind="encoder", predicts=False),
        "logits_bias": True,
        "tied_embeddings": keys.flag("tie_word_embeddings", default=True),
    }


def _stack(keys: ConfigKeys, name: str) -> dict[str, Any]:
    return {
        "layers": keys.size(f"{name}_layers", default=12),
        "heads": keys.size(f"{name}_attention_heads", default=16),
        "d_ff": keys.size(f"{name}_ffn_dim", default=4096),
    }


def _modules() -> dict[str, str | Layout]:
    found: dict[str, str | Layout] = {
        "model.shared": "token_embedding",
        "lm_head": "to_logits",
        "final_logits_bias": OneRow("to_logits.bias"),
    }
    for stack, ours in (("encoder.", "encoder."), ("decoder.", "")):
        theirs, layer = f"model.{stack}layers.{{layer}}.", f"{ours}layers.{{layer}}."
        found |= {
            f"model.{stack}embed_positions": f"{ours}embedding.position",
            f"model.{stack}layernorm_embedding": f"{ours}embedding.norm",
            **_attention(f"{theirs}self_attn", f"{layer}attention"),
            f"{theirs}fc1": f"{layer}feed_forward.up",
            f"{theirs}fc2": f"{layer}feed_forward.down",
            f"{theirs}final_layer_norm": f"{layer}feed_forward_norm",
        }
    theirs, layer = "model.decoder.layers.{layer}.", "layers.{layer}."
    return found | _attention(f"{theirs}encoder_attn", f"{layer}cross_attention")


def _attention(theirs: str, ours: str) -> dict[str, str]:
    return {
        f"{theirs}.q_proj": f"{ours}.to_query",
        f"{theirs}.k_proj": f"{ours}.to_key",
        f"{theirs}.v_proj": f"{ours}.to_value",
        f"{theirs}.out_proj": f"{ours}.to_output",
        f"{theirs}_layer_norm": f"{ours}_norm",
    }


BART = Family(
    model_type="bart",
    architectures={"BartForConditionalGeneration": {}},
    fields=_bart,
    modules=_modules(),
    twins={
        "model.encoder.embed_tokens.weight": "model.shared.weight",
        "model.decoder.embed_tokens.weight": "model.shared.weight",
        "lm_head.weight": "model.shared.weight",
    },
    harmless=frozenset(
        """
        dropout activation_dropout classifier_dropout classif_dropout encoder_layerdrop
        decoder_layerdrop init_std gradient_checkpointing force_bos_token_to_be_generated
        """.split()  # noqa: SIM905, a paragraph reads better than ten lines
    ),
)
