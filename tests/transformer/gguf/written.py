"""GGUF files of small transformers models, named by the gguf package, altered as converters do.

Nothing here is taken from what reads them: names come from gguf's own map, settings from its own
methods, and the alterations are those of llama.cpp's converter.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from gguf import (
    MODEL_ARCH,
    MODEL_ARCH_NAMES,
    GGMLQuantizationType,
    GGUFWriter,
    RopeScalingType,
    get_tensor_name_map,
    quantize,
)
from transformers import PreTrainedModel

F32 = GGMLQuantizationType.F32
_ARCHITECTURES = {
    "llama": MODEL_ARCH.LLAMA,
    "mistral": MODEL_ARCH.LLAMA,
    "qwen2": MODEL_ARCH.QWEN2,
    "qwen3": MODEL_ARCH.QWEN3,
    "gemma2": MODEL_ARCH.GEMMA2,
    "gemma3_text": MODEL_ARCH.GEMMA3,
    "phi3": MODEL_ARCH.PHI3,
    "gpt2": MODEL_ARCH.GPT2,
}


def write_model(file: Path, model: PreTrainedModel, kind: GGMLQuantizationType = F32) -> Path:
    """Write a model; matrices are stored in the given kind, as far as their rows have blocks."""
    config: Any = model.config
    arch = _ARCHITECTURES[config.model_type]
    writer = GGUFWriter(file, MODEL_ARCH_NAMES[arch])
    _gpt2_settings(writer, config) if arch == MODEL_ARCH.GPT2 else _settings(writer, config)
    names = get_tensor_name_map(arch, config.num_hidden_layers)
    for name, weights in _tensors(model).items():
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert stored is not None, name
        if weights.ndim == 2 and kind != F32:
            writer.add_tensor(stored, quantize(weights, kind), raw_dtype=kind)
        else:
            writer.add_tensor(stored, weights)
    _factors(writer, config)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _tensors(model: PreTrainedModel) -> dict[str, np.ndarray]:
    config: Any = model.config
    found: dict[str, np.ndarray] = {}
    for name, tensor in model.state_dict().items():
        weights = tensor.float().numpy()
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if config.model_type in ("llama", "mistral") and "q_proj" in name:
            weights = _dealt(weights, config.num_attention_heads)
        if config.model_type in ("llama", "mistral") and "k_proj" in name:
            weights = _dealt(weights, config.num_key_value_heads)
        if config.model_type.startswith("gemma") and name.endswith("norm.weight"):
            weights = weights + np.float32(1)
        if config.model_type == "gpt2" and name.endswith(
            ("c_attn.weight", "c_proj.weight", "c_fc.weight")
        ):
            weights = weights.T
        found[name] = np.ascontiguousarray(weights)
    return found


def _dealt(weights: np.ndarray, heads: int) -> np.ndarray:
    """Halves of a head become pairs: what reading has to undo."""
    halves = weights.reshape(heads, 2, len(weights) // heads // 2, *weights.shape[1:])
    return halves.swapaxes(1, 2).reshape(weights.shape)


def _settings(writer: GGUFWriter, config: Any) -> None:
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_file_type(0)
    if config.model_type != "phi3":
        writer.add_key_length(width)
        writer.add_value_length(width)
    if config.model_type in ("llama", "mistral"):
        writer.add_vocab_size(config.vocab_size)
        writer.add_rope_dimension_count(width)
    _rotary(writer, config, width)
    if config.model_type == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if config.model_type == "phi3":
        writer.add_sliding_window(config.sliding_window or 0)
    if config.model_type.startswith("gemma"):
        writer.add_sliding_window(config.sliding_window)


def _rotary(writer: GGUFWriter, config: Any, width: int) -> None:
    told = config.rope_parameters
    told = told.get("full_attention", told)
    writer.add_rope_freq_base(told["rope_theta"])
    if config.model_type == "phi3":
        part = told.get("partial_rotary_factor", 1.0)
        writer.add_rope_dimension_count(int(part * width))
        original = told.get("original_max_position_embeddings", config.max_position_embeddings)
        writer.add_rope_scaling_orig_ctx_len(original)
    if told["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(RopeScalingType(told["rope_type"]))
        writer.add_rope_scaling_factor(told["factor"])
    if told["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(told["original_max_position_embeddings"])


def _gpt2_settings(writer: GGUFWriter, config: Any) -> None:
    writer.add_block_count(config.n_layer)
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.n_embd)
    writer.add_feed_forward_length(config.n_inner or 4 * config.n_embd)
    writer.add_head_count(config.n_head)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    writer.add_file_type(0)


def _factors(writer: GGUFWriter, config: Any) -> None:
    """Scalings that stand among the tensors."""
    told: Any = getattr(config, "rope_parameters", None) or {}
    if told.get("rope_type") == "longrope":
        original = told["original_max_position_embeddings"]
        stretch = math.log(config.max_position_embeddings / original)
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + stretch / math.log(original)))
        writer.add_tensor("rope_factors_long.weight", np.array(told["long_factor"], np.float32))
        writer.add_tensor("rope_factors_short.weight", np.array(told["short_factor"], np.float32))
    if told.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", _llama3(config))


def _llama3(config: Any) -> np.ndarray:
    told, width = config.rope_parameters, config.head_dim
    factor, original = told["factor"], told["original_max_position_embeddings"]
    low, high = told["low_freq_factor"], told["high_freq_factor"]
    turns = told["rope_theta"] ** (-np.arange(0, width, 2) / width)
    share = np.clip((original * turns / (2 * math.pi) - low) / (high - low), 0, 1)
    return (1 / ((1 - share) / factor + share)).astype(np.float32)
