"""The settings of a GGUF file, each read once by its name; what nobody reads is a fault."""

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from gguf import dequantize

from clearhead.errors import CheckpointError, gathered
from clearhead.transformer.gguf.header import GgufHeader

__all__ = ["Settings"]

# Settings that need no reading where they have this value, for it changes no number.
_PLAIN: Mapping[str, object] = {
    "rope.scaling.type": "none",
    "expert_count": 0,
    "expert_used_count": 0,
    "attention.causal": True,
    "pooling_type": 0,
}
_HARMLESS = ("rope.scaling.finetuned",)
_MOST_FACTORS = 4096  # half the width of a head


class Settings:
    """The settings of a file's architecture.

    A reader of a faulty setting notes the fault and hands back 1, so that all faults of a file come
    to light in one pass.

    Args:
        header: the file's header.
        architecture: what begins the names of the settings.
    """

    def __init__(self, header: GgufHeader, architecture: str) -> None:
        self.header = header
        self._mark = f"{architecture}."
        self._left = {
            name.removeprefix(self._mark): value
            for name, value in header.settings.items()
            if name.startswith(self._mark)
        }
        self._faults: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def value(self, name: str) -> object:
        """Whatever a setting holds, or None; it counts as read."""
        return self._left.pop(name, None)

    def whole(self, name: str, default: int | None = None) -> int:
        """A positive whole number."""
        value = self._left.pop(name, default)
        if type(value) is int and 0 < value < 2**31:
            return value
        self.fault(name, "a positive whole number", value)
        return 1

    def layers(self) -> int:
        """How many layers there are: no more than tensors, for every layer has some."""
        count, most = self.whole("block_count"), len(self.header.tensors)
        if count <= most:
            return count
        self.fault("block_count", f"at most {most}, the tensors there", count)
        return 1

    def real(self, name: str, default: float | None = None) -> float:
        """A positive number, the shortest that its 32 bits stand for: 1e-05, as was meant."""
        value = self._left.pop(name, default)
        if isinstance(value, float) and 0 < value < math.inf:
            return float(str(np.float32(value)))
        self.fault(name, "a positive number", value)
        return 1.0

    def maybe_real(self, name: str) -> float | None:
        """A positive number; None where the setting is missing."""
        return self.real(name) if name in self._left else None

    def same(self, name: str, expected: int, what: str) -> None:
        """A setting that has to have this value where it stands."""
        value = self._left.pop(name, expected)
        if value != expected:
            self.fault(name, f"{expected}, {what}", value)

    def rows(self, name: str) -> int | None:
        """Rows of a tensor; None where it is missing, which is said later."""
        tensor = self.header.tensors.get(name)
        return None if tensor is None else tensor.shape[0]

    def factors(self, name: str) -> list[float] | None:
        """A tensor of factors, which is a setting in truth; None where it is missing."""
        tensor = self.header.tensors.get(name)
        if tensor is None:
            return None
        count = math.prod(tensor.shape)
        if len(tensor.shape) != 1 or tensor.kind.name != "F32" or count > _MOST_FACTORS:
            raise CheckpointError(
                f"{self.header.file} cannot be read: {name} has the shape {tensor.shape} in "
                f"{tensor.kind.name}, expected one row of at most {_MOST_FACTORS} numbers in F32"
            )
        with self.header.file.open("rb") as opened:
            opened.seek(tensor.start)
            stored = np.frombuffer(opened.read(tensor.size), np.uint8)
        return [float(str(factor)) for factor in cast("Any", dequantize(stored, tensor.kind))]

    def fault(self, name: str, expected: str, value: object = None) -> None:
        """Note a fault."""
        got = "nothing" if value is None else repr(value)[:80]
        self._faults.append(f"{self._mark}{name}: expected {expected}, got {got}")

    def finish(self) -> None:
        """Raise for every fault, and for every setting that nobody reads.

        Raises:
            CheckpointError: settings that are missing, impossible or not understood, all at once.
        """
        for name, value in self._left.items():
            if name in _HARMLESS or (name in _PLAIN and _PLAIN[name] == value):
                continue
            expected = repr(_PLAIN[name]) if name in _PLAIN else "no such setting"
            self.fault(name, expected, value)
        if self._faults:
            raise CheckpointError(gathered(f"{self.header.file} cannot be read", self._faults))
