"""Every family this Transformer reads, and how a ``config.json`` becomes a configuration."""

from collections.abc import Mapping
from typing import Any, cast

from clearhead.errors import CheckpointError, InputError, gathered
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.families.bart import BART
from clearhead.transformer.families.bert import BERT, DISTILBERT, ROBERTA
from clearhead.transformer.families.family import Family
from clearhead.transformer.families.gemma import GEMMA2, GEMMA3
from clearhead.transformer.families.gpt import GPT2, GPT_NEOX
from clearhead.transformer.families.keys import HARMLESS, OFF, ConfigKeys, NonsenseError
from clearhead.transformer.families.llama import LLAMA, MISTRAL, QWEN2, QWEN3
from clearhead.transformer.families.llama4 import LLAMA4
from clearhead.transformer.families.phi3 import PHI3
from clearhead.transformer.families.t5 import T5

__all__ = ["FAMILIES", "family_of", "from_hugging_face"]

#: Every family this Transformer reads, by its ``model_type``.
FAMILIES: Mapping[str, Family] = {
    family.model_type: family
    for family in (
        LLAMA,
        MISTRAL,
        QWEN2,
        QWEN3,
        PHI3,
        GEMMA2,
        GEMMA3,
        LLAMA4,
        GPT2,
        GPT_NEOX,
        BERT,
        ROBERTA,
        DISTILBERT,
        T5,
        BART,
    )
}


def family_of(keys: Mapping[str, object]) -> Family:
    """Find the family of a released model.

    Args:
        keys: its ``config.json``.

    Raises:
        CheckpointError: this Transformer does not read it, or not this class of it.
    """
    family = FAMILIES.get(str(keys.get("model_type")))
    if family is None:
        raise CheckpointError(
            f"model_type is {keys.get('model_type')!r}, this Transformer reads "
            f'{", ".join(FAMILIES)}; engine="transformers" may load the model'
        )
    name = _architecture(keys)
    if name is not None and name not in family.architectures:
        raise CheckpointError(
            f"this is {name}, and of {family.model_type} this Transformer reads "
            f'{", ".join(family.architectures)}; engine="transformers" may load the model'
        )
    return family


def from_hugging_face(keys: Mapping[str, object]) -> TransformerConfig:
    """Read a released model's ``config.json``.

    Every key is used, known to be harmless, or refused by name.

    Args:
        keys: the file's content.

    Returns:
        The configuration.

    Raises:
        CheckpointError: the family is not readable, a key is missing, faulty or unknown, or the
            numbers make no Transformer; all faults at once. A `NonsenseError` where one of them
            means nothing to any reader.
    """
    family = family_of(keys)
    reader = ConfigKeys(keys)
    name = _architecture(keys) or next(iter(family.architectures))
    fixed: Mapping[str, Any] = family.architectures[name]
    try:
        fields = family.fields(reader)
        for setting, off in OFF.items():
            reader.only(setting, off)
        faults = reader.finish(harmless=HARMLESS | family.harmless)
        if not faults:
            return TransformerConfig(**{**fields, **fixed})
    except InputError as fault:
        # A faulty key was read as 1, so combinations can be judged only where there is none.
        faults = reader.faults or [" ".join(str(fault).split())]
    kind = NonsenseError if reader.nonsense else CheckpointError
    raise kind(gathered(f"the config of this {family.model_type} model", faults))


def _architecture(keys: Mapping[str, object]) -> str | None:
    named = keys.get("architectures")
    listed = cast("list[object]", named) if isinstance(named, list) else []
    return str(listed[0]) if listed else None
