"""Files with weights, open to be read: safetensors, or pickles where somebody asked for them.

One of the few files that let in unknown types: safetensors has none, and a pickle holds anything.
A pickle is read with PyTorch's ``weights_only``: what is no tensor, number or plain container is
refused before it is made, so that no program in it can run.
"""

import zipfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from clearhead.errors import CheckpointError
from clearhead.transformer.safetensors_file import Outline, read_header

__all__ = ["KINDS", "WeightFile", "is_safetensors", "opened"]

#: What safetensors calls the kinds of numbers that weights can have, by PyTorch's.
KINDS: Mapping[torch.dtype, str] = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
}

_open = cast("Any", safe_open)


class WeightFile(Protocol):
    """An open file with weights."""

    @property
    def outlines(self) -> Mapping[str, Outline]:
        """What it holds, by name."""
        ...

    def tensor(self, name: str) -> Tensor:
        """One of its tensors; mapped to the file where it can be."""
        ...


def is_safetensors(file: Path) -> bool:
    """Whether a file is to be read as safetensors; one with the name of a pickle is not.

    Args:
        file: the file.
    """
    return file.suffix not in (".bin", ".pt", ".pth", ".pkl", ".ckpt")


@contextmanager
def opened(files: Sequence[Path]) -> Generator[list[WeightFile]]:
    """Open files with weights.

    Args:
        files: the files.

    Yields:
        The open files, in order.

    Raises:
        CheckpointError: a file is damaged, or a pickle holds more than tensors.
    """
    with ExitStack() as stack:
        yield [
            _Safetensors(file, stack) if is_safetensors(file) else _Pickle(file) for file in files
        ]


class _Safetensors:
    def __init__(self, file: Path, stack: ExitStack) -> None:
        self._file = file
        self.outlines = read_header(file)
        with self._faults():
            self._opened = stack.enter_context(_open(file, framework="pt"))

    def tensor(self, name: str) -> Tensor:
        with self._faults():
            return self._opened.get_tensor(name)

    @contextmanager
    def _faults(self) -> Generator[None]:
        try:
            yield
        except (OSError, SafetensorError) as fault:
            raise CheckpointError(f"{self._file} cannot be read as safetensors: {fault}") from fault


class _Pickle:
    def __init__(self, file: Path) -> None:
        self._tensors = _unpickled(file)
        self.outlines = {name: _outline(tensor) for name, tensor in self._tensors.items()}

    def tensor(self, name: str) -> Tensor:
        return self._tensors[name]


def _unpickled(file: Path) -> dict[str, Tensor]:
    """The tensors of a pickle, mapped to it where it is of the newer form."""
    try:
        content = torch.load(
            file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file)
        )
    except Exception as fault:
        # A damaged pickle can make the library raise anything; the first line is what it is about.
        reason = (str(fault).strip() or type(fault).__name__).splitlines()[0]
        raise CheckpointError(f"{file} cannot be read as a pickle of weights: {reason}") from fault
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{file} cannot be read as a pickle of weights: expected tensors by name, "
            f"got {type(content).__name__}"
        )
    for name, tensor in cast("dict[object, object]", content).items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor) or not _is_plain(tensor):
            raise CheckpointError(
                f"{file} cannot be read as a pickle of weights: expected plain tensors by name, "
                f"got {_told(tensor)} under {str(name)[:80]!r}"
            )
    return {name: tensor.detach() for name, tensor in cast("dict[str, Tensor]", content).items()}


def _is_plain(tensor: Tensor) -> bool:
    """Whether all of its numbers are there: not left out as zeros, nor one of them told as many."""
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        return False
    return tensor.untyped_storage().nbytes() >= tensor.numel() * tensor.element_size()


def _told(found: object) -> str:
    if isinstance(found, Tensor):
        return f"a {found.layout} tensor {tuple(found.shape)} on {found.device}"
    return type(found).__name__


def _outline(tensor: Tensor) -> Outline:
    kind = KINDS.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
    return Outline(kind, tuple(tensor.shape), 0, tensor.numel() * tensor.element_size())
