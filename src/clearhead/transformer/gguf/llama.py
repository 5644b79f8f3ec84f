"""GGUF files of Llama and its kin: Llama 1 to 3.x and Mistral as ``llama``, Qwen 2 and Qwen 3."""

from collections.abc import Mapping
from typing import Any

from clearhead.transformer.gguf.architecture import Architecture, Dealt, Stored
from clearhead.transformer.gguf.settings import Settings

__all__ = ["LLAMA", "LLAMA_MODULES", "QWEN2", "QWEN3", "llama_like", "rotary"]

#: The tensors that all kin of Llama have, by their names in a file.
LLAMA_MODULES: Mapping[str, str | Stored] = {
    "token_embd": "model.embed_tokens",
    "blk.{layer}.attn_norm": "model.layers.{layer}.input_layernorm",
    "blk.{layer}.attn_q": "model.layers.{layer}.self_attn.q_proj",
    "blk.{layer}.attn_k": "model.layers.{layer}.self_attn.k_proj",
    "blk.{layer}.attn_v": "model.layers.{layer}.self_attn.v_proj",
    "blk.{layer}.attn_output": "model.layers.{layer}.self_attn.o_proj",
    "blk.{layer}.ffn_norm": "model.layers.{layer}.post_attention_layernorm",
    "blk.{layer}.ffn_gate": "model.layers.{layer}.mlp.gate_proj",
    "blk.{layer}.ffn_up": "model.layers.{layer}.mlp.up_proj",
    "blk.{layer}.ffn_down": "model.layers.{layer}.mlp.down_proj",
    "output_norm": "model.norm",
    "output": "lm_head",
}


def llama_like(settings: Settings) -> dict[str, Any]:
    """What the settings of all kin of Llama say, positions apart.

    Args:
        settings: the file's settings.

    Returns:
        Entries of a ``config.json``.
    """
    hidden = settings.whole("embedding_length")
    heads = settings.whole("attention.head_count")
    kv_heads = settings.whole("attention.head_count_kv", heads)
    width = settings.whole("attention.key_length", hidden // heads)
    settings.same("attention.value_length", width, "the width of a head")
    if heads % kv_heads:
        settings.fault("attention.head_count_kv", f"a divisor of {heads}", kv_heads)
    if width % 2:
        settings.fault("attention.key_length", "an even number, for rotations turn pairs", width)
    return {
        "hidden_size": hidden,
        "intermediate_size": settings.whole("feed_forward_length"),
        "num_hidden_layers": settings.layers(),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": width,
        "max_position_embeddings": settings.whole("context_length"),
        "rms_norm_eps": settings.real("attention.layer_norm_rms_epsilon"),
        "vocab_size": settings.whole("vocab_size", settings.rows("token_embd.weight")),
        "tie_word_embeddings": "output.weight" not in settings.header.tensors,
    }


def rotary(
    settings: Settings, *, context: int, width: int, theta: float = 10_000.0
) -> dict[str, Any]:
    """What the settings say of rotary positions: base and scaling of a head that turns as a whole.

    Args:
        settings: the file's settings.
        context: positions of the model.
        width: width of a head.
        theta: base of the frequencies where it is not told.

    Returns:
        The ``rope_parameters`` of a ``config.json``.
    """
    settings.same("rope.dimension_count", width, "the width of a head")
    base = {"rope_theta": settings.real("rope.freq_base", theta)}
    kind = settings.value("rope.scaling.type")
    original = settings.whole("rope.scaling.original_context_length", context)
    if kind is None and "rope.scaling.factor" in settings:
        kind = "linear"
    if kind in (None, "none"):
        return {"rope_type": "default", **base}
    if kind == "linear":
        return {"rope_type": "linear", "factor": settings.real("rope.scaling.factor"), **base}
    if kind == "yarn":
        stretch = {"factor": settings.real("rope.scaling.factor")}
        return {
            "rope_type": "yarn",
            "original_max_position_embeddings": original,
            **stretch,
            **base,
        }
    settings.fault("rope.scaling.type", "'none', 'linear' or 'yarn'", kind)
    return {"rope_type": "default", **base}


def _llama(settings: Settings) -> dict[str, Any]:
    config = llama_like(settings)
    context, width = config["max_position_embeddings"], config["head_dim"]
    turning = rotary(settings, context=context, width=width)
    factors = settings.factors("rope_freqs.weight")
    if factors is not None:
        # Llama 3's scaling, worked out: each frequency has a factor of its own at every length.
        turning = {
            "rope_type": "longrope",
            "rope_theta": turning["rope_theta"],
            "short_factor": factors,
            "long_factor": factors,
            "factor": 1.0,
            "original_max_position_embeddings": context,
        }
    tensors = settings.header.tensors
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        **config,
        "rope_parameters": turning,
        "attention_bias": "blk.0.attn_q.bias" in tensors,
        "mlp_bias": "blk.0.ffn_up.bias" in tensors,
    }


def _qwen(settings: Settings, *, name: str) -> dict[str, Any]:
    config = llama_like(settings)
    context, width = config["max_position_embeddings"], config["head_dim"]
    return {
        "architectures": [f"{name}ForCausalLM"],
        "model_type": name.lower(),
        "hidden_act": "silu",
        **config,
        "rope_parameters": rotary(settings, context=context, width=width),
        "use_sliding_window": False,
    }


LLAMA = Architecture(
    name="llama",
    config=_llama,
    modules={
        **LLAMA_MODULES,
        # of this architecture alone (its files were made for a rotation of neighbours)
        "blk.{layer}.attn_q": Dealt("model.layers.{layer}.self_attn.q_proj"),
        "blk.{layer}.attn_k": Dealt("model.layers.{layer}.self_attn.k_proj"),
    },
    settings_as_tensors=frozenset({"rope_freqs.weight"}),
)
QWEN2 = Architecture(
    name="qwen2",
    config=lambda settings: _qwen(settings, name="Qwen2"),
    modules=LLAMA_MODULES,
)
QWEN3 = Architecture(
    name="qwen3",
    config=lambda settings: _qwen(settings, name="Qwen3"),
    modules={
        **LLAMA_MODULES,
        "blk.{layer}.attn_q_norm": "model.layers.{layer}.self_attn.q_norm",
        "blk.{layer}.attn_k_norm": "model.layers.{layer}.self_attn.k_norm",
    },
)
