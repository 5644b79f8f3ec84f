"""A model folder as Hugging Face lays it out, looked over before anything in it is trusted.

Weights are read from safetensors, or from pickles where somebody asks for them. An index may only
name files that lie in the folder, and no file may ask for more than there is.
"""

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal, cast

from clearhead.errors import CheckpointError, InputError, gathered
from clearhead.transformer.cache_folder import SEAL
from clearhead.transformer.replacing import cut_off
from clearhead.transformer.safetensors_file import BITS, Outline, read_header, unique_pairs

__all__ = ["INDEX", "WEIGHTS", "Form", "ModelFolder", "lacking", "read_folder"]

#: How weights are stored.
Form = Literal["safetensors", "pickle"]

#: What a folder's weights are called where they are one file.
WEIGHTS: Mapping[Form, str] = {"safetensors": "model.safetensors", "pickle": "pytorch_model.bin"}
#: What the list of its files is called where they are several.
INDEX: Mapping[Form, str] = {form: f"{name}.index.json" for form, name in WEIGHTS.items()}
_PROGRAMS = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".h5", ".msgpack")
_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_WIDTHS = {name: BITS[kind] // 8 for kind, name in _NAMES.items()}
# Keys that say how many layers there are, in any family.
_LAYERS = """
    num_hidden_layers n_layer n_layers num_layers num_decoder_layers encoder_layers decoder_layers
""".split()  # noqa: SIM905, a paragraph reads better than a list
# The longest, an index of a model with a hundred thousand tensors, is a tenth of this.
_LONGEST_JSON = 100_000_000
_DEEPEST = 32


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """What a model folder holds.

    Args:
        path: the folder.
        config: what its ``config.json`` holds.
        files: its weights' files.
        stored_as: the kinds of fractions in them, such as ``("bfloat16",)``.
        origin: in words, what the weights are, where `clearhead` wrote the folder; else None.
        form: how they are stored.
        tensors: what each tensor in them is, by name.
    """

    path: Path
    config: Mapping[str, Any]
    files: tuple[Path, ...]
    stored_as: tuple[str, ...]
    origin: str | None
    form: Form = "safetensors"
    tensors: Mapping[str, Outline] = field(default_factory=dict[str, Outline])

    def bytes_as(self, dtype: str, *, apart_from: Collection[str] = ()) -> int:
        """Bytes of the weights in memory: fractions in a dtype, all others as they are stored.

        Args:
            dtype: its name, such as ``"float32"``.
            apart_from: tensors that are not counted.
        """
        return sum(
            _WIDTHS[dtype] * math.prod(one.shape) if one.kind in _NAMES else one.end - one.start
            for name, one in self.tensors.items()
            if name not in apart_from
        )

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


def read_folder(path: Path, *, weights: Form = "safetensors") -> ModelFolder:
    """Look a model folder over.

    Args:
        path: the folder.
        weights: ``"safetensors"``, or ``"pickle"`` for the ``pytorch_model.bin`` of a folder that
            has nothing better. It is read with PyTorch's ``weights_only``, and refused where it
            holds anything but tensors.

    Returns:
        What it holds; no weights are read.

    Raises:
        InputError: no such form of weights.
        CheckpointError: files that are missing, damaged, of another form, or outside the folder.

    Cost:
        Time and memory linear in the configuration and the headers.
    """
    if weights not in WEIGHTS:
        listed = " or ".join(map(repr, WEIGHTS))
        raise InputError(f"weights: expected {listed}, got {weights!r}")
    config = _read_object(path / "config.json")
    files = _weight_files(path, weights)
    outlines = [_outlines(file, weights) for file in files]
    _check_layers(path, config, tensors=sum(map(len, outlines)))
    tensors = {name: one for held in outlines for name, one in held.items()}
    kinds = {one.kind for one in tensors.values()}
    origin = _read_object(path / SEAL).get("origin") if (path / SEAL).is_file() else None
    # Whole numbers among the tensors are tables of places, not weights.
    stored_as = tuple(sorted({_NAMES[kind] for kind in kinds if kind in _NAMES}))
    return ModelFolder(
        path, config, files, stored_as, None if origin is None else str(origin), weights, tensors
    )


def lacking(path: Path, what: str, *, expected: str | None = None) -> CheckpointError:
    """The error of a folder that lacks something, and why where that is known.

    Args:
        path: the folder.
        what: what it has not.
        expected: what should be there; None is what belongs into a model folder.
    """
    left = cut_off(path)
    if left is not None:
        return CheckpointError(
            f"{path} holds no {what}: a save into it was cut off, or is still running, and left "
            f"{left}; save the model again, which removes that"
        )
    whole = f"a model folder, with config.json, {WEIGHTS['safetensors']} and tokenizer.json"
    return CheckpointError(f"{path} holds no {what}: expected {expected or whole}")


def _weight_files(path: Path, form: Form) -> tuple[Path, ...]:
    """The files with the weights: one, or those an index names."""
    whole, index = WEIGHTS[form], INDEX[form]
    if (path / whole).is_file():
        return (path / whole,)
    if (path / index).is_file():
        return _indexed(path, index)
    others = sorted(file.name for file in path.iterdir() if file.suffix in _PROGRAMS)
    if others and form == "safetensors":
        raise CheckpointError(
            f"{path} holds its weights only as {', '.join(others)}, which can run any program when "
            f"it is read, and is refused; expected {whole}: where you trust it, give "
            'weights="pickle", which reads tensors alone'
        )
    raise lacking(path, "weights", expected=f"{whole} or {index}")


def _indexed(path: Path, index: str) -> tuple[Path, ...]:
    """The files an index names, each of them inside the folder and there."""
    entries = _read_object(path / index).get("weight_map")
    if not isinstance(entries, dict) or not entries:
        raise CheckpointError(f"{path / index} cannot be read: expected a 'weight_map' with names")
    names = list(cast("dict[str, object]", entries).values())
    faults = [fault for name in names for fault in _unfollowed(path, name)]
    if faults:
        raise CheckpointError(
            gathered(f"{path / index} cannot be followed", list(dict.fromkeys(faults)))
        )
    return tuple(path / name for name in dict.fromkeys(cast("list[str]", names)))


def _unfollowed(path: Path, name: object) -> list[str]:
    """Why an entry of an index is not followed, or nothing."""
    if not isinstance(name, str) or not _is_inside(name):
        return [f"{name!r:.200} is no name of a file in the folder, and is not followed"]
    try:
        return [] if (path / name).is_file() else [f"{name} is missing"]
    except OSError as fault:  # a name that no system can hold
        return [f"{name!r:.200} is no name of a file in the folder: {fault.strerror}"]


def _is_inside(name: str) -> bool:
    """True for a path that leads nowhere out of the folder, on any system."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    return (
        bool(name)
        and "\0" not in name
        and not (posix.is_absolute() or windows.drive or windows.root or ".." in windows.parts)
    )


def _check_layers(path: Path, config: Mapping[str, Any], *, tensors: int) -> None:
    """Refuse more layers than there are tensors, before a model of that many is built."""
    for key in _LAYERS:
        layers = config.get(key)
        if isinstance(layers, int) and layers > tensors:
            raise CheckpointError(
                f"{path / 'config.json'} says {key} is {layers:,}, and the weights are "
                f"{tensors:,} tensors: that cannot be"
            )


def _outlines(file: Path, form: Form) -> Mapping[str, Outline]:
    """What each tensor in a file is."""
    if form == "safetensors":
        return read_header(file)
    # It takes PyTorch, whose import takes seconds, which the other form does without.
    from clearhead.transformer.weight_files import opened

    with opened([file]) as (found,):
        return found.outlines


def _read_object(file: Path) -> dict[str, Any]:
    """A JSON file's object."""
    try:
        if file.exists() and not file.is_file():
            raise CheckpointError(f"{file} cannot be read: it is no file")
        if file.stat().st_size > _LONGEST_JSON:
            raise CheckpointError(
                f"{file} cannot be read: it has {file.stat().st_size:,} bytes, "
                f"at most {_LONGEST_JSON:,} are readable"
            )
        value = json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=unique_pairs)
    except FileNotFoundError:
        raise lacking(file.parent, file.name) from None
    except (OSError, ValueError, RecursionError) as fault:
        raise CheckpointError(f"{file} cannot be read: {fault}") from fault
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} cannot be read: expected a JSON object")
    if _is_deeper(cast("object", value), _DEEPEST):
        raise CheckpointError(f"{file} cannot be read: it is nested more than {_DEEPEST} deep")
    return cast("dict[str, Any]", value)


def _is_deeper(value: object, depth: int) -> bool:
    """Whether lists and objects stand within each other more often than so many times."""
    level = [value]
    for _ in range(depth):
        level = [
            inner
            for one in level
            if isinstance(one, list | dict)
            for inner in cast("list[object]", list(one.values()) if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return any(isinstance(one, list | dict) for one in level)
