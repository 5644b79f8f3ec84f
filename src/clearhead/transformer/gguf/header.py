"""The header of a GGUF file, read so that no file can ask for more than it holds.

A GGUF file is a list of named settings, a list of tensors (name, shape, kind, place), and their
bytes. Every count and length is compared with what is left of the file before anything is made of
it, and sizes are computed in whole numbers that do not wrap. So reading takes time and memory in
proportion to the header, whatever is written in it.
"""

import math
import mmap
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType

from clearhead.errors import CheckpointError

__all__ = ["GgufHeader", "GgufTensor", "read_header"]

_VERSIONS = (2, 3)
_MOST_DIMENSIONS = 4
# A vocabulary has some hundred thousand tokens; more entries than this describe no language model.
_MOST_ENTRIES = 1 << 22

_SCALARS = {
    GGUFValueType.UINT8: "<B",
    GGUFValueType.INT8: "<b",
    GGUFValueType.UINT16: "<H",
    GGUFValueType.INT16: "<h",
    GGUFValueType.UINT32: "<I",
    GGUFValueType.INT32: "<i",
    GGUFValueType.FLOAT32: "<f",
    GGUFValueType.BOOL: "<?",
    GGUFValueType.UINT64: "<Q",
    GGUFValueType.INT64: "<q",
    GGUFValueType.FLOAT64: "<d",
}
_SHORTEST = 8  # bytes of an empty string: its length


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor of the file.

    Args:
        name: its name in the file.
        shape: rows first, as NumPy and PyTorch count (the file counts the other way round).
        kind: how its numbers are stored.
        start: where its bytes begin in the file.
        size: how many bytes it has.
    """

    name: str
    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a GGUF file says about itself.

    Args:
        file: the file.
        settings: numbers, texts, truth values, and lists of these, by name.
        tensors: the tensors by name, in the file's order.
    """

    file: Path
    settings: dict[str, Any]
    tensors: dict[str, GgufTensor]


def read_header(file: Path) -> GgufHeader:
    """Read a GGUF file's header and make sure that every tensor lies inside the file.

    Args:
        file: the file.

    Returns:
        Its settings and tensors; no tensor's bytes are read.

    Raises:
        CheckpointError: a file that is no GGUF, is damaged, or asks for what it does not hold; the
            message names the place.

    Cost:
        Time and memory linear in the header, which is never longer than the file.
    """
    try:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as m:
            return _Reader(file, m).header()
    except (OSError, ValueError) as fault:  # ValueError: an empty file cannot be mapped
        raise CheckpointError(f"{file} cannot be read as GGUF: {fault}") from fault


class _Reader:
    """Reads from the front to the back; ``_at`` is the next byte."""

    def __init__(self, file: Path, data: mmap.mmap) -> None:
        self._file = file
        self._data = data
        self._at = 0

    def header(self) -> GgufHeader:
        tensor_count, setting_count = self._counts()
        settings: dict[str, Any] = {}
        for _ in range(setting_count):
            start = self._at
            name = self._text("a setting's name")
            if name in settings:
                raise self._fault(start, f"the setting {name!r} stands there a second time")
            settings[name] = self._value(name)
        entries = [self._entry() for _ in range(tensor_count)]
        tensors = self._placed(entries, self._alignment(settings))
        return GgufHeader(self._file, settings, tensors)

    def _counts(self) -> tuple[int, int]:
        """The numbers of tensors and of settings, each no more than the file has room for."""
        if self._take(4, "the mark of a GGUF file") != b"GGUF":
            raise self._fault(0, "it is no GGUF file, for it does not begin with 'GGUF'")
        version = self._number("<I", "the version")
        if version not in _VERSIONS:
            raise self._fault(4, f"its GGUF version is {version}; readable are 2 and 3")
        tensors = self._number("<Q", "the number of tensors")
        settings = self._number("<Q", "the number of settings")
        self._check_count(8, tensors, shortest=_SHORTEST + 4 + 4 + 8, what="tensors")
        self._check_count(16, settings, shortest=_SHORTEST + 4 + 1, what="settings")
        return tensors, settings

    def _value(self, name: str) -> Any:
        kind = self._kind(name)
        if kind == GGUFValueType.STRING:
            return self._text(f"the text of {name}")
        if kind != GGUFValueType.ARRAY:
            return self._number(_SCALARS[kind], f"the value of {name}")
        start = self._at
        inner = self._kind(name)
        if inner == GGUFValueType.ARRAY:
            raise self._fault(start, f"{name} is a list of lists, which no readable model needs")
        return self._list(name, inner)

    def _list(self, name: str, inner: GGUFValueType) -> list[Any]:
        start = self._at
        count = self._number("<Q", f"the length of {name}")
        width = _SHORTEST if inner == GGUFValueType.STRING else struct.calcsize(_SCALARS[inner])
        self._check_count(start, count, shortest=width, what=f"entries of {name}")
        if inner == GGUFValueType.STRING:
            return [self._text(f"an entry of {name}") for _ in range(count)]
        values = self._take(count * width, f"the entries of {name}")
        return list(struct.unpack(f"<{count}{_SCALARS[inner][1:]}", values))

    def _kind(self, name: str) -> GGUFValueType:
        start = self._at
        code = self._number("<I", f"the type of {name}")
        try:
            return GGUFValueType(code)
        except ValueError:
            raise self._fault(start, f"{name} has the unknown type {code}") from None

    def _entry(self) -> tuple[int, GgufTensor]:
        """One line of the tensor list, its start counted from where the tensors' bytes begin."""
        place = self._at
        name = self._text("a tensor's name")
        dimensions = self._number("<I", f"the number of dimensions of {name}")
        if not 1 <= dimensions <= _MOST_DIMENSIONS:
            raise self._fault(place, f"{name} has {dimensions} dimensions; 1 to 4 are readable")
        sizes = [self._number("<Q", f"a size of {name}") for _ in range(dimensions)]
        code = self._number("<I", f"the kind of {name}")
        start = self._number("<Q", f"the place of {name}")
        try:
            kind = GGMLQuantizationType(code)
        except ValueError:
            raise self._fault(place, f"{name} is stored in the unknown kind {code}") from None
        block, block_bytes = GGML_QUANT_SIZES[kind]
        if 0 in sizes or sizes[0] % block:
            raise self._fault(
                place,
                f"{name} has the sizes {sizes}; {kind.name} needs a multiple of {block} first",
            )
        size = math.prod(sizes) // block * block_bytes
        return place, GgufTensor(name, tuple(reversed(sizes)), kind, start, size)

    def _alignment(self, settings: dict[str, Any]) -> int:
        alignment = settings.get("general.alignment", 32)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            raise self._fault(self._at, f"general.alignment is {alignment!r}, not a power of two")
        return alignment

    def _placed(
        self, entries: list[tuple[int, GgufTensor]], alignment: int
    ) -> dict[str, GgufTensor]:
        """The tensors with their places in the file, all inside it, none over another."""
        base = -(-self._at // alignment) * alignment
        tensors: dict[str, GgufTensor] = {}
        for place, entry in entries:
            name, start, end = entry.name, base + entry.start, base + entry.start + entry.size
            if name in tensors:
                raise self._fault(place, f"the tensor {name!r} stands there a second time")
            if entry.start % alignment or end > len(self._data):
                raise self._fault(
                    place,
                    f"{name} should fill bytes {start} to {end}, but the file has {len(self._data)}"
                    f" and tensors begin at multiples of {alignment}",
                )
            tensors[name] = GgufTensor(name, entry.shape, entry.kind, start, entry.size)
        self._check_apart(tensors)
        return tensors

    def _check_apart(self, tensors: dict[str, GgufTensor]) -> None:
        ordered = sorted(tensors.values(), key=lambda tensor: tensor.start)
        for before, after in pairwise(ordered):
            if before.start + before.size > after.start:
                raise self._fault(after.start, f"{before.name} and {after.name} overlap")

    def _text(self, what: str) -> str:
        start = self._at
        length = self._number("<Q", f"the length of {what}")
        try:
            return self._take(length, what).decode()
        except UnicodeDecodeError:
            raise self._fault(start, f"{what} is no UTF-8") from None

    def _number(self, form: str, what: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form), what))[0]

    def _take(self, count: int, what: str) -> bytes:
        if count > len(self._data) - self._at:
            raise self._fault(
                self._at,
                f"{what} should have {count} bytes, but only {len(self._data) - self._at} are left",
            )
        self._at += count
        return self._data[self._at - count : self._at]

    def _check_count(self, start: int, count: int, *, shortest: int, what: str) -> None:
        """Refuse a count before a loop or a list is made of it."""
        room = min((len(self._data) - self._at) // shortest, _MOST_ENTRIES)
        if count > room:
            raise self._fault(start, f"it announces {count} {what}; there is room for {room}")

    def _fault(self, start: int, what: str) -> CheckpointError:
        return CheckpointError(f"{self._file} cannot be read as GGUF: at byte {start}, {what}")
