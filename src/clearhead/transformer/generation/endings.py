"""Where a model's texts begin and end, by what was given with it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from torch import nn

from clearhead.errors import CheckpointError, gathered
from clearhead.tokens.tokenizer import TextTokenizer

__all__ = ["Endings", "endings_of"]

_END, _STARTS = "eos_token_id", ("decoder_start_token_id", "forced_bos_token_id")


@dataclass(frozen=True)
class Endings:
    """Which tokens a model's texts begin and end with.

    Attributes:
        end: a text ends with any of these; empty is none.
        start: what the decoder of a model with an encoder begins with; empty where nothing says.
    """

    end: tuple[int, ...] = ()
    start: tuple[int, ...] = ()


def endings_of(model: nn.Module, words: TextTokenizer | None) -> Endings:
    """Read them from a model's files.

    ``generation_config.json`` goes before ``config.json``, and that before the tokenizer; the first
    that names an end token names them all. An id beyond the vocabulary is none that a model can
    choose, and stays without effect, as in transformers; a small model of a large family has such.

    Args:
        model: a model, which may have come from a folder.
        words: its tokenizer, or None.

    Raises:
        CheckpointError: a file cannot be read, or names what is no id; all of its faults at once.
    """
    released = vars(model).get("clearhead_released")
    places: list[Mapping[str, tuple[int, ...]]] = []
    if released is not None:
        file = released.folder / "generation_config.json"
        places = [_named(_read(file), file), _named(released.keys, released.folder / "config.json")]
    ends = [place[_END] for place in places]
    own = None if words is None else words.special_id("eos_token")
    ends.append(() if own is None else (own,))
    return Endings(end=next(filter(None, ends), ()), start=_start(places))


def _start(places: Sequence[Mapping[str, tuple[int, ...]]]) -> tuple[int, ...]:
    """The decoder's first token, and the second where that is always the same one."""
    first, second = (next(filter(None, (place[key] for place in places)), ()) for key in _STARTS)
    return first + second if first else ()


def _named(keys: Mapping[str, Any], file: Path) -> dict[str, tuple[int, ...]]:
    """The ids under each key that names some."""
    ids = {key: _ids(keys.get(key)) for key in (_END, *_STARTS)}
    faults = [
        f"{key} must be the id of a token, or a list of them, got {keys[key]!r:.80}"
        for key, found in ids.items()
        if found is None
    ]
    if faults:
        raise CheckpointError(gathered(f"{file} cannot be read", faults))
    return {key: found or () for key, found in ids.items()}


def _ids(value: object) -> tuple[int, ...] | None:
    """Ids, of which a file names one, several or none; None for what are no ids."""
    if value is None:
        return ()
    listed = cast("list[int]", value) if isinstance(value, list) else [cast("int", value)]
    # a token's id is a number of 63 bits, as every tensor of ids has
    return tuple(listed) if all(type(id_) is int and 0 <= id_ < 2**63 for id_ in listed) else None


def _read(file: Path) -> dict[str, Any]:
    """A JSON file's object; an absent file is an empty one."""
    if not file.is_file():
        return {}
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as fault:
        raise CheckpointError(f"{file} cannot be read: {fault}") from fault
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} cannot be read: expected a JSON object")
    return cast("dict[str, Any]", value)
