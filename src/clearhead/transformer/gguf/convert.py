"""A GGUF file as a Hugging Face folder with float32 weights.

GGUF keeps weights in a few bits each. They are widened to float32 here, which changes none of the
numbers the file stands for, so that every later start maps them straight into memory.
"""

import json
import math
import shutil
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from gguf import dequantize
from numpy.typing import NDArray

from clearhead.errors import CheckpointError, gathered
from clearhead.transformer.cache_folder import seal
from clearhead.transformer.families.spelling import described
from clearhead.transformer.gguf.architecture import Place
from clearhead.transformer.gguf.header import GgufHeader, GgufTensor, read_header
from clearhead.transformer.gguf.known import architecture_of
from clearhead.transformer.gguf.tokenizer import read_tokenizer
from clearhead.transformer.progress import megabytes
from clearhead.transformer.safetensors_file import write_file

__all__ = ["write_folder"]


def write_folder(file: Path, folder: Path, *, sha256: str) -> int:
    """Write a GGUF file out as a Hugging Face folder.

    Args:
        file: the GGUF file.
        folder: an empty folder.
        sha256: of the file's content, to be written down.

    Returns:
        The bytes of the folder's files.

    Raises:
        CheckpointError: another architecture; tensors that are missing, unexpected, of a wrong
            shape or not finite; settings or a tokenizer that cannot be read; too little room.

    Cost:
        Memory for the largest tensor in float32.
    """
    header = read_header(file)
    architecture = architecture_of(header)
    config = architecture.read(header)
    places = architecture.places(config, header)
    _check_tensors(header, places, architecture.settings_as_tensors)
    tokenizer = read_tokenizer(header)
    ids = {} if tokenizer is None else {f"{n}_id": i for n, i in tokenizer.special_ids.items()}
    ids.pop("unk_token_id", None)  # a model's configuration does not name it
    if tokenizer is not None:
        _check_vocabulary(header, config, tokenizer.tokenizer.get_vocab_size())
    _write_weights(header, places, folder / "model.safetensors")
    contents = {"config.json": config | ids, "generation_config.json": ids}
    if tokenizer is not None:
        tokenizer.tokenizer.save(str(folder / "tokenizer.json"))
        longest = {"model_max_length": described(config).config.context_length}
        contents["tokenizer_config.json"] = longest | tokenizer.config
    for name, content in contents.items():
        (folder / name).write_text(
            json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8"
        )
    return seal(folder, {"origin": _origin(header), "sha256": sha256, "source": file.name})


def _check_tensors(
    header: GgufHeader, places: Mapping[str, Place], settings: Collection[str]
) -> None:
    """Every tensor is used, none is missing, and each has the shape the settings give it."""
    faults = [
        f"missing {name} {place.in_file}"
        for name, place in places.items()
        if name not in header.tensors
    ]
    for name, tensor in header.tensors.items():
        if name in settings:
            continue
        if name not in places:
            faults.append(f"unexpected {name} {tensor.shape}")
        elif tensor.shape != places[name].in_file:
            faults.append(f"{name} has the shape {tensor.shape}, expected {places[name].in_file}")
    if faults:
        raise CheckpointError(gathered(f"{header.file} cannot be read", faults))


def _check_vocabulary(header: GgufHeader, config: Mapping[str, Any], tokens: int) -> None:
    if tokens > config["vocab_size"]:
        raise CheckpointError(
            f"{header.file} cannot be read: the tokenizer has {tokens} tokens, but the embedding "
            f"has {config['vocab_size']} rows"
        )


def _write_weights(header: GgufHeader, places: Mapping[str, Place], target: Path) -> None:
    """Write the tensors one by one, so that no more than one is in memory."""
    table = {place.name: ("F32", place.shape) for place in places.values()}
    need = sum(4 * math.prod(place.shape) for place in places.values())
    room = shutil.disk_usage(target.parent).free
    if need > room:
        raise CheckpointError(
            f"{header.file} needs {megabytes(need)} in {target.parent.parent} as float32, "
            f"and only {megabytes(room)} are free there"
        )
    weights = _weights(header, places)
    write_file(target, table, (np.ascontiguousarray(one, "<f4").data for one in weights))


def _weights(header: GgufHeader, places: Mapping[str, Place]) -> Iterator[NDArray[np.float32]]:
    """The tensors in the order of their places, as float32."""
    # As a plain array: slices of a memmap carry its attributes along, which takes longer than they.
    data = np.memmap(header.file, mode="r", dtype=np.uint8).view(np.ndarray)
    for name, place in places.items():
        weights = _widened(header, header.tensors[name], data).reshape(place.in_file)
        if not np.isfinite(weights).all():
            raise CheckpointError(f"{header.file} cannot be read: {name} holds NaN or infinity")
        yield place.restored(weights)


def _widened(
    header: GgufHeader, tensor: GgufTensor, data: NDArray[np.uint8]
) -> NDArray[np.float32]:
    """A tensor's numbers, as the file's kind of storage stands for them."""
    stored = data[tensor.start : tensor.start + tensor.size].reshape(*tensor.shape[:-1], -1)
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused by name
            return cast("NDArray[np.float32]", dequantize(stored, tensor.kind))
    # the package raises one for a kind it cannot widen, the other for bytes that are no such kind
    except (NotImplementedError, ValueError) as fault:
        raise CheckpointError(
            f"{header.file} cannot be read: {tensor.name} is stored as {tensor.kind.name}, "
            "which cannot be widened"
        ) from fault


def _origin(header: GgufHeader) -> str:
    """In words, what the weights are: the file's name, its commonest kind, and what was done."""
    numbers: Counter[str] = Counter()
    for tensor in header.tensors.values():
        numbers[tensor.kind.name] += math.prod(tensor.shape)
    kind = numbers.most_common(1)[0][0]
    name = header.file.stem.removesuffix(f".{kind}").removesuffix(f"-{kind}")
    if set(numbers) == {"F32"}:
        return f"{name} float32, as stored"
    plain = set(numbers) <= {"F32", "F16", "BF16"}
    return f"{name} {kind}, {'widened' if plain else 'dequantised'} to float32"
