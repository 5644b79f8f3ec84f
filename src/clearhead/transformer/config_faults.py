"""What can be wrong with the values of a configuration, and with what they are together."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any, cast, get_args

from clearhead.positions.kinds import Learned, Positions, Rotary, Sinusoidal, unturnable

__all__ = ["config_faults"]

_POSITIVE = ("vocabulary_size", "d_model", "d_ff", "layers", "heads")
_NOT_NEGATIVE = ("kv_heads", "d_k", "d_v", "token_types")
_LARGEST = 2**62
_FLAGS = (
    *("embedding_norm", "parallel", "final_norm", "input_bias", "output_bias", "sinks", "gated"),
    *("feed_forward_bias", "predicts", "logits_transform", "logits_bias", "tied_embeddings"),
    "pooler",
)
_CHOICES: Mapping[str, tuple[object, ...]] = {
    "kind": ("decoder", "encoder"),
    "norm": ("rms", "layer"),
    "norm_place": ("before", "after", "around"),
    "query_key_norm": ("head", "rotated", None),
    "activation": ("gelu", "gelu_tanh", "quick_gelu", "relu", "silu"),
}


def config_faults(fields: Mapping[str, Any]) -> list[str]:
    """Say what is wrong with the fields of a configuration.

    Args:
        fields: value by name.

    Returns:
        One line a fault; those of combinations only where every value alone is right.
    """
    faults = [*_sizes(fields), *_numbers(fields), *_choices(fields)]
    together = (_heads, _layers, _positions, _encoder, _parts)
    return faults or [fault for find in together for fault in find(fields)]


def _sizes(fields: Mapping[str, Any]) -> Iterator[str]:
    for name in _POSITIVE:
        if not _whole(fields[name], least=1):
            yield f"{name} must be a positive whole number, got {fields[name]!r}"
    for name in _NOT_NEGATIVE:
        if not _whole(fields[name], least=0):
            yield f"{name} must be a whole number of 0 or more, got {fields[name]!r}"
    context = fields["context_length"]
    if context is not None and not _whole(context, least=1):
        yield f"context_length must be a positive whole number or None, got {context!r}"
    for name in (*_POSITIVE, *_NOT_NEGATIVE, "context_length"):
        yield from _too_large(name, fields[name])


def _numbers(fields: Mapping[str, Any]) -> Iterator[str]:
    for name in ("norm_epsilon", "embedding_scale", "logits_scale"):
        if not _positive(fields[name]):
            yield f"{name} must be a positive finite number, got {fields[name]!r}"
    for name in ("scale", "softcap", "logits_softcap"):
        if fields[name] is not None and not _positive(fields[name]):
            yield f"{name} must be a positive finite number or None, got {fields[name]!r}"
    offset = fields["norm_offset"]
    if offset and not _positive(offset):
        yield f"norm_offset must be 0 or a positive finite number, got {offset!r}"


def _choices(fields: Mapping[str, Any]) -> Iterator[str]:
    for name, known in _CHOICES.items():
        if fields[name] not in known:
            listed = ", ".join(map(repr, known))
            yield f"{name} must be one of {listed}, got {fields[name]!r}"
    positions = fields["positions"]
    if positions is not None and not isinstance(positions, get_args(Positions)):
        listed = ", ".join(kind.__name__ for kind in get_args(Positions))
        yield f"positions must be one of {listed} or None, got {positions!r}"
    for name in _FLAGS:
        if not isinstance(fields[name], bool):
            yield f"{name} must be True or False, got {fields[name]!r}"
    yield from _values(fields)


def _values(fields: Mapping[str, Any]) -> Iterator[str]:
    """Say what is not of the class it should be."""
    from clearhead.transformer.config import LayerKind, TransformerConfig

    pattern, encoder = fields["pattern"], fields["encoder"]
    kinds = cast("tuple[object, ...]", pattern if isinstance(pattern, tuple) else ())
    if not kinds or not all(isinstance(kind, LayerKind) for kind in kinds):
        yield f"pattern must be a tuple of at least one LayerKind, got {pattern!r}"
    for place, kind in enumerate(kinds):
        rotary = kind.rotary if isinstance(kind, LayerKind) else "model"
        if not isinstance(rotary, Rotary) and rotary not in ("model", "none"):
            expected = "'model', 'none' or a Rotary"
            yield f"rotary of pattern[{place}] must be {expected}, got {rotary!r}"
    if encoder is not None and not isinstance(encoder, TransformerConfig):
        yield f"encoder must be a TransformerConfig or None, got {encoder!r}"


def _heads(fields: Mapping[str, Any]) -> Iterator[str]:
    d_model, heads, kv_heads = fields["d_model"], fields["heads"], fields["kv_heads"]
    if not fields["d_k"] and d_model % heads:
        yield f"d_model ({d_model}) must be a multiple of heads ({heads}) where d_k is left out"
    if kv_heads and heads % kv_heads:
        yield f"heads ({heads}) must be a multiple of kv_heads ({kv_heads})"
    d_k = fields["d_k"] or d_model // heads
    # each once, in order
    turns = dict.fromkeys([fields["positions"], *(kind.rotary for kind in fields["pattern"])])
    for rotary in turns:
        if not isinstance(rotary, Rotary):
            continue
        if rotary.width is None:
            yield from unturnable("d_k", d_k, rotary.scaling)
        elif rotary.width > d_k:
            yield f"a rotary width ({rotary.width}) must not be above d_k ({d_k})"


def _layers(fields: Mapping[str, Any]) -> Iterator[str]:
    for place, kind in enumerate(fields["pattern"]):
        for name in ("window", "chunk", "d_ff"):
            value = getattr(kind, name)
            if value is not None and not _whole(value, least=1):
                yield f"{name} of pattern[{place}] must be a positive whole number, got {value!r}"
            yield from _too_large(f"{name} of pattern[{place}]", value)
        if kind.scale is not None and not _positive(kind.scale):
            yield f"scale of pattern[{place}] must be a positive number, got {kind.scale!r}"
        heat = kind.temperature
        if heat is not None and not (_positive(heat.strength) and _positive(heat.floor)):
            yield f"temperature of pattern[{place}] must have positive numbers, got {heat!r}"
        experts = kind.experts
        if experts is None:
            continue
        sizes = (experts.count, experts.chosen, experts.d_ff)
        if not all(_whole(size, least=1) for size in sizes) or experts.chosen > experts.count:
            yield (
                f"experts of pattern[{place}] must be a positive count, at most as many chosen, "
                f"and a positive d_ff, got {experts!r}"
            )
    if len(fields["pattern"]) > fields["layers"]:
        yield f"pattern has {len(fields['pattern'])} kinds, the model {fields['layers']} layers"


def _positions(fields: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(fields["positions"], Learned) and fields["context_length"] is None:
        yield "context_length must be a number where positions are learned: one vector for each"
    if isinstance(fields["positions"], Sinusoidal) and fields["d_model"] % 2:
        yield f"d_model must be even for sinusoidal positions, got {fields['d_model']}"


def _encoder(fields: Mapping[str, Any]) -> Iterator[str]:
    encoder, kind = fields["encoder"], fields["kind"]
    if encoder is None:
        return
    if kind != "decoder":
        yield f"encoder: only a decoder reads one, and kind is {kind!r}"
    if encoder.kind != "encoder" or encoder.encoder is not None:
        yield f"encoder must itself be of the kind 'encoder', got {encoder.kind!r}"
    if encoder.predicts or encoder.pooler:
        yield "encoder must have no logits and no pooler of its own: predicts=False, pooler=False"
    for name in ("vocabulary_size", "d_model"):
        if getattr(encoder, name) != fields[name]:
            yield (
                f"encoder shares the token embedding, so its {name} must be {fields[name]}, "
                f"got {getattr(encoder, name)}"
            )


def _parts(fields: Mapping[str, Any]) -> Iterator[str]:
    cross = fields["encoder"] is not None
    if fields["parallel"] and (fields["norm_place"] != "before" or cross):
        yield "parallel layers are pre-norm and without cross-attention"
    if fields["norm"] == "layer" and fields["norm_offset"]:
        yield f"norm_offset is for RMS norms, got {fields['norm_offset']!r} with norm 'layer'"
    if not fields["predicts"]:
        told = ("logits_transform", "logits_bias", "tied_embeddings", "logits_softcap")
        for name in told:
            if fields[name]:
                yield f"{name} is set, and the model makes no logits (predicts is False)"


def _whole(value: object, *, least: int) -> bool:
    return type(value) is int and value >= least


def _too_large(name: str, value: object) -> Iterator[str]:
    """Say so of a number with which positions could not be counted in 64 bits."""
    if type(value) is int and value > _LARGEST:
        yield f"{name} must be at most 2**62, got {value}"


def _positive(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return 0 < value <= sys.float_info.max
