"""The safetensors format: headers read so that no file can ask for more than it holds; a writer.

A file is the length of its header in 8 bytes, a JSON header that gives each tensor a kind, a shape
and a place, and the tensors' bytes, one after the other without holes. Every number is compared
with the length of the file before anything is made of it, in whole numbers that do not wrap.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from clearhead.errors import CheckpointError

__all__ = ["BITS", "Outline", "read_header", "unique_pairs", "write_file"]

#: Bits of one number of each kind.
BITS: Mapping[str, int] = {
    "F64": 64,
    "F32": 32,
    "F16": 16,
    "BF16": 16,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "F8_E5M2FNUZ": 8,
    "F8_E4M3FNUZ": 8,
    "C64": 64,
    "BOOL": 8,
    "I64": 64,
    "I32": 32,
    "I16": 16,
    "I8": 8,
    "U64": 64,
    "U32": 32,
    "U16": 16,
    "U8": 8,
}
# The largest released models have some thousand tensors, and a hundred bytes tell of one.
_LONGEST_HEADER = 100_000_000
_MOST_DIMENSIONS = 8
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Outline:
    """What a file says of one tensor.

    Attributes:
        kind: its numbers' kind, such as ``"F32"``.
        shape: its sizes.
        start: where its bytes begin, counted from the end of the header.
        end: where they end.
    """

    kind: str
    shape: tuple[int, ...]
    start: int
    end: int


def read_header(file: Path) -> dict[str, Outline]:
    """Read what a safetensors file holds, and make sure that it does hold it.

    Args:
        file: the file.

    Returns:
        One outline a tensor, by name; no tensor's bytes are read.

    Raises:
        CheckpointError: a file that is none, is damaged, or asks for what it does not hold; the
            message names the place.

    Cost:
        Time and memory linear in the header, which is never longer than the file.
    """
    try:
        if not file.is_file():
            raise _fault(file, "it is no file")
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            length = _length(file, opened.read(8), size)
            text = opened.read(length)
    except OSError as fault:
        raise _fault(file, fault.strerror or str(fault)) from fault
    return _checked(file, _entries(file, text), size - 8 - length)


def unique_pairs(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, refused where a name stands there twice: readers would not agree which counts.

    Args:
        pairs: what `json.loads` gives its ``object_pairs_hook``.

    Raises:
        ValueError: a name stands there twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError(f"the name {twice!r} stands there twice")
    return found


def write_file(
    target: Path, table: Mapping[str, tuple[str, Sequence[int]]], tensors: Iterable[memoryview]
) -> None:
    """Write a safetensors file tensor by tensor, so that no more than one need be in memory.

    Args:
        target: the file.
        table: kind and shape of each tensor, by name.
        tensors: the bytes of each, in the table's order.

    Raises:
        ValueError: a tensor has other bytes than its kind and shape say.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    sizes: list[int] = []
    for name, (kind, shape) in table.items():
        sizes.append(math.prod(shape) * BITS[kind] // 8)
        start, end = end, end + sizes[-1]
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [start, end]}
    head = json.dumps(header, ensure_ascii=False).encode()
    head += b" " * (-len(head) % 8)  # the tensors begin at a multiple of 8
    with target.open("wb") as written:
        written.write(len(head).to_bytes(8, "little") + head)
        for size, tensor in zip(sizes, tensors, strict=True):
            if written.write(tensor) != size:
                raise ValueError(f"{target}: a tensor of {size} bytes was announced")


def _length(file: Path, first: bytes, size: int) -> int:
    if len(first) < 8:
        raise _fault(
            file, f"at byte 0, the header's length should have 8 bytes, but {len(first)} are there"
        )
    length = int.from_bytes(first, "little")
    if length > size - 8:
        raise _fault(
            file,
            f"at byte 0, the header should have {length} bytes, but only {size - 8} are left",
        )
    if length > _LONGEST_HEADER:
        raise _fault(
            file,
            f"at byte 0, the header has {length} bytes; at most {_LONGEST_HEADER} are readable",
        )
    return length


def _entries(file: Path, text: bytes) -> dict[str, Any]:
    try:
        entries = json.loads(text.decode(), object_pairs_hook=unique_pairs)
    except UnicodeDecodeError as fault:
        raise _fault(file, f"at byte {8 + fault.start}, the header is no UTF-8") from fault
    except json.JSONDecodeError as fault:
        place = 8 + len(fault.doc[: fault.pos].encode())
        raise _fault(file, f"at byte {place}, the header is no JSON: {fault.msg}") from fault
    except RecursionError as fault:
        raise _fault(file, "at byte 8, the header is nested too deep") from fault
    except ValueError as fault:
        raise _fault(file, f"at byte 8, in the header, {fault}") from fault
    if not isinstance(entries, dict):
        raise _fault(file, "at byte 8, the header is no JSON object")
    return cast("dict[str, Any]", entries)


def _checked(file: Path, entries: dict[str, Any], data: int) -> dict[str, Outline]:
    """The outlines, with their bytes one after the other and none left over."""
    told = entries.pop("__metadata__", {})
    if not isinstance(told, dict):
        raise _fault(file, "__metadata__ is no JSON object")
    found = {name: _outline(file, name, entry) for name, entry in entries.items()}
    at = 0
    for name, one in sorted(found.items(), key=lambda item: (item[1].start, item[1].end)):
        if one.start != at:
            raise _fault(file, f"{name} begins at byte {one.start} of the tensors, expected {at}")
        at = one.end
    if at != data:
        raise _fault(file, f"the tensors should have {at} bytes, but {data} are there")
    return found


def _outline(file: Path, name: str, entry: object) -> Outline:
    told = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
    kind, shape, place = told.get("dtype"), told.get("shape"), told.get("data_offsets")
    is_told = isinstance(shape, list) and isinstance(place, list)
    if not is_told or not isinstance(kind, str) or len(told) != 3:
        raise _fault(file, f"{name} is not told by dtype, shape and data_offsets alone")
    sizes, ends = cast("list[object]", shape), cast("list[object]", place)
    if kind not in BITS:
        raise _fault(file, f"{name} is stored in the unknown kind {kind[:40]!r}")
    if len(sizes) > _MOST_DIMENSIONS:
        raise _fault(
            file, f"{name} has {len(sizes)} dimensions; at most {_MOST_DIMENSIONS} are readable"
        )
    numbers = [*sizes, *ends]
    if len(ends) != 2 or not all(_is_whole(number) for number in numbers):
        raise _fault(file, f"{name} has a size or a place that is no whole number below 2⁶³")
    start, end = cast("list[int]", ends)
    one = Outline(kind, tuple(cast("list[int]", sizes)), start, end)
    bits = math.prod(one.shape) * BITS[kind]
    if bits % 8 or bits // 8 != one.end - one.start:
        raise _fault(
            file,
            f"{name} of shape {one.shape} in {kind} has {bits} bits, "
            f"but its place has {8 * (one.end - one.start)}",
        )
    return one


def _is_whole(number: object) -> bool:
    return type(number) is int and 0 <= number <= _LARGEST


def _fault(file: Path, what: str) -> CheckpointError:
    return CheckpointError(f"{file} cannot be read as safetensors: {what}")
