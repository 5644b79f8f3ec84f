"""Headers of safetensors files: what the library reads, and a place for every fault."""

import json
import random
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from clearhead.errors import CheckpointError
from clearhead.transformer.safetensors_file import BITS, read_header, unique_pairs, write_file


def raw(header: bytes | object, data: bytes = b"") -> bytes:
    """A file of a header, as bytes or as JSON, and the tensors' bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(kind: str = "F32", shape: Any = (2,), place: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": place}


def refused(content: bytes, tmp_path: Path) -> str:
    """What is said of a file; reading it has to be quick and may take no memory to speak of."""
    file = tmp_path / "x.safetensors"
    file.write_bytes(content)
    tracemalloc.start()
    started = time.process_time()
    try:
        with pytest.raises(CheckpointError) as caught:
            read_header(file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.process_time() - started < 10  # bounded: what hostile sizes ask for takes hours
    assert peak < 40 * len(content) + 200_000
    return str(caught.value).removeprefix(f"{file} cannot be read as safetensors: ")


def test_it_reads_what_the_library_reads(tmp_path: Path) -> None:
    tensors = {
        "a": torch.ones(2, 3),
        "b": torch.ones(4, dtype=torch.bfloat16),
        "none": torch.ones(0, 3),
        "one": torch.tensor(1.0, dtype=torch.float64),
        "é 日": torch.ones(2, dtype=torch.int8),
    }
    file = tmp_path / "x.safetensors"
    save_file(tensors, file, metadata={"format": "pt"})
    header = read_header(file)
    with safe_open(file, framework="pt") as opened:
        assert header.keys() == set(opened.keys())
        for name, one in header.items():
            told = opened.get_slice(name)
            assert (one.kind, list(one.shape)) == (told.get_dtype(), told.get_shape())


def test_every_kind_that_pytorch_has_is_known(tmp_path: Path) -> None:
    names = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint64 uint32 uint16 uint8"
    names += " bool complex64 float8_e4m3fn float8_e5m2 float8_e8m0fnu float4_e2m1fn_x2"
    for name in names.split():
        file = tmp_path / f"{name}.safetensors"
        save_file({"a": torch.empty(4, dtype=getattr(torch, name))}, file)
        assert read_header(file)["a"].kind in BITS


def test_the_library_reads_what_is_written(tmp_path: Path, generator: torch.Generator) -> None:
    tensors = {
        "a": torch.randn(3, 2, generator=generator),
        "b": torch.randn(5, generator=generator).bfloat16(),
        "c": torch.zeros(0, 4),
    }
    file = tmp_path / "x.safetensors"
    kinds = {torch.float32: "F32", torch.bfloat16: "BF16"}
    table = {name: (kinds[tensor.dtype], tensor.shape) for name, tensor in tensors.items()}
    pieces = (memoryview(t.reshape(-1).view(torch.uint8).numpy()) for t in tensors.values())
    write_file(file, table, pieces)
    again = load_file(file)
    assert all(torch.equal(tensors[name], again[name]) for name in tensors)
    with safe_open(file, framework="pt") as opened:
        assert opened.metadata() == {"format": "pt"}
    assert int.from_bytes(file.read_bytes()[:8], "little") % 8 == 0


def test_a_tensor_of_other_bytes_than_announced(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a tensor of 8 bytes was announced"):
        write_file(tmp_path / "x", {"a": ("F32", (2,))}, [np.zeros(3, np.float32).data])


def test_names_that_stand_there_twice() -> None:
    assert unique_pairs([("a", 1), ("b", 2)]) == {"a": 1, "b": 2}
    with pytest.raises(ValueError, match=r"^the name 'b' stands there twice$"):
        unique_pairs([("a", 1), ("b", 2), ("b", 2)])


LONG = 2**63


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "at byte 0, the header's length should have 8 bytes, but 0 are there"),
        (b"\x05\0\0", "at byte 0, the header's length should have 8 bytes, but 3 are there"),
        (b"\xff" * 8, f"at byte 0, the header should have {2**64 - 1} bytes, but only 0 are left"),
        (raw(b"{}")[:-1], "at byte 0, the header should have 2 bytes, but only 1 are left"),
        (raw(b'{"\xff": 1}'), "at byte 10, the header is no UTF-8"),
        (raw(b'{"a" 1}'), "at byte 13, the header is no JSON: Expecting ':' delimiter"),
        (raw(b""), "at byte 8, the header is no JSON: Expecting value"),
        (raw(b"[]"), "at byte 8, the header is no JSON object"),
        (raw(b"[" * 100_000), "at byte 8, the header is nested too deep"),
        (raw(b'{"a":' * 100_000), "at byte 8, the header is nested too deep"),
        (raw(b'{"a":1,"a":1}'), "at byte 8, in the header, the name 'a' stands there twice"),
        (
            raw(b'{"a":{"dtype":"F32","dtype":"F32"}}'),
            "at byte 8, in the header, the name 'dtype' stands there twice",
        ),
        (raw({"__metadata__": 3}), "__metadata__ is no JSON object"),
        (raw({"a": 3}), "a is not told by dtype, shape and data_offsets alone"),
        (raw({"a": {"dtype": "F32"}}), "a is not told by dtype, shape and data_offsets alone"),
        (
            raw({"a": entry() | {"more": 1}}),
            "a is not told by dtype, shape and data_offsets alone",
        ),
        (raw({"a": entry(shape=3)}), "a is not told by dtype, shape and data_offsets alone"),
        (raw({"a": entry("F33")}), "a is stored in the unknown kind 'F33'"),
        (raw({"a": entry(shape=[1] * 9)}), "a has 9 dimensions; at most 8 are readable"),
        (
            raw({"a": entry(shape=[-2])}),
            "a has a size or a place that is no whole number below 2⁶³",
        ),
        (
            raw({"a": entry(shape=[LONG])}),
            "a has a size or a place that is no whole number below 2⁶³",
        ),
        (
            raw({"a": entry(shape=[True])}),
            "a has a size or a place that is no whole number below 2⁶³",
        ),
        (
            raw({"a": entry(place=[0])}),
            "a has a size or a place that is no whole number below 2⁶³",
        ),
        (
            raw({"a": entry(place=[8, 0])}),
            "a of shape (2,) in F32 has 64 bits, but its place has -64",
        ),
        (
            raw({"a": entry(shape=[2**32, 2**32], place=[0, 0])}),  # wraps to 0 in 64 bits
            f"a of shape ({2**32}, {2**32}) in F32 has {2**69} bits, but its place has 0",
        ),
        (
            raw({"a": entry("F4", shape=[3], place=[0, 1])}),
            "a of shape (3,) in F4 has 12 bits, but its place has 8",
        ),
        (raw({"a": entry()}), "the tensors should have 8 bytes, but 0 are there"),
        (raw({"a": entry()}, b"\0" * 9), "the tensors should have 8 bytes, but 9 are there"),
        (
            raw({"a": entry(), "b": entry()}, b"\0" * 8),
            "b begins at byte 0 of the tensors, expected 8",
        ),
        (
            raw({"a": entry(place=[4, 12])}, b"\0" * 12),
            "a begins at byte 4 of the tensors, expected 0",
        ),
    ],
)
def test_a_hostile_file_is_refused_at_its_place(content: bytes, said: str, tmp_path: Path) -> None:
    assert refused(content, tmp_path) == said


def test_a_number_of_many_digits_is_no_size(tmp_path: Path) -> None:
    head = raw(b'{"a":{"dtype":"F32","shape":[' + b"9" * 100_000 + b'],"data_offsets":[0,8]}}')
    assert refused(head, tmp_path).startswith("at byte 8, in the header, Exceeds the limit")


def test_a_header_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    with file.open("wb") as opened:  # a hole: the disk holds none of it
        opened.write((200_000_000).to_bytes(8, "little"))
        opened.truncate(200_000_008)
    with pytest.raises(CheckpointError) as caught:
        read_header(file)
    assert str(caught.value) == (
        f"{file} cannot be read as safetensors: at byte 0, the header has 200000000 bytes; "
        "at most 100000000 are readable"
    )


def test_what_is_no_file(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "absent", Path("/dev/null")):
        with pytest.raises(CheckpointError) as caught:
            read_header(place)
        assert str(caught.value) == f"{place} cannot be read as safetensors: it is no file"


def test_what_is_read_the_library_reads_too(tmp_path: Path, seed: int) -> None:
    """Whatever a header is made into, either both read it alike or ours refuses it."""
    chance = random.Random(seed)
    file = tmp_path / "x.safetensors"
    save_file({"a": torch.ones(2, 3), "b": torch.ones(4).half()}, file)
    whole = file.read_bytes()
    length = 8 + int.from_bytes(whole[:8], "little")
    agreed = 0
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(length)] = chance.choice(b'0123456789"{}[],:ab \xff\0')
        file.write_bytes(damaged)
        try:
            header = read_header(file)
        except CheckpointError:
            continue
        agreed += 1
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118  (the library's object is no mapping)
                assert tuple(opened.get_tensor(name).shape) == header[name].shape
    assert agreed
