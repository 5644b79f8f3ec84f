"""Where a model's texts begin and end, by what was given with it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from torch import nn

from clearhead.errors import CheckpointError
from clearhead.tokens.tokenizer import TextTokenizer

__all__ = ["Endings", "endings_of"]


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
    that names an end token names them all.

    Args:
        model: a model, which may have come from a folder.
        words: its tokenizer, or None.

    Raises:
        CheckpointError: the file cannot be read.
    """
    released = vars(model).get("clearhead_released")
    places: list[Mapping[str, Any]] = []
    if released is not None:
        places = [_read(released.folder / "generation_config.json"), released.keys]
    ends = [_ids(place.get("eos_token_id")) for place in places]
    own = None if words is None else words.special_id("eos_token")
    ends.append(() if own is None else (own,))
    return Endings(end=next(filter(None, ends), ()), start=_start(places))


def _start(places: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    """The decoder's first token, and the second where that is always the same one."""
    keys = ("decoder_start_token_id", "forced_bos_token_id")
    first, second = (
        next(filter(None, (_ids(place.get(key)) for place in places)), ()) for key in keys
    )
    return first + second if first else ()


def _ids(value: object) -> tuple[int, ...]:
    """Ids, of which a file names one, several or none."""
    listed = cast("list[object]", value) if isinstance(value, list) else [value]
    return tuple(
        entry for entry in listed if isinstance(entry, int) and not isinstance(entry, bool)
    )


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
