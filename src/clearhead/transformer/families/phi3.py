"""Phi-3: Llama with its products fused, part of a head turned, and two sets of frequencies."""

from typing import Any

from clearhead.transformer.config import LayerKind
from clearhead.transformer.families.family import Family
from clearhead.transformer.families.keys import ConfigKeys
from clearhead.transformer.families.layout import Layout, Rows
from clearhead.transformer.families.llama import LLAMA_MODULES, llama_fields

__all__ = ["PHI3"]

_LAYER = "layers.{layer}."
_FUSED = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
_MODULES: dict[str, str | Layout] = {
    **{theirs: ours for theirs, ours in LLAMA_MODULES.items() if not theirs.endswith(_FUSED)},
    "model.layers.{layer}.self_attn.qkv_proj": Rows(
        _LAYER + "attention.to_query",
        _LAYER + "attention.to_key",
        _LAYER + "attention.to_value",
    ),
    "model.layers.{layer}.mlp.gate_up_proj": Rows(
        _LAYER + "feed_forward.gate", _LAYER + "feed_forward.up"
    ),
}


def _phi3(keys: ConfigKeys) -> dict[str, Any]:
    keys.only("attention_bias", known=False)
    fields = llama_fields(keys, context=4096, epsilon=1e-5, fraction=1.0)
    keys.value("layer_types")  # a Phi-3's layers all have the window, whatever a file says
    window = keys.maybe_size("sliding_window", default=None)
    return {**fields, "pattern": (LayerKind(window=window),)}


PHI3 = Family(
    model_type="phi3",
    architectures={
        "Phi3ForCausalLM": {},
        "Phi3Model": {"predicts": False, "tied_embeddings": False},
    },
    fields=_phi3,
    modules=_MODULES,
    prefix="model.",
    twins={"lm_head.weight": "model.embed_tokens.weight"},
    harmless=frozenset({"resid_pdrop", "embd_pdrop", "attention_dropout", "auto_map"}),
)
