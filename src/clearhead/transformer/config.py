"""What a Transformer is made of, as plain numbers; imports no torch.

A :class:`TransformerConfig` fixes every shape in a model. It is made by hand, or read from the
``config.json`` of a released model with :func:`from_hugging_face`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clearhead.errors import CheckpointError, InputError, gathered
from clearhead.positions.scaling import Llama3Scaling, RotaryScaling
from clearhead.transformer.families.family import Family
from clearhead.transformer.families.keys import HARMLESS, OFF, ConfigKeys
from clearhead.transformer.families.llama import LLAMA

__all__ = ["FAMILIES", "TransformerConfig", "from_hugging_face", "readable_families"]

#: Every family this Transformer reads, by its ``model_type``.
FAMILIES: Mapping[str, Family] = {family.model_type: family for family in (LLAMA,)}

_SIZES = ("vocabulary_size", "context_length", "d_model", "d_ff", "layers")
_HEAD_SIZES = ("heads", "kv_heads", "d_k", "d_v")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Every size and choice of a decoder: pre-norm, rotary positions, gated feed-forward.

    Attributes:
        vocabulary_size: number of different tokens.
        context_length: number of positions the model is made for.
        d_model: width of the residual stream.
        d_ff: width inside the feed-forward part.
        layers: number of layers, each an attention and a feed-forward part.
        heads: number of query heads.
        kv_heads: number of key and value heads; each serves heads / kv_heads query heads.
        d_k: width of a query and of a key; even, for rotary positions turn pairs.
        d_v: width of a value.
        norm_epsilon: what a norm adds under its root.
        rotary_theta: base of the rotary frequencies.
        rotary_scaling: how they are stretched to longer texts; None is not at all.
        attention_bias: whether W_Q, W_K, W_V and W_O have biases.
        feed_forward_bias: whether the feed-forward's linear layers have.
        tied_embeddings: whether the logits are products with the token embedding itself.

    Raises:
        InputError: the numbers make no Transformer; all faults at once.
    """

    vocabulary_size: int
    context_length: int
    d_model: int
    d_ff: int
    layers: int
    heads: int
    kv_heads: int
    d_k: int
    d_v: int
    norm_epsilon: float = 1e-6
    rotary_theta: float = 10_000.0
    rotary_scaling: RotaryScaling | None = None
    attention_bias: bool = False
    feed_forward_bias: bool = False
    tied_embeddings: bool = False

    def __post_init__(self) -> None:
        faults = _faults(vars(self))
        if faults:
            raise InputError(gathered("these numbers make no Transformer", faults))


def readable_families() -> tuple[str, ...]:
    """Name, as ``model_type`` has it, every family whose checkpoints this Transformer reads."""
    return tuple(FAMILIES)


def from_hugging_face(keys: Mapping[str, object]) -> TransformerConfig:
    """Read a released model's ``config.json``.

    Every key is used, known to be harmless, or refused by name.

    Args:
        keys: the file's content.

    Returns:
        The configuration.

    Raises:
        CheckpointError: the family is not readable, a key is missing, faulty or unknown, or the
            numbers make no Transformer; all faults at once.
    """
    family = FAMILIES.get(str(keys.get("model_type")))
    if family is None:
        raise CheckpointError(
            f"model_type is {keys.get('model_type')!r}, this Transformer reads "
            f'{", ".join(FAMILIES)}; engine="transformers" may load the model'
        )
    reader = ConfigKeys(keys)
    fields = family.fields(reader)
    # A faulty key was read as 1, so combinations can be judged only where there is none.
    combined = [] if reader.faults else _faults(fields)
    for name, off in OFF.items():
        reader.only(name, off)
    faults = combined + reader.finish(harmless=HARMLESS | family.harmless)
    if faults:
        raise CheckpointError(gathered(f"the config of this {family.model_type} model", faults))
    return TransformerConfig(**fields)


def _faults(fields: Mapping[str, Any]) -> list[str]:
    """Say what is wrong with a set of fields, one line a fault."""
    faults = [
        f"{name} must be a positive whole number, got {fields[name]!r}"
        for name in (*_SIZES, *_HEAD_SIZES)
        if type(fields[name]) is not int or fields[name] < 1
    ]
    faults += [
        f"{name} must be a positive finite number, got {fields[name]!r}"
        for name in ("norm_epsilon", "rotary_theta")
        if not 0 < fields[name] < math.inf
    ]
    return faults or _combinations(fields)


def _combinations(fields: Mapping[str, Any]) -> list[str]:
    faults: list[str] = []
    heads, kv_heads, d_k = fields["heads"], fields["kv_heads"], fields["d_k"]
    if heads % kv_heads:
        faults.append(f"heads ({heads}) must be a multiple of kv_heads ({kv_heads})")
    if d_k % 2:
        faults.append(f"d_k must be even for rotary positions, got {d_k}")
    scaling = fields["rotary_scaling"]
    if isinstance(scaling, Llama3Scaling):
        low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
        if not low < high:
            faults.append(
                f"low_frequency_factor ({low}) must be below high_frequency_factor ({high})"
            )
    if scaling is not None and not 0 < scaling.factor < math.inf:
        faults.append(f"rotary_scaling must have a positive factor, got {scaling.factor}")
    return faults
