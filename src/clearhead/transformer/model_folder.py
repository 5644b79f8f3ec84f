"""A model folder as Hugging Face lays it out, looked over before anything in it is trusted.

Weights are read from safetensors alone: other forms can run any program when they are read. An
index may only name files that lie in the folder.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, cast

from safetensors import SafetensorError, safe_open

from clearhead.errors import CheckpointError, gathered
from clearhead.transformer.cache_folder import SEAL

__all__ = ["ModelFolder", "read_folder"]

_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_PROGRAMS = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".h5", ".msgpack")
_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """What a model folder holds.

    Args:
        path: the folder.
        config: what its ``config.json`` holds.
        files: its weights' files.
        stored_as: the kinds of fractions in them, such as ``("bfloat16",)``.
        origin: in words, what the weights are, where `clearhead` wrote the folder; else None.
    """

    path: Path
    config: Mapping[str, Any]
    files: tuple[Path, ...]
    stored_as: tuple[str, ...]
    origin: str | None

    @property
    def family(self) -> str:
        """The family's name, as the configuration has it."""
        return str(self.config.get("model_type"))

    @property
    def architecture(self) -> str | None:
        """The name of the class that wrote the folder, or None where it is not told."""
        match self.config.get("architectures"):
            case [str() as name, *_]:
                return name
            case _:
                return None


def read_folder(path: Path) -> ModelFolder:
    """Look a model folder over.

    Args:
        path: the folder.

    Returns:
        What it holds; no weights are read.

    Raises:
        CheckpointError: files that are missing, damaged, of another form, or outside the folder.
    """
    config = _read_object(path / "config.json")
    files = _weight_files(path)
    kinds = [kind for file in files for kind in _kinds(file)]
    _check_layers(path, config, tensors=len(kinds))
    origin = _read_object(path / SEAL).get("origin") if (path / SEAL).is_file() else None
    # Whole numbers among the tensors are tables of places, not weights.
    stored_as = tuple(sorted({_NAMES[kind] for kind in kinds if kind in _NAMES}))
    return ModelFolder(path, config, files, stored_as, None if origin is None else str(origin))


def _weight_files(path: Path) -> tuple[Path, ...]:
    """The files with the weights: one, or those an index names."""
    if (path / _WEIGHTS).is_file():
        return (path / _WEIGHTS,)
    if (path / _INDEX).is_file():
        return _indexed(path)
    others = sorted(file.name for file in path.iterdir() if file.suffix in _PROGRAMS)
    if others:
        raise CheckpointError(
            f"{path} holds its weights only as {', '.join(others)}, which can run any program when "
            f"it is read, and is refused; expected {_WEIGHTS}: where you trust it, load it in "
            "transformers and save it with save_pretrained"
        )
    raise CheckpointError(f"{path} holds no weights: expected {_WEIGHTS} or {_INDEX}")


def _indexed(path: Path) -> tuple[Path, ...]:
    """The files an index names, each of them inside the folder and there."""
    entries = _read_object(path / _INDEX).get("weight_map")
    if not isinstance(entries, dict) or not entries:
        raise CheckpointError(f"{path / _INDEX} cannot be read: expected a 'weight_map' with names")
    faults: list[str] = []
    names = dict.fromkeys(cast("dict[str, object]", entries).values())
    for name in names:
        if not isinstance(name, str) or not _is_inside(name):
            faults.append(f"{name!r} is no name of a file in the folder, and is not followed")
        elif not (path / name).is_file():
            faults.append(f"{name} is missing")
    if faults:
        raise CheckpointError(gathered(f"{path / _INDEX} cannot be followed", faults))
    return tuple(path / str(name) for name in names)


def _is_inside(name: str) -> bool:
    """True for a path that leads nowhere out of the folder, on any system."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    return bool(name) and not (
        posix.is_absolute() or windows.drive or windows.root or ".." in windows.parts
    )


def _check_layers(path: Path, config: Mapping[str, Any], *, tensors: int) -> None:
    """Refuse more layers than there are tensors, before a model of that many is built."""
    for key in ("num_hidden_layers", "n_layer", "num_layers"):
        layers = config.get(key)
        if isinstance(layers, int) and layers > tensors:
            raise CheckpointError(
                f"{path / 'config.json'} says {key} is {layers:,}, and the weights are "
                f"{tensors:,} tensors: that cannot be"
            )


def _kinds(file: Path) -> list[str]:
    """The kind of numbers of each tensor in a safetensors file."""
    try:
        with cast("Any", safe_open)(file, framework="numpy") as opened:
            names = list(opened.keys())
            return [opened.get_slice(name).get_dtype() for name in names]
    except (OSError, SafetensorError) as fault:
        raise CheckpointError(f"{file} cannot be read: {fault}") from fault


def _read_object(file: Path) -> dict[str, Any]:
    """A JSON file's object."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(
            f"{file.parent} holds no {file.name}: expected a model folder, with config.json, "
            f"{_WEIGHTS} and tokenizer.json"
        ) from None
    except (OSError, ValueError, RecursionError) as fault:
        raise CheckpointError(f"{file} cannot be read: {fault}") from fault
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} cannot be read: expected a JSON object")
    return cast("dict[str, Any]", value)
