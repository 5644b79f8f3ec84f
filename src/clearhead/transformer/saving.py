"""A model written to a folder: what transformers reads back, whole, and never half of two models.

What differs between the old model of a folder and the new one is never there together: the folder
holds one of them or, if the machine stops while files are renamed, lacks its ``config.json``.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from clearhead.errors import CheckpointError, InputError, UnsupportedError
from clearhead.tokens import TextTokenizer
from clearhead.transformer.cache_folder import SEAL
from clearhead.transformer.families.own import OWN, own_keys
from clearhead.transformer.families.spelling import Spelling, described, means, spelling_of
from clearhead.transformer.model import Transformer
from clearhead.transformer.model_folder import INDEX, WEIGHTS
from clearhead.transformer.progress import megabytes
from clearhead.transformer.released import Released
from clearhead.transformer.replacing import replacing
from clearhead.transformer.shards import (
    Piece,
    commonest_dtype,
    cut,
    pieces_of,
    size_in_bytes,
    write,
)

__all__ = ["Saved", "save"]

_CONFIG = "config.json"
#: Files that belong to a model beside its weights, whoever wrote them.
_BESIDE = """
    generation_config.json tokenizer.json tokenizer_config.json special_tokens_map.json
    added_tokens.json chat_template.jinja chat_template.json vocab.txt vocab.json merges.txt
    tokenizer.model spiece.model sentencepiece.bpe.model
""".split()  # noqa: SIM905, a paragraph reads better than a list


@dataclass(frozen=True, slots=True)
class Saved:
    """What was written.

    Attributes:
        folder: where.
        model_type: whose spelling: a released family's, which transformers reads, or
            ``"clearhead"``, which only clearhead does.
        files: names of the files.
        difference: why no released family can tell this model; None where one did.
    """

    folder: Path
    model_type: str
    files: tuple[str, ...]
    difference: str | None


def save(
    model: Transformer,
    folder: str | os.PathLike[str],
    *,
    spelling: Literal["transformers", "clearhead"] | None = None,
    max_shard_size: int | str = "5GB",
) -> Saved:
    """Write a model to a folder: configuration, weights, and the tokenizer where it has one.

    Args:
        model: the model.
        folder: where to. It is made where it is not there; a model in it is replaced as a whole,
            and other files in it stay.
        spelling: ``"transformers"`` insists on what transformers reads, ``"clearhead"`` on our own,
            which tells every model. None is the configuration that the model was loaded with, else
            that of a released family that has exactly this shape, else our own.
        max_shard_size: the most bytes of one file, as a number or as ``"5GB"``.

    Returns:
        What was written, and in which spelling.

    Raises:
        InputError: an argument is wrong, or the model is not what its configuration says.
        UnsupportedError: no released family can tell this model, and ``"transformers"`` was asked
            for; says what differs in the nearest.
        CheckpointError: the disk refuses; what stood in the folder is as it was.

    Cost:
        The weights' bytes on the disk, once more than at the end where a model is replaced; memory
        for the largest tensor.
    """
    target, limit = Path(folder), size_in_bytes(max_shard_size)
    if target.exists() and not target.is_dir():
        raise InputError(f"folder: expected a folder, and {target} is a file")
    told = _spelled(model, spelling)
    keys = told.keys or own_keys(model.config)
    family = described(keys).family
    pieces = pieces_of(model, family)
    _check_room(pieces, target)
    keys = {name: value for name, value in keys.items() if name != "torch_dtype"}
    keys |= {"dtype": commonest_dtype(pieces)}
    keys.setdefault("architectures", [next(iter(family.architectures))])
    with replacing(target) as files:
        _write_beside(model, files.new)
        beside = sorted(file.name for file in files.new.iterdir())
        _write_json(files.new / _CONFIG, keys)
        weights = write(cut(pieces, limit), files.new, heads=model.config.heads)
        away = _obsolete(target, [*beside, *weights], files.new / _CONFIG)
        files.place(away=away, names=[*beside, *weights, _CONFIG])
    return Saved(target, family.model_type, (_CONFIG, *weights, *beside), told.difference)


def _spelled(model: Transformer, spelling: object) -> Spelling:
    """The keys to write; None for our own."""
    if spelling not in (None, "transformers", "clearhead"):
        raise InputError(
            f"spelling: expected 'transformers', 'clearhead' or None, got {spelling!r}"
        )
    if spelling == "clearhead":
        return Spelling(None, None)
    released = cast("Released | None", vars(model).get("clearhead_released"))
    if released is not None and means(released.keys, model.config):
        is_own = released.keys["model_type"] == OWN.model_type
        if not (is_own and spelling == "transformers"):
            return Spelling(dict(released.keys), None)
    told = spelling_of(model.config)
    if told.keys is None and spelling == "transformers":
        raise UnsupportedError(
            f'spelling="transformers": {told.difference}\nspelling="clearhead" writes what '
            "from_pretrained reads back"
        )
    return told


def _check_room(pieces: list[Piece], target: Path) -> None:
    """Say that there is too little room before anything is written."""
    there = next(place for place in (target, *target.absolute().parents) if place.exists())
    need, room = sum(piece.nbytes for piece in pieces), shutil.disk_usage(there).free
    if need > room:
        raise CheckpointError(
            f"{target} needs {megabytes(need)}, and only {megabytes(room)} are free there"
        )


def _write_beside(model: Transformer, new: Path) -> None:
    """Copy what came with the model; a tokenizer that did not is written out."""
    released = cast("Released | None", vars(model).get("clearhead_released"))
    tokenizer = cast("TextTokenizer | None", vars(model).get("clearhead_tokenizer"))
    came = released is not None and tokenizer is released.tokenizer
    copied = [
        shutil.copyfile(released.folder / name, new / name)
        for name in _BESIDE
        if released is not None
        and (came or name == "generation_config.json")
        and (released.folder / name).is_file()
    ]
    if tokenizer is not None and not any("token" in file.name for file in copied):
        tokenizer.save(new)


def _write_json(file: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")


def _obsolete(target: Path, names: list[str], config: Path) -> list[str]:
    """Old files to take away, the configuration first where old and new must not mix."""
    old = [SEAL, *_old_weights(target)]
    if any("token" in name for name in names):
        old += _BESIDE  # else a tokenizer that stands there may be meant for this model
    old = [name for name in old if name not in names and (target / name).is_file()]
    alike = [target / _CONFIG, target / WEIGHTS["safetensors"]]
    in_one_file = WEIGHTS["safetensors"] in names and all(file.is_file() for file in alike)
    if not old and in_one_file and alike[0].read_bytes() == config.read_bytes():
        return []  # one rename exchanges the weights
    return [_CONFIG, *old]


def _old_weights(target: Path) -> list[str]:
    """Names of the weights' files that stand in the folder."""
    index = target / INDEX["safetensors"]
    names = [WEIGHTS["safetensors"], INDEX["safetensors"]]
    try:
        listed = cast("dict[str, str]", json.loads(index.read_text("utf-8"))["weight_map"]).values()
        shards = [name for name in dict.fromkeys(listed) if name.endswith(".safetensors")]
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        shards = []  # no index, or one that nobody can follow
    return names + [name for name in shards if Path(name).name == name]
