"""A GGUF file as a Hugging Face folder with float32 weights.

GGUF keeps weights in a few bits each. They are widened to float32 here, which changes none of the
numbers the file stands for, so that every later start maps them straight into memory.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from gguf import dequantize
from numpy.typing import NDArray

from clearhead.errors import CheckpointError, gathered
from clearhead.transformer.cache_folder import seal
from clearhead.transformer.gguf.header import GgufHeader, GgufTensor, read_header
from clearhead.transformer.gguf.llama import ARCHITECTURE, Place, llama_config, llama_places
from clearhead.transformer.gguf.tokenizer import read_tokenizer
from clearhead.transformer.progress import megabytes

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
    architecture = header.settings.get("general.architecture")
    if architecture != ARCHITECTURE:
        raise CheckpointError(
            f"{file} cannot be read: it holds a model of the architecture {architecture!r}; "
            f"readable is {ARCHITECTURE!r}"
        )
    config = llama_config(header)
    places = llama_places(config)
    _check_tensors(header, places)
    tokenizer = read_tokenizer(header)
    ids = {f"{name}_id": token_id for name, token_id in tokenizer.special_ids.items()}
    ids.pop("unk_token_id", None)  # a model's configuration does not name it
    _check_vocabulary(header, config, tokenizer.tokenizer.get_vocab_size())
    _write_weights(header, places, folder / "model.safetensors")
    tokenizer.tokenizer.save(str(folder / "tokenizer.json"))
    described = {"model_max_length": config["max_position_embeddings"], **tokenizer.config}
    for name, content in (
        ("config.json", config | ids),
        ("generation_config.json", ids),
        ("tokenizer_config.json", described),
    ):
        (folder / name).write_text(
            json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8"
        )
    return seal(folder, {"origin": _origin(header), "sha256": sha256, "source": file.name})


def _check_tensors(header: GgufHeader, places: Mapping[str, Place]) -> None:
    """Every tensor is used, none is missing, and each has the shape the settings give it."""
    faults = [
        f"missing {name} {place.shape}"
        for name, place in places.items()
        if name not in header.tensors
    ]
    for name, tensor in header.tensors.items():
        if name not in places:
            faults.append(f"unexpected {name} {tensor.shape}")
        elif tensor.shape != places[name].shape:
            faults.append(f"{name} has the shape {tensor.shape}, expected {places[name].shape}")
    if faults:
        raise CheckpointError(gathered(f"{header.file} cannot be read", faults))


def _check_vocabulary(header: GgufHeader, config: Mapping[str, Any], tokens: int) -> None:
    if tokens > config["vocab_size"]:
        raise CheckpointError(
            f"{header.file} cannot be read: the tokenizer has {tokens} tokens, but the embedding "
            f"has {config['vocab_size']} rows"
        )


def _write_weights(header: GgufHeader, places: Mapping[str, Place], target: Path) -> None:
    """Write the tensors one by one, so that no more than one is in memory.

    A safetensors file is the length of a JSON header in 8 bytes, the header, and the tensors.
    """
    table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for place in places.values():
        start, end = end, end + 4 * int(np.prod(place.shape, dtype=object))
        table[place.name] = {"dtype": "F32", "shape": place.shape, "data_offsets": [start, end]}
    room = shutil.disk_usage(target.parent).free
    if end > room:
        raise CheckpointError(
            f"{header.file} needs {megabytes(end)} in {target.parent.parent} as float32, "
            f"and only {megabytes(room)} are free there"
        )
    head = json.dumps(table).encode()
    head += b" " * (-len(head) % 8)  # the tensors begin at a multiple of 8
    with target.open("wb") as written:
        written.write(len(head).to_bytes(8, "little") + head)
        for weights in _weights(header, places):
            written.write(np.ascontiguousarray(weights, "<f4").data)


def _weights(header: GgufHeader, places: Mapping[str, Place]) -> Iterator[NDArray[np.float32]]:
    """The tensors in the order of their places, as float32."""
    # As a plain array: slices of a memmap carry its attributes along, which takes longer than they.
    data = np.memmap(header.file, mode="r", dtype=np.uint8).view(np.ndarray)
    for name, place in places.items():
        weights = _widened(header, header.tensors[name], data).reshape(place.shape)
        if not np.isfinite(weights).all():
            raise CheckpointError(f"{header.file} cannot be read: {name} holds NaN or infinity")
        yield _dealt_back(weights, place.heads) if place.heads else weights


def _widened(
    header: GgufHeader, tensor: GgufTensor, data: NDArray[np.uint8]
) -> NDArray[np.float32]:
    """A tensor's numbers, as the file's kind of storage stands for them."""
    stored = data[tensor.start : tensor.start + tensor.size].reshape(*tensor.shape[:-1], -1)
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused by name
            return cast("NDArray[np.float32]", dequantize(stored, tensor.kind))
    except (NotImplementedError, ValueError) as fault:
        raise CheckpointError(
            f"{header.file} cannot be read: {tensor.name} is stored as {tensor.kind.name}, "
            "which cannot be widened"
        ) from fault


def _dealt_back(weights: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows of W_Q or W_K in the order of a rotation by halves; the file has them for one by pairs.

    Row (head h, half a, frequency f) lies at (h, f, a) in the file.
    """
    rows, columns = weights.shape
    pairs = weights.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def _origin(header: GgufHeader) -> str:
    """In words, what the weights are: the file's name, its commonest kind, and what was done."""
    numbers: Counter[str] = Counter()
    for tensor in header.tensors.values():
        numbers[tensor.kind.name] += int(np.prod(tensor.shape, dtype=object))
    kind = numbers.most_common(1)[0][0]
    name = header.file.stem.removesuffix(f".{kind}").removesuffix(f"-{kind}")
    if set(numbers) == {"F32"}:
        return f"{name} float32, as stored"
    plain = set(numbers) <= {"F32", "F16", "BF16"}
    return f"{name} {kind}, {'widened' if plain else 'dequantised'} to float32"
