"""What hostile files may cost, and what becomes of them."""

import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from clearhead.errors import ClearheadError
from clearhead.transformer.model import Transformer
from clearhead.transformer.model_folder import read_folder
from clearhead.transformer.released import load_released

__all__ = ["SECONDS", "bounded", "flipped", "outcome"]

SECONDS = 10  # what hostile numbers ask for takes hours
KILOBYTES = 400_000  # and more memory than there is


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """No test here makes the process grow by much, in all its tries together."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < KILOBYTES


def load(folder: Path) -> Transformer:
    return load_released(read_folder(folder), dtype=torch.float32, device="cpu")


def outcome(folder: Path) -> str | None:
    """What is said of a folder; None where it is read. Any other error is a failure."""
    started = time.process_time()
    try:
        load(folder)
    except ClearheadError as fault:
        return str(fault)
    finally:
        assert time.process_time() - started < SECONDS
    return None


def flipped(content: bytes, bit: int) -> bytes:
    """The same with one bit the other way."""
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)
