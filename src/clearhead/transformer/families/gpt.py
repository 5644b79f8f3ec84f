"""GPT-2, with positions learned and weights stored turned; and GPT-NeoX (Pythia), side by side."""

from typing import Any

from clearhead.positions.kinds import Learned
from clearhead.transformer.config import LayerKind
from clearhead.transformer.families.family import Family
from clearhead.transformer.families.keys import ConfigKeys
from clearhead.transformer.families.layout import ByHead, Columns
from clearhead.transformer.families.reading import read_rotary

__all__ = ["GPT2", "GPT_NEOX"]

_LAYER = "layers.{layer}."


def _gpt2(keys: ConfigKeys) -> dict[str, Any]:
    d_model, heads, layers = keys.size("n_embd"), keys.size("n_head"), keys.size("n_layer")
    scaled = keys.flag("scale_attn_weights", default=True)
    scale = (d_model / heads) ** -0.5 if scaled else 1.0
    by_layer = keys.flag("scale_attn_by_inverse_layer_idx", default=False)
    return {
        "vocabulary_size": keys.size("vocab_size"),
        "context_length": keys.size("n_positions", default=1024),
        "d_model": d_model,
        "d_ff": keys.size("n_inner", default=4 * d_model),
        "layers": layers,
        "heads": heads,
        "pattern": tuple(LayerKind(scale=scale / (n + 1)) for n in range(layers))
        if by_layer
        else (LayerKind(),),
        "scale": None if scaled else 1.0,
        "positions": Learned(),
        "norm": "layer",
        "norm_epsilon": keys.number("layer_norm_epsilon", default=1e-5),
        "input_bias": True,
        "output_bias": True,
        "activation": keys.activation("activation_function", default="gelu_new"),
        "gated": False,
        "feed_forward_bias": True,
        "tied_embeddings": keys.flag("tie_word_embeddings", default=True),
    }


def _gpt_neox(keys: ConfigKeys) -> dict[str, Any]:
    d_model, heads = keys.size("hidden_size"), keys.size("num_attention_heads")
    context = keys.size("max_position_embeddings", default=2048)
    biases = keys.flag("attention_bias", default=True)
    for name in ("rope_theta", "partial_rotary_factor"):
        keys.value(name)  # written beside those of this family's own names, and never read
    theta, fraction = keys.maybe_number("rotary_emb_base"), keys.maybe_number("rotary_pct")
    return {
        "vocabulary_size": keys.size("vocab_size"),
        "context_length": context,
        "d_model": d_model,
        "d_ff": keys.size("intermediate_size"),
        "layers": keys.size("num_hidden_layers"),
        "heads": heads,
        "positions": read_rotary(
            keys,
            d_k=d_model // heads,
            context=context,
            theta=theta or 10_000.0,
            fraction=fraction or 0.25,
        ),
        "norm": "layer",
        "norm_epsilon": keys.number("layer_norm_eps", default=1e-5),
        "parallel": keys.flag("use_parallel_residual", default=True),
        "input_bias": biases,
        "output_bias": biases,
        "activation": keys.activation("hidden_act", default="gelu"),
        "gated": False,
        "feed_forward_bias": True,
        "tied_embeddings": keys.flag("tie_word_embeddings", default=False),
    }


_HEADLESS = {"predicts": False, "tied_embeddings": False}

GPT2 = Family(
    model_type="gpt2",
    architectures={"GPT2LMHeadModel": {}, "GPT2Model": _HEADLESS},
    fields=_gpt2,
    modules={
        "transformer.wte": "token_embedding",
        "transformer.wpe": "embedding.position",
        "transformer.h.{layer}.ln_1": _LAYER + "attention_norm",
        "transformer.h.{layer}.attn.c_attn": Columns(
            _LAYER + "attention.to_query",
            _LAYER + "attention.to_key",
            _LAYER + "attention.to_value",
        ),
        "transformer.h.{layer}.attn.c_proj": Columns(_LAYER + "attention.to_output"),
        "transformer.h.{layer}.ln_2": _LAYER + "feed_forward_norm",
        "transformer.h.{layer}.mlp.c_fc": Columns(_LAYER + "feed_forward.up"),
        "transformer.h.{layer}.mlp.c_proj": Columns(_LAYER + "feed_forward.down"),
        "transformer.ln_f": "final_norm",
        "lm_head": "to_logits",
    },
    prefix="transformer.",
    twins={"lm_head.weight": "transformer.wte.weight"},
    # a causal mask and its filler, kept as tensors by older versions
    ignored=r"transformer\.h\.\d+\.attn\.(masked_)?bias",
    harmless=frozenset(
        """
        n_ctx resid_pdrop embd_pdrop attn_pdrop reorder_and_upcast_attn summary_type
        summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout
        """.split()  # noqa: SIM905, a paragraph reads better than ten lines
    ),
)
GPT_NEOX = Family(
    model_type="gpt_neox",
    architectures={"GPTNeoXForCausalLM": {}, "GPTNeoXModel": _HEADLESS},
    fields=_gpt_neox,
    modules={
        "gpt_neox.embed_in": "token_embedding",
        "gpt_neox.layers.{layer}.input_layernorm": _LAYER + "attention_norm",
        "gpt_neox.layers.{layer}.attention.query_key_value": ByHead(
            _LAYER + "attention.to_query",
            _LAYER + "attention.to_key",
            _LAYER + "attention.to_value",
        ),
        "gpt_neox.layers.{layer}.attention.dense": _LAYER + "attention.to_output",
        "gpt_neox.layers.{layer}.post_attention_layernorm": _LAYER + "feed_forward_norm",
        "gpt_neox.layers.{layer}.mlp.dense_h_to_4h": _LAYER + "feed_forward.up",
        "gpt_neox.layers.{layer}.mlp.dense_4h_to_h": _LAYER + "feed_forward.down",
        "gpt_neox.final_layer_norm": "final_norm",
        "embed_out": "to_logits",
    },
    prefix="gpt_neox.",
    twins={"embed_out.weight": "gpt_neox.embed_in.weight"},
    ignored=r"gpt_neox\.layers\.\d+\.attention\.((masked_)?bias|rotary_emb\.inv_freq)",
    harmless=frozenset({"hidden_dropout", "attention_dropout", "classifier_dropout"}),
)
