"""Small GGUF files: whole ones by the gguf package's own writer, hostile ones byte by byte."""

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter, quantize

from tests.tokens.tiny import ALPHABET

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

TOKENS = ["<s>", "</s>", *sorted(ALPHABET), "he", "Ġhe", "<think>"]
MERGES = ["h e", "Ġ he"]
KINDS = [3, 3, *[1] * 256, 1, 1, 4]
F32 = GGMLQuantizationType.F32
Q4_1 = GGMLQuantizationType.Q4_1

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def tiny_model(*, tied: bool = True) -> "LlamaForCausalLM":
    """A random Llama whose vocabulary is TOKENS."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(TOKENS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 5000.0},
        tie_word_embeddings=tied,
        bos_token_id=0,
        eos_token_id=1,
    )
    return LlamaForCausalLM(config).eval()


def tensors_of(model: "LlamaForCausalLM") -> dict[str, np.ndarray]:
    """A model's tensors under the names and in the row order of a GGUF file."""
    config, tensors = model.config, {}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        weights = tensor.numpy()
        for part, heads in (("q_proj", 4), ("k_proj", 2)):
            if part in name:
                # Halves of a head become pairs: what reading has to undo.
                rows, columns = weights.shape
                halves = weights.reshape(heads, 2, rows // heads // 2, columns)
                weights = halves.swapaxes(1, 2).reshape(rows, columns)
        tensors[_name(name)] = np.ascontiguousarray(weights)
    return tensors


def random_tensors(seed: int) -> dict[str, np.ndarray]:
    """What `tensors_of` gives of a tied model, without a model."""
    chance = np.random.default_rng(seed)
    inner = {"attn_norm": (32,), "attn_q": (32, 32), "attn_k": (16, 32), "attn_v": (16, 32)}
    inner |= {"attn_output": (32, 32), "ffn_norm": (32,), "ffn_gate": (64, 32)}
    inner |= {"ffn_up": (64, 32), "ffn_down": (32, 64)}
    shapes = {"token_embd.weight": (len(TOKENS), 32), "output_norm.weight": (32,)}
    for layer in range(2):
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in inner.items()}
    return {name: chance.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def _name(name: str) -> str:
    stem = name.removesuffix(".weight")
    if not stem.startswith("model.layers."):
        return f"{_NAMES[stem]}.weight"
    layer, _, inner = stem.removeprefix("model.layers.").partition(".")
    return f"blk.{layer}.{_NAMES[inner]}.weight"


def write_gguf(
    file: Path,
    tensors: dict[str, np.ndarray],
    *,
    kind: GGMLQuantizationType = F32,
    architecture: str = "llama",
    stored_as: dict[str, GGMLQuantizationType] | None = None,
    **changed: Any,
) -> Path:
    """Write a whole file; `changed` settings replace the usual ones, and None leaves one out.

    Tensors in `stored_as` are bytes already.
    """
    writer = GGUFWriter(file, architecture)
    for name, value in (_settings() | changed).items():
        _add(writer, name.replace("__", "."), value)
    for name, weights in tensors.items():
        if name in (stored_as or {}):
            writer.add_tensor(name, weights, raw_dtype=stored_as[name])
        elif weights.ndim == 2 and kind != F32:
            writer.add_tensor(name, quantize(weights, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _settings() -> dict[str, Any]:
    return {
        "llama__block_count": 2,
        "llama__context_length": 64,
        "llama__embedding_length": 32,
        "llama__feed_forward_length": 64,
        "llama__attention__head_count": 4,
        "llama__attention__head_count_kv": 2,
        "llama__attention__layer_norm_rms_epsilon": 1e-5,
        "llama__rope__freq_base": 5000.0,
        "llama__rope__dimension_count": 8,
        "tokenizer__ggml__model": "gpt2",
        "tokenizer__ggml__pre": "smollm",
        "tokenizer__ggml__tokens": TOKENS,
        "tokenizer__ggml__merges": MERGES,
        "tokenizer__ggml__token_type": KINDS,
        "tokenizer__ggml__bos_token_id": 0,
        "tokenizer__ggml__eos_token_id": 1,
        "tokenizer__chat_template": "{{ messages[0]['content'] }}",
    }


def _add(writer: GGUFWriter, name: str, value: Any) -> None:
    adders = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32}
    adders |= {str: writer.add_string, list: writer.add_array}
    if value is not None:
        adders[type(value)](name, value)


def text(value: str | bytes) -> bytes:
    """A text as the file has it: its length, then its bytes."""
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(value)) + value


def setting(name: str, kind: int, value: bytes) -> bytes:
    """A setting as the file has it."""
    return text(name) + struct.pack("<I", kind) + value


def tensor(name: str, sizes: list[int], *, kind: int = 0, start: int = 0) -> bytes:
    """One line of the list of tensors as the file has it."""
    dimensions = struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
    return text(name) + dimensions + struct.pack("<IQ", kind, start)


def raw_gguf(
    *, settings: list[bytes] = (), tensors: list[bytes] = (), data: bytes = b"", **counts: int
) -> bytes:
    """A file put together from its parts; `counts` may lie about how many there are."""
    head = struct.pack(
        "<4sIQQ",
        b"GGUF",
        counts.get("version", 3),
        counts.get("tensor_count", len(tensors)),
        counts.get("setting_count", len(settings)),
    )
    parts = head + b"".join(settings) + b"".join(tensors)
    return parts + b"\0" * (-len(parts) % 32) + data


STRING, ARRAY = int(GGUFValueType.STRING), int(GGUFValueType.ARRAY)
