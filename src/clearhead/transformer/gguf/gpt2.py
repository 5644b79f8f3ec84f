"""GGUF files of GPT-2."""

from typing import Any

from clearhead.transformer.gguf.architecture import Architecture, Turned
from clearhead.transformer.gguf.settings import Settings

__all__ = ["GPT2"]


def _gpt2(settings: Settings) -> dict[str, Any]:
    hidden, heads = settings.whole("embedding_length"), settings.whole("attention.head_count")
    settings.same("attention.head_count_kv", heads, "the number of heads")
    if hidden % heads:
        settings.fault("attention.head_count", f"a divisor of {hidden}", heads)
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_embd": hidden,
        "n_inner": settings.whole("feed_forward_length", 4 * hidden),
        "n_layer": settings.layers(),
        "n_head": heads,
        "n_positions": settings.whole("context_length"),
        "layer_norm_epsilon": settings.real("attention.layer_norm_epsilon"),
        "activation_function": "gelu_new",
        "vocab_size": settings.whole("vocab_size", settings.rows("token_embd.weight")),
        "tie_word_embeddings": "output.weight" not in settings.header.tensors,
    }


GPT2 = Architecture(
    name="gpt2",
    config=_gpt2,
    modules={
        "token_embd": "transformer.wte",
        "position_embd": "transformer.wpe",
        "blk.{layer}.attn_norm": "transformer.h.{layer}.ln_1",
        "blk.{layer}.attn_qkv": Turned("transformer.h.{layer}.attn.c_attn"),
        "blk.{layer}.attn_output": Turned("transformer.h.{layer}.attn.c_proj"),
        "blk.{layer}.ffn_norm": "transformer.h.{layer}.ln_2",
        "blk.{layer}.ffn_up": Turned("transformer.h.{layer}.mlp.c_fc"),
        "blk.{layer}.ffn_down": Turned("transformer.h.{layer}.mlp.c_proj"),
        "output_norm": "transformer.ln_f",
        "output": "lm_head",
    },
)
