"""Small random transformers models of every family that our Transformer reads, in many variants.

All have 99 tokens, a width of 32, and weights so large that attention is not flat; biases, norms
and whatever else begins at 0 or 1 are random too.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from clearhead.transformer.model import Transformer
from clearhead.transformer.model_folder import read_folder
from clearhead.transformer.released import load_released

__all__ = ["RELEASED", "TEXT", "VOCABULARY", "loaded", "made", "model_type", "saved", "twin"]

VOCABULARY = 99
#: longest text; windows, chunks and the first contexts of stretched positions are shorter
TEXT = 10

_SIZES: dict[str, object] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GROUPED = {**_SIZES, "num_key_value_heads": 2}
_NARROW = {**_GROUPED, "head_dim": 8}
_GPT2: dict[str, object] = {
    "vocab_size": VOCABULARY,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_ROBERTA = {**_SIZES, "pad_token_id": 1, "bos_token_id": 0, "max_position_embeddings": 66}
_DISTIL: dict[str, object] = {
    "vocab_size": VOCABULARY,
    "dim": 32,
    "hidden_dim": 48,
    "n_layers": 2,
    "n_heads": 4,
    "max_position_embeddings": 64,
}
_T5: dict[str, object] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 11,
}
_BART: dict[str, object] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "forced_eos_token_id": None,
}
_LLAMA4 = {
    **_NARROW,
    "num_hidden_layers": 4,
    "intermediate_size_mlp": 40,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "attention_chunk_size": 4,
    "interleave_moe_layer_step": 2,
    "floor_scale": 3,
}
_SLIDES = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
_FIRST = {"layer_types": ["sliding_attention", "full_attention"]}


def _turned(kind: str, **settings: object) -> dict[str, object]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 500.0, **settings}}


def _longrope(pairs: int, **settings: object) -> dict[str, object]:
    short, long = ([start + 0.3 * p for p in range(pairs)] for start in (1.0, 2.0))
    stretch = {"short_factor": short, "long_factor": long, "original_max_position_embeddings": 6}
    return {
        **_turned("longrope", factor=6.4, **stretch, **settings),
        "original_max_position_embeddings": 6,
    }


_LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_YARN = {"factor": 4.0, "original_max_position_embeddings": 16}
_ROPES = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
    "full_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 4.0},
}
_GEMMA2 = {**_NARROW, "sliding_window": 4, "query_pre_attn_scalar": 6}
_GEMMA3 = {**_GEMMA2, "num_hidden_layers": 3}

#: Variant: class of the model, settings of its configuration. Its family is its first word.
RELEASED: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "llama": ("LlamaForCausalLM", _GROUPED),
    "llama biases": ("LlamaForCausalLM", {**_GROUPED, "attention_bias": True, "mlp_bias": True}),
    "llama tied": ("LlamaForCausalLM", {**_GROUPED, "tie_word_embeddings": True}),
    "llama wide heads": ("LlamaForCausalLM", {**_GROUPED, "head_dim": 12}),
    "llama one key head": ("LlamaForCausalLM", {**_SIZES, "num_key_value_heads": 1}),
    "llama linear": ("LlamaForCausalLM", {**_GROUPED, **_turned("linear", factor=4.0)}),
    "llama llama3": (
        "LlamaForCausalLM",
        {**_GROUPED, **_turned("llama3", original_max_position_embeddings=16, **_LLAMA3)},
    ),
    "llama yarn": ("LlamaForCausalLM", {**_GROUPED, **_turned("yarn", **_YARN)}),
    "llama yarn weighed": (
        "LlamaForCausalLM",
        {**_GROUPED, **_turned("yarn", **_YARN, mscale=0.7, mscale_all_dim=0.4, truncate=False)},
    ),
    "llama dynamic": ("LlamaForCausalLM", {**_GROUPED, **_turned("dynamic", factor=2.0)}),
    "llama longrope": ("LlamaForCausalLM", {**_GROUPED, **_longrope(4)}),
    "mistral": ("MistralForCausalLM", {**_GROUPED, "sliding_window": None}),
    "mistral window": ("MistralForCausalLM", {**_GROUPED, "head_dim": 6, "sliding_window": 4}),
    "qwen2": ("Qwen2ForCausalLM", _GROUPED),
    "qwen2 windows": ("Qwen2ForCausalLM", {**_GROUPED, **_SLIDES}),
    "qwen2 window first": ("Qwen2ForCausalLM", {**_GROUPED, **_SLIDES, **_FIRST}),
    "qwen3": ("Qwen3ForCausalLM", _NARROW),
    "qwen3 biases, windows": ("Qwen3ForCausalLM", {**_NARROW, **_SLIDES, "attention_bias": True}),
    "phi3": ("Phi3ForCausalLM", _GROUPED),
    "phi3 window": ("Phi3ForCausalLM", {**_GROUPED, "sliding_window": 4}),
    "phi3 longrope, partial": (
        "Phi3ForCausalLM",
        {**_GROUPED, **_longrope(2, partial_rotary_factor=0.5)},
    ),
    "gemma2 windows": ("Gemma2ForCausalLM", _GEMMA2),
    "gemma2 tight caps": (
        "Gemma2ForCausalLM",
        {**_GEMMA2, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
    ),
    "gemma2 no caps": (
        "Gemma2ForCausalLM",
        {**_GEMMA2, "attn_logit_softcapping": None, "final_logit_softcapping": None},
    ),
    "gemma3 windows": ("Gemma3ForCausalLM", {**_GEMMA3, "sliding_window_pattern": 2}),
    "gemma3 two rotaries": (
        "Gemma3ForCausalLM",
        {**_GEMMA3, "sliding_window_pattern": 3, "rope_parameters": _ROPES},
    ),
    "llama4": ("Llama4ForCausalLM", _LLAMA4),
    "llama4 calm": (
        "Llama4ForCausalLM",
        {
            **_LLAMA4,
            "use_qk_norm": False,
            "attn_temperature_tuning": False,
            "no_rope_layers": [1, 0, 1, 1],
            "num_experts_per_tok": 1,
            "attention_bias": True,
            "tie_word_embeddings": True,
        },
    ),
    "gpt2": ("GPT2LMHeadModel", _GPT2),
    "gpt2 inverse layer scale": (
        "GPT2LMHeadModel",
        {**_GPT2, "scale_attn_by_inverse_layer_idx": True},
    ),
    "gpt2 unscaled": (
        "GPT2LMHeadModel",
        {**_GPT2, "scale_attn_weights": False, "n_inner": 40, "activation_function": "relu"},
    ),
    "gpt_neox parallel, partial": ("GPTNeoXForCausalLM", {**_SIZES, "rotary_pct": 0.5}),
    "gpt_neox serial": (
        "GPTNeoXForCausalLM",
        {**_SIZES, "rotary_pct": 1.0, "use_parallel_residual": False, "attention_bias": False},
    ),
    "gpt_neox tied": ("GPTNeoXForCausalLM", {**_SIZES, "tie_word_embeddings": True}),
    "t5": ("T5ForConditionalGeneration", _T5),
    "t5 gated, one decoder layer": (
        "T5ForConditionalGeneration",
        {**_T5, "feed_forward_proj": "gated-gelu", "num_decoder_layers": 1},
    ),
    "t5 untied, wide heads": (
        "T5ForConditionalGeneration",
        {**_T5, "feed_forward_proj": "gated-silu", "tie_word_embeddings": False, "d_kv": 12},
    ),
    "bart": ("BartForConditionalGeneration", _BART),
    "bart scaled": (
        "BartForConditionalGeneration",
        {**_BART, "scale_embedding": True, "activation_function": "relu", "decoder_layers": 2},
    ),
    "bert": ("BertForMaskedLM", _SIZES),
    "bert headless": ("BertModel", _SIZES),
    "roberta": ("RobertaForMaskedLM", _ROBERTA),
    "roberta headless": ("RobertaModel", _ROBERTA),
    "distilbert": ("DistilBertForMaskedLM", _DISTIL),
    "distilbert headless": ("DistilBertModel", _DISTIL),
}


def made(variant: str) -> PreTrainedModel:
    """A random model of a variant, in evaluation mode, in PyTorch's default dtype."""
    name, settings = RELEASED[variant]
    build: Callable[..., PreTrainedModel] = getattr(transformers, name)
    config: Callable[..., PretrainedConfig] = build.config_class
    model = build(config(**settings, attn_implementation="eager")).eval()
    _draw(model)
    return model


def twin(model: PreTrainedModel, variant: str) -> PreTrainedModel:
    """The same model in PyTorch's default dtype, whatever the dtype of the first one."""
    other = made(variant)
    other.load_state_dict(model.state_dict())
    return other


def model_type(variant: str) -> str:
    """What a variant's ``config.json`` calls its family."""
    build: Any = getattr(transformers, RELEASED[variant][0])
    return build.config_class.model_type


def saved(model: PreTrainedModel, folder: Path) -> Path:
    """The folder, with the model in it."""
    model.save_pretrained(folder)
    return folder


def loaded(folder: Path, dtype: torch.dtype = torch.float32) -> Transformer:
    """Our Transformer with the weights of a folder."""
    return load_released(read_folder(folder), dtype=dtype, device="cpu")


def _draw(model: nn.Module) -> None:
    """Random weights; norms stay near what they begin as."""
    stored: dict[str, Tensor] = dict(model.named_parameters())
    if "final_logits_bias" in model.state_dict():
        stored["final_logits_bias"] = model.state_dict()["final_logits_bias"]
    for name, tensor in stored.items():
        # T5 does not scale its scores: its queries are small instead
        size = 0.07 if name.endswith(".q.weight") else 0.2
        drawn = size * torch.randn_like(tensor)
        with torch.no_grad():
            tensor.copy_(drawn + tensor if tensor.dim() == 1 else drawn)
