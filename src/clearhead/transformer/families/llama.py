"""Llama 1 to 3.x, every model that says it is one (SmolLM2 among them), and its close kin."""

from dataclasses import replace
from typing import Any

from clearhead.transformer.config import LayerKind
from clearhead.transformer.families.family import Family
from clearhead.transformer.families.keys import ConfigKeys
from clearhead.transformer.families.reading import layer_windows, read_rotary

__all__ = ["LLAMA", "LLAMA_MODULES", "MISTRAL", "QWEN2", "QWEN3", "llama_fields"]

LLAMA_MODULES = {
    "model.embed_tokens": "token_embedding",
    "model.layers.{layer}.input_layernorm": "layers.{layer}.attention_norm",
    "model.layers.{layer}.self_attn.q_proj": "layers.{layer}.attention.to_query",
    "model.layers.{layer}.self_attn.k_proj": "layers.{layer}.attention.to_key",
    "model.layers.{layer}.self_attn.v_proj": "layers.{layer}.attention.to_value",
    "model.layers.{layer}.self_attn.o_proj": "layers.{layer}.attention.to_output",
    "model.layers.{layer}.post_attention_layernorm": "layers.{layer}.feed_forward_norm",
    "model.layers.{layer}.mlp.gate_proj": "layers.{layer}.feed_forward.gate",
    "model.layers.{layer}.mlp.up_proj": "layers.{layer}.feed_forward.up",
    "model.layers.{layer}.mlp.down_proj": "layers.{layer}.feed_forward.down",
    "model.norm": "final_norm",
    "lm_head": "to_logits",
}
_TWINS = {"lm_head.weight": "model.embed_tokens.weight"}
_OLD_TABLES = r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq"


def llama_fields(
    keys: ConfigKeys,
    *,
    context: int,
    kv_heads: int | None = None,
    d_head: int | None = None,
    epsilon: float = 1e-6,
    theta: float = 10_000.0,
    fraction: float | None = None,
    interleaved: bool = False,
) -> dict[str, Any]:
    """Read what Llama and its kin have in common.

    Args:
        keys: the config.
        context: positions of a model that does not name them.
        kv_heads: key heads of such a model; None is as many as query heads, as null in a file is.
        d_head: width of a head, likewise; None is d_model / heads.
        epsilon: of the norms, likewise.
        theta: base of the rotary frequencies, likewise.
        fraction: how much of a head turns, likewise; None is all of it, whatever a file says.
        interleaved: whether neighbours are a pair that turns.

    Returns:
        Fields of a ``TransformerConfig``.
    """
    d_model, heads = keys.size("hidden_size"), keys.size("num_attention_heads")
    context = keys.size("max_position_embeddings", default=context)
    d_head = keys.size("head_dim", default=d_head or max(d_model // heads, 1))
    rotary = read_rotary(
        keys,
        d_k=d_head,
        context=context,
        theta=theta,
        fraction=fraction,
        interleaved=interleaved,
    )
    return {
        "vocabulary_size": keys.size("vocab_size"),
        "context_length": context,
        "d_model": d_model,
        "d_ff": keys.size("intermediate_size"),
        "layers": keys.size("num_hidden_layers"),
        "heads": heads,
        "kv_heads": keys.maybe_size("num_key_value_heads", default=kv_heads) or heads,
        "d_k": d_head,
        "d_v": d_head,
        "positions": rotary,
        "norm_epsilon": keys.number("rms_norm_eps", default=epsilon),
        "activation": keys.activation("hidden_act", default="silu"),
        "tied_embeddings": keys.flag("tie_word_embeddings", default=False),
    }


def _llama(keys: ConfigKeys) -> dict[str, Any]:
    biases = keys.flag("attention_bias", default=False)
    keys.only("rope_interleaved", known=False)
    return {
        **llama_fields(keys, context=2048),
        "input_bias": biases,
        "output_bias": biases,
        "feed_forward_bias": keys.flag("mlp_bias", default=False),
    }


def _mistral(keys: ConfigKeys) -> dict[str, Any]:
    fields = llama_fields(keys, context=131_072, kv_heads=8)
    keys.value("layer_types")  # a Mistral's layers all have the window, whatever a file says
    window = keys.maybe_size("sliding_window", default=4096)
    return {**fields, "pattern": (LayerKind(window=window),)}


def _qwen2(keys: ConfigKeys) -> dict[str, Any]:
    return {**_qwen(keys, d_head=None), "input_bias": True}


def _qwen3(keys: ConfigKeys) -> dict[str, Any]:
    biases = keys.flag("attention_bias", default=False)
    return {
        **_qwen(keys, d_head=128),
        "query_key_norm": "head",
        "input_bias": biases,
        "output_bias": biases,
    }


def _qwen(keys: ConfigKeys, *, d_head: int | None) -> dict[str, Any]:
    fields = llama_fields(keys, context=32_768, kv_heads=32, d_head=d_head)
    layers = fields["layers"]
    begin = keys.count("max_window_layers", default=28)
    keys.only("use_mrope", known=False)
    slides = keys.flag("use_sliding_window", default=False)
    kinds = [
        "sliding_attention" if slides and n >= begin else "full_attention" for n in range(layers)
    ]
    window = 4096 if slides else None
    if not slides:
        keys.value("sliding_window")  # written all the same
    return {
        **fields,
        "pattern": layer_windows(keys, layers=layers, kinds=kinds, window=window),
    }


def _causal(name: str) -> dict[str, dict[str, Any]]:
    headless = {"predicts": False, "tied_embeddings": False}
    return {f"{name}ForCausalLM": {}, f"{name}Model": headless}


LLAMA = Family(
    model_type="llama",
    architectures=_causal("Llama"),
    fields=_llama,
    modules=LLAMA_MODULES,
    prefix="model.",
    twins=_TWINS,
    ignored=_OLD_TABLES,
    harmless=frozenset({"is_llama_config"}),
)
MISTRAL = replace(
    LLAMA,
    model_type="mistral",
    architectures=_causal("Mistral"),
    fields=_mistral,
    harmless=frozenset[str](),
)
QWEN2 = replace(MISTRAL, model_type="qwen2", architectures=_causal("Qwen2"), fields=_qwen2)
QWEN3 = Family(
    model_type="qwen3",
    architectures=_causal("Qwen3"),
    fields=_qwen3,
    modules={
        **LLAMA_MODULES,
        "model.layers.{layer}.self_attn.q_norm": "layers.{layer}.attention.query_norm",
        "model.layers.{layer}.self_attn.k_norm": "layers.{layer}.attention.key_norm",
    },
    prefix="model.",
    twins=_TWINS,
)
