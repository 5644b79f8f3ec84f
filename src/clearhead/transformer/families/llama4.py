"""Llama 4's text model: chunks, layers without positions, temperature, norms and experts."""

from typing import Any

from clearhead.transformer.config import Experts, LayerKind, QueryTemperature
from clearhead.transformer.families.family import Family
from clearhead.transformer.families.keys import ConfigKeys
from clearhead.transformer.families.layout import Layout, Side
from clearhead.transformer.families.llama import LLAMA_MODULES, llama_fields
from clearhead.transformer.families.reading import shortest

__all__ = ["LLAMA4"]

_FEED_FORWARD, _OURS = "model.layers.{layer}.feed_forward.", "layers.{layer}.feed_forward."
_MODULES: dict[str, str | Layout] = {
    **{theirs: ours for theirs, ours in LLAMA_MODULES.items() if ".mlp." not in theirs},
    _FEED_FORWARD + "gate_proj": _OURS + "gate",
    _FEED_FORWARD + "up_proj": _OURS + "up",
    _FEED_FORWARD + "down_proj": _OURS + "down",
}
_EXPERTS: dict[str, str | Layout] = {
    _FEED_FORWARD + "router": _OURS + "router",
    _FEED_FORWARD + "experts.gate_up_proj": Side(_OURS + "gates", _OURS + "ups"),
    _FEED_FORWARD + "experts.down_proj": _OURS + "downs",
    _FEED_FORWARD + "shared_expert.gate_proj": _OURS + "shared.gate",
    _FEED_FORWARD + "shared_expert.up_proj": _OURS + "shared.up",
    _FEED_FORWARD + "shared_expert.down_proj": _OURS + "shared.down",
}


def _llama4(keys: ConfigKeys) -> dict[str, Any]:
    fields = llama_fields(
        keys,
        context=131_072,
        kv_heads=8,
        d_head=128,
        epsilon=1e-5,
        theta=500_000.0,
        interleaved=True,
    )
    layers = fields["layers"]
    biases = keys.flag("attention_bias", default=False)
    experts = Experts(
        count=keys.size("num_local_experts", default=16),
        chosen=keys.size("num_experts_per_tok", default=1),
        d_ff=fields["d_ff"],
    )
    turns, mixed = _turning_layers(keys, layers), _mixed_layers(keys, layers)
    chunk = keys.maybe_size("attention_chunk_size", default=8192)
    chunked = keys.names("layer_types", ["chunked_attention", "full_attention"], count=layers)
    in_chunks = [kind == "chunked_attention" for kind in chunked] or turns
    heat = _temperature(keys)
    return {
        **fields,
        "d_ff": keys.size("intermediate_size_mlp", default=16_384),
        "pattern": shortest(
            [
                LayerKind(
                    chunk=chunk if in_chunks[n] else None,
                    rotary="model" if turns[n] else "none",
                    temperature=None if turns[n] else heat,
                    experts=experts if n in mixed else None,
                )
                for n in range(layers)
            ]
        ),
        "query_key_norm": "rotated" if keys.flag("use_qk_norm", default=True) else None,
        "input_bias": biases,
        "output_bias": biases,
    }


def _turning_layers(keys: ConfigKeys, layers: int) -> list[bool]:
    """Which layers turn queries and keys: 1 in the list that is called the other way round."""
    every = keys.size("no_rope_layer_interval", default=4)
    named = keys.counts("no_rope_layers")
    if named and len(named) == layers:
        return [bool(turns) for turns in named]
    if named:
        keys.mean_nothing("no_rope_layers", f"must have one number for each of {layers} layers")
    return [(n + 1) % every != 0 for n in range(layers)]


def _mixed_layers(keys: ConfigKeys, layers: int) -> set[int]:
    """Which layers have experts."""
    step = keys.size("interleave_moe_layer_step", default=1)
    named = keys.counts("moe_layers")
    return set(range(step - 1, layers, step) if named is None else named)


def _temperature(keys: ConfigKeys) -> QueryTemperature | None:
    heat = QueryTemperature(
        strength=keys.number("attn_scale", default=0.1),
        floor=keys.number("floor_scale", default=8192.0),
    )
    return heat if keys.flag("attn_temperature_tuning", default=True) else None


LLAMA4 = Family(
    model_type="llama4_text",
    architectures={
        "Llama4ForCausalLM": {},
        "Llama4TextModel": {"predicts": False, "tied_embeddings": False},
    },
    fields=_llama4,
    modules={**_MODULES, **_EXPERTS},
    prefix="model.",
    twins={"lm_head.weight": "model.embed_tokens.weight"},
    harmless=frozenset({"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"}),
)
