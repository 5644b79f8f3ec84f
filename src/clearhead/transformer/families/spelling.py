"""Which spelling a configuration has: a released family's, where one says exactly this; or ours."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from clearhead.errors import CheckpointError, InputError, gathered
from clearhead.transformer.config import LayerKind, TransformerConfig
from clearhead.transformer.families.family import Family
from clearhead.transformer.families.keys import HARMLESS, ConfigKeys
from clearhead.transformer.families.known import FAMILIES, family_of, from_hugging_face
from clearhead.transformer.families.own import OWN
from clearhead.transformer.families.reading import shortest
from clearhead.transformer.families.writing import WRITERS

__all__ = ["Described", "Spelling", "described", "means", "spelling_of"]


@dataclass(frozen=True, slots=True)
class Described:
    """What a ``config.json`` describes.

    Attributes:
        family: whose names its tensors have.
        config: the model.
    """

    family: Family
    config: TransformerConfig


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a released family tells a configuration, or why none does.

    Attributes:
        keys: a ``config.json`` that means exactly this; None where no family has one.
        difference: what differs in the nearest family; None where one fits.
    """

    keys: dict[str, Any] | None
    difference: str | None


def described(keys: Mapping[str, object]) -> Described:
    """Read a ``config.json``, in a released family's spelling or in ours.

    Args:
        keys: the file's content.

    Returns:
        Its family and its configuration.

    Raises:
        CheckpointError: neither can be told; all faults at once.
    """
    if keys.get("model_type") != OWN.model_type:
        return Described(family_of(keys), from_hugging_face(keys))
    reader = ConfigKeys(keys)
    read = OWN.fields(reader)
    faults = reader.finish(harmless=HARMLESS)
    try:
        if not faults:
            return Described(OWN, TransformerConfig(**read))
    except InputError as fault:
        faults = [" ".join(str(fault).split())]
    raise CheckpointError(gathered("the config of this clearhead model", faults))


def means(keys: Mapping[str, object], config: TransformerConfig) -> bool:
    """Whether a ``config.json`` describes a model.

    Args:
        keys: the file's content.
        config: the model.
    """
    try:
        return _plain(described(keys).config) == _plain(config)
    except CheckpointError:
        return False


def spelling_of(config: TransformerConfig) -> Spelling:
    """Find the released family that can tell a configuration exactly.

    Args:
        config: the configuration.

    Returns:
        Its keys in the first family that fits; else what differs in the nearest.
    """
    nearest: tuple[str, list[str]] | None = None
    for family, write in ((FAMILIES[name], write) for name, write in WRITERS.items()):
        for keys in _keys(family, write(config)):
            differing = _differing(keys, config)
            if differing == []:
                return Spelling(keys, None)
            name = f"{family.model_type} ({keys['architectures'][0]})"
            if differing and (nearest is None or len(differing) < len(nearest[1])):
                nearest = name, differing
    if nearest is None:
        return Spelling(None, "no released family has this shape")
    summary = f"no released family has this shape; the nearest, {nearest[0]}, differs in"
    return Spelling(None, gathered(summary, nearest[1]))


def _keys(family: Family, told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The keys with each class of the family, where its writer had anything to tell."""
    for name in family.architectures if told else ():
        yield {"model_type": family.model_type, "architectures": [name], **told}


def _differing(keys: dict[str, Any], config: TransformerConfig) -> list[str] | None:
    """What keys say otherwise than a configuration, a line a field; None where they say nothing."""
    try:
        theirs = _plain(from_hugging_face(keys))
    except CheckpointError:
        return None
    return list(_unequal(_plain(config), theirs))


def _unequal(ours: TransformerConfig, theirs: TransformerConfig) -> Iterator[str]:
    for one in fields(TransformerConfig):
        here, there = getattr(ours, one.name), getattr(theirs, one.name)
        if isinstance(here, TransformerConfig) and isinstance(there, TransformerConfig):
            yield from (f"encoder.{line}" for line in _unequal(here, there))
        elif here != there:
            yield f"{one.name}: {here!r:.100} here, {there!r:.100} there"


def _plain(config: TransformerConfig) -> TransformerConfig:
    """A configuration with the shortest pattern that says the same."""
    kinds = [_kind(config, layer) for layer in range(config.layers)]
    encoder = None if config.encoder is None else _plain(config.encoder)
    return replace(config, pattern=shortest(kinds), encoder=encoder)


def _kind(config: TransformerConfig, layer: int) -> LayerKind:
    kind = config.layer_kind(layer)
    return replace(kind, rotary="model") if kind.rotary == config.positions else kind
