"""A model written to a folder: what transformers reads back, whole, and never half of two models.

What differs between the old model of a folder and the new one is never there together: the folder
holds one of them or, if the process is killed while files are renamed, lacks its ``config.json``;
loading such a folder says so, and the next save into it removes what is left.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeGuard, cast

from clearhead.errors import CheckpointError, InputError, UnsupportedError
from clearhead.tokens import TextTokenizer
from clearhead.transformer.cache_folder import SEAL
from clearhead.transformer.families.own import OWN, own_keys
from clearhead.transformer.families.spelling import Spelling, described, means, spelling_of
from clearhead.transformer.model import Transformer
from clearhead.transformer.model_folder import INDEX, WEIGHTS
from clearhead.transformer.progress import megabytes
from clearhead.transformer.released import Released
from clearhead.transformer.replacing import refused, replacing
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
    target, limit = _folder(folder), size_in_bytes(max_shard_size)
    told = _spelled(model, spelling)
    keys = told.keys or own_keys(model.config)
    family = described(keys).family
    pieces = pieces_of(model, family)
    keys = {name: value for name, value in keys.items() if name != "torch_dtype"}
    keys |= {"dtype": commonest_dtype(pieces)}
    keys.setdefault("architectures", [next(iter(family.architectures))])
    with replacing(target) as files:
        _check_room(pieces, target)  # what a save that was cut off had taken is free by now
        _write_beside(model, files.new)
        beside = sorted(file.name for file in files.new.iterdir())
        _write_json(files.new / _CONFIG, keys)
        weights = write(cut(pieces, limit), files.new, heads=model.config.heads)
        away = _obsolete(target, [*beside, *weights], files.new / _CONFIG)
        files.place(away=away, names=[*beside, *weights, _CONFIG])
    return Saved(target, family.model_type, (_CONFIG, *weights, *beside), told.difference)


def _folder(given: object) -> Path:
    """The folder that is meant, refused where there can be none of that name."""
    name = os.fspath(cast("str", given)) if isinstance(given, str | os.PathLike) else None
    if not _can_be_a_name(name):
        hint = "; '.' is the one you are in" if name == "" else ""
        raise InputError(f"folder: expected the path of a folder, got {given!r}{hint}")
    target = Path(name)
    try:
        if target.exists() and not target.is_dir():
            raise InputError(f"folder: expected a folder, and {target} is a file")
    except OSError as fault:
        raise refused(target, fault) from fault
    return target


def _can_be_a_name(name: object) -> TypeGuard[str]:
    """Whether a file system can hold a name, however long it is."""
    try:
        return isinstance(name, str) and bool(name) and b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


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
    need, room = sum(piece.nbytes for piece in pieces), shutil.disk_usage(target).free
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
    in_one_file = WEIGHTS["safetensors"] in names and (target / WEIGHTS["safetensors"]).is_file()
    alike = [_CONFIG, *(name for name in names if not name.endswith(".safetensors"))]
    if (
        not old
        and in_one_file
        and all(_same(target / name, config.parent / name) for name in alike)
    ):
        return []  # one rename exchanges the weights
    return [_CONFIG, *old]


def _same(one: Path, other: Path) -> bool:
    return one.is_file() and one.read_bytes() == other.read_bytes()


def _old_weights(target: Path) -> list[str]:
    """Names of the weights' files that stand in the folder; that which others are found by last."""
    index = target / INDEX["safetensors"]
    try:
        listed = cast("dict[str, str]", json.loads(index.read_text("utf-8"))["weight_map"]).values()
        shards = [name for name in dict.fromkeys(listed) if name.endswith(".safetensors")]
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        shards = []  # no index, or one that nobody can follow
    shards = [name for name in shards if Path(name).name == name]
    return [WEIGHTS["safetensors"], *shards, INDEX["safetensors"]]
