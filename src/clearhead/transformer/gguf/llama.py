"""What the tensors and settings of a GGUF file of the Llama family are called, and what they mean.

The file's settings become the configuration Hugging Face models are described with; every tensor
has a name and a shape there that follow from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.errors import CheckpointError, gathered
from clearhead.transformer.gguf.header import GgufHeader

__all__ = ["ARCHITECTURE", "Place", "llama_config", "llama_places"]

ARCHITECTURE = "llama"

# Settings that need no reading where they have this value, for it is how every Llama is made.
_FIXED: Mapping[str, object] = {
    "rope.scaling.type": "none",
    "expert_count": 0,
    "expert_used_count": 0,
    "attention.causal": True,
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where one tensor of the file belongs.

    Args:
        name: the tensor's name in the model.
        shape: its shape there and in the file.
        heads: how many heads its rows are dealt out to, pair by pair; 0 for rows in their order.
    """

    name: str
    shape: tuple[int, ...]
    heads: int = 0


def llama_config(header: GgufHeader) -> dict[str, Any]:
    """The configuration of a Llama model, as a Hugging Face ``config.json`` holds it.

    Args:
        header: the file's header.

    Returns:
        The configuration's entries.

    Raises:
        CheckpointError: settings that are missing, impossible or not understood, all at once.
    """
    settings = _Settings(header)
    hidden = settings.whole("embedding_length")
    heads = settings.whole("attention.head_count")
    width = settings.whole("attention.key_length", hidden // heads)
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": settings.whole("feed_forward_length"),
        "num_hidden_layers": settings.whole("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": settings.whole("attention.head_count_kv", heads),
        "head_dim": width,
        "max_position_embeddings": settings.whole("context_length"),
        "rms_norm_eps": settings.real("attention.layer_norm_rms_epsilon"),
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": settings.real("rope.freq_base", 10_000.0),
        },
        "vocab_size": settings.whole("vocab_size", _rows(header, "token_embd.weight")),
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "attention_bias": False,
        "mlp_bias": False,
    }
    for name in ("attention.value_length", "rope.dimension_count"):
        settings.same(name, width)
    if heads % config["num_key_value_heads"]:
        kv_heads = config["num_key_value_heads"]
        settings.fault("attention.head_count_kv", f"a divisor of {heads}", kv_heads)
    if width % 2:
        settings.fault("attention.key_length", "an even number, for rotations turn pairs", width)
    # Every layer has tensors: a larger number would only make a long list of what is missing.
    if config["num_hidden_layers"] > len(header.tensors):
        layers = config["num_hidden_layers"]
        settings.fault("block_count", f"at most {len(header.tensors)}, the tensors there", layers)
    settings.finish()
    return config


def llama_places(config: Mapping[str, Any]) -> dict[str, Place]:
    """Where each tensor of the file belongs, by its name in the file.

    Args:
        config: what `llama_config` gave.
    """
    d_model, d_ff, width = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    table = (config["vocab_size"], d_model)
    places = {
        "token_embd.weight": Place("model.embed_tokens.weight", table),
        "output_norm.weight": Place("model.norm.weight", (d_model,)),
    }
    if not config["tie_word_embeddings"]:
        places["output.weight"] = Place("lm_head.weight", table)
    inner = {
        "attn_norm": Place("input_layernorm", (d_model,)),
        "attn_q": Place("self_attn.q_proj", (heads * width, d_model), heads),
        "attn_k": Place("self_attn.k_proj", (kv_heads * width, d_model), kv_heads),
        "attn_v": Place("self_attn.v_proj", (kv_heads * width, d_model)),
        "attn_output": Place("self_attn.o_proj", (d_model, heads * width)),
        "ffn_norm": Place("post_attention_layernorm", (d_model,)),
        "ffn_gate": Place("mlp.gate_proj", (d_ff, d_model)),
        "ffn_up": Place("mlp.up_proj", (d_ff, d_model)),
        "ffn_down": Place("mlp.down_proj", (d_model, d_ff)),
    }
    for layer in range(config["num_hidden_layers"]):
        for short, place in inner.items():
            name = f"model.layers.{layer}.{place.name}.weight"
            places[f"blk.{layer}.{short}.weight"] = Place(name, place.shape, place.heads)
    return places


class _Settings:
    """The settings of the architecture: each is read once, and those never read are faults."""

    def __init__(self, header: GgufHeader) -> None:
        self._header = header
        mark = f"{ARCHITECTURE}."
        self._left = {
            name.removeprefix(mark): value
            for name, value in header.settings.items()
            if name.startswith(mark)
        }
        self._faults: list[str] = []

    def whole(self, name: str, default: int | None = None) -> int:
        """A positive whole number; 1 stands in for a faulty one until all faults are known."""
        value = self._left.pop(name, default)
        if type(value) is int and 0 < value < 2**31:
            return value
        self.fault(name, "a positive whole number", value)
        return 1

    def real(self, name: str, default: float | None = None) -> float:
        """A positive number, the shortest that its 32 bits stand for: 1e-05, as was meant."""
        value = self._left.pop(name, default)
        if isinstance(value, float) and 0 < value < float("inf"):
            return float(str(np.float32(value)))
        self.fault(name, "a positive number", value)
        return 1.0

    def same(self, name: str, expected: int) -> None:
        """A setting that has to have this value where it stands."""
        value = self._left.pop(name, expected)
        if value != expected:
            self.fault(name, f"{expected}, the width of a head", value)

    def fault(self, name: str, expected: str, value: object = None) -> None:
        """Note a fault."""
        got = "nothing" if value is None else repr(value)[:80]
        self._faults.append(f"{ARCHITECTURE}.{name}: expected {expected}, got {got}")

    def finish(self) -> None:
        """Raise for every fault, and for every setting that nobody reads."""
        for name, value in self._left.items():
            if name not in _FIXED or _FIXED[name] != value:
                expected = repr(_FIXED[name]) if name in _FIXED else "no such setting"
                self.fault(name, expected, value)
        if self._faults:
            raise CheckpointError(gathered(f"{self._header.file} cannot be read", self._faults))


def _rows(header: GgufHeader, name: str) -> int | None:
    """The rows of a tensor, or None where it is missing (which is said later)."""
    tensor = header.tensors.get(name)
    return None if tensor is None else tensor.shape[0]
