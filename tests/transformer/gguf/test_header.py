"""The header of a GGUF file: the same as the gguf package reads, and safe from any file."""

import random
import struct
import time
import tracemalloc
from pathlib import Path

import gguf
import numpy as np
import pytest

from clearhead.errors import CheckpointError
from clearhead.transformer.gguf.header import read_header
from tests.transformer.gguf.tiny_gguf import (
    ARRAY,
    Q4_1,
    STRING,
    random_tensors,
    raw_gguf,
    setting,
    tensor,
    text,
    write_gguf,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    return write_gguf(file, random_tensors(0), kind=Q4_1).read_bytes()


def refused(content: bytes, tmp_path: Path) -> str:
    """What is said of a file; reading it has to be quick and may take no memory to speak of."""
    file = tmp_path / "x.gguf"
    file.write_bytes(content)
    tracemalloc.start()
    started = time.process_time()
    try:
        with pytest.raises(CheckpointError) as caught:
            read_header(file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.process_time() - started < 10  # bounded: what hostile counts ask for takes hours
    assert peak < 20 * len(content) + 200_000
    return str(caught.value).removeprefix(f"{file} cannot be read as GGUF: ")


def test_it_reads_what_the_gguf_package_reads(whole: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    file.write_bytes(whole)
    ours, theirs = read_header(file), gguf.GGUFReader(file)
    for name, value in ours.settings.items():
        assert theirs.fields[name].contents() == value
    assert len(ours.settings) + 3 == len(theirs.fields)  # it counts its three counters as settings
    assert [(t.name, t.shape, t.kind, t.start, t.size) for t in ours.tensors.values()] == [
        (t.name, tuple(reversed(t.shape.tolist())), t.tensor_type, t.data_offset, t.n_bytes)
        for t in theirs.tensors
    ]


def test_a_file_cut_short_anywhere_is_refused(whole: bytes, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lengths = {*range(300), len(whole) - 1, *chance.sample(range(len(whole)), 300)}
    file = tmp_path / "x.gguf"
    for length in sorted(lengths):
        file.write_bytes(whole[:length])
        with pytest.raises(CheckpointError) as caught:
            read_header(file)
        assert str(caught.value).startswith(f"{file} cannot be read as GGUF: ")


def test_a_file_with_other_bytes_is_read_or_refused(
    whole: bytes, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    file = tmp_path / "x.gguf"
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            # The header is what can go wrong; most of its bytes are short texts, all are tried.
            damaged[chance.randrange(8_000)] = chance.choice(
                [0, 1, 0x7F, 0xFF, chance.randrange(256)]
            )
        file.write_bytes(damaged)
        try:
            header = read_header(file)
        except CheckpointError:
            continue
        assert all(t.start + t.size <= len(whole) for t in header.tensors.values())


LIST = struct.pack("<IQ", STRING, 0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot mmap an empty file"),
        (b"GG", "at byte 0, the mark of a GGUF file should have 4 bytes, but only 2 are left"),
        (b"PK\3\4" * 9, "at byte 0, it is no GGUF file, for it does not begin with 'GGUF'"),
        (raw_gguf(version=1), "at byte 4, its GGUF version is 1; readable are 2 and 3"),
        (
            raw_gguf(version=3 << 24),  # written on a machine of the other byte order
            "at byte 4, its GGUF version is 50331648; readable are 2 and 3",
        ),
        (
            raw_gguf(tensor_count=2**64 - 1),
            "at byte 8, it announces 18446744073709551615 tensors; there is room for 0",
        ),
        (
            raw_gguf(setting_count=2**63),
            "at byte 16, it announces 9223372036854775808 settings; there is room for 0",
        ),
        (
            raw_gguf(settings=[struct.pack("<Q", 2**64 - 1)], data=b"\0" * 32),
            (
                "at byte 32, a setting's name should have 18446744073709551615 bytes, "
                "but only 32 are left"
            ),
        ),
        (
            raw_gguf(settings=[setting("a", ARRAY, struct.pack("<IQ", 0, 2**60))]),
            "at byte 41, it announces 1152921504606846976 entries of a; there is room for 15",
        ),
        (
            raw_gguf(settings=[setting("a", ARRAY, struct.pack("<IQ", STRING, 9) + text("b"))]),
            "at byte 41, it announces 9 entries of a; there is room for 1",
        ),
        (
            raw_gguf(settings=[setting("a", ARRAY, struct.pack("<IQ", ARRAY, 1) * 3000)]),
            "at byte 37, a is a list of lists, which no readable model needs",
        ),
        (raw_gguf(settings=[setting("a", 13, b"\0" * 8)]), "at byte 33, a has the unknown type 13"),
        (
            raw_gguf(settings=[setting("a", STRING, text("b"))] * 2),
            "at byte 46, the setting 'a' stands there a second time",
        ),
        (
            raw_gguf(settings=[setting("a", STRING, text(b"\xff"))]),
            "at byte 37, the text of a is no UTF-8",
        ),
        (
            raw_gguf(settings=[setting("general.alignment", 4, struct.pack("<I", 0))]),
            "at byte 57, general.alignment is 0, not a power of two",
        ),
        (
            raw_gguf(settings=[setting("general.alignment", STRING, text("b"))]),
            "at byte 62, general.alignment is 'b', not a power of two",
        ),
        (
            raw_gguf(tensors=[tensor("a", [2**32, 2**32])]),  # wraps to 0 in 64 bits
            (
                "at byte 24, a should fill bytes 96 to 73786976294838206560, but the file has 96 "
                "and tensors begin at multiples of 32"
            ),
        ),
        (
            raw_gguf(tensors=[tensor("a", [2**63, 2, 2**63, 4])]),
            f"at byte 24, a should fill bytes 96 to {96 + 2**131}",
        ),
        (
            raw_gguf(tensors=[tensor("a", [4, 0])]),
            "at byte 24, a has the sizes [4, 0]; F32 needs",
        ),
        (
            raw_gguf(tensors=[tensor("a", [33, 2], kind=3)], data=b"\0" * 999),
            "at byte 24, a has the sizes [33, 2]; Q4_1 needs a multiple of 32 first",
        ),
        (
            raw_gguf(tensors=[tensor("a", [])]),
            "at byte 24, a has 0 dimensions; 1 to 4 are readable",
        ),
        (
            raw_gguf(tensors=[text("a") + struct.pack("<I", 2**32 - 1)], data=b"\0" * 32),
            "at byte 24, a has 4294967295 dimensions; 1 to 4 are readable",
        ),
        (
            raw_gguf(tensors=[tensor("a", [4], kind=999)]),
            "at byte 24, a is stored in the unknown kind 999",
        ),
        (
            raw_gguf(tensors=[tensor("a", [4], start=8)], data=b"\0" * 32),
            (
                "at byte 24, a should fill bytes 72 to 88, but the file has 96 and tensors begin "
                "at multiples of 32"
            ),
        ),
        (
            raw_gguf(tensors=[tensor("a", [4], start=2**64 - 32)], data=b"\0" * 32),
            (
                "at byte 24, a should fill bytes 18446744073709551648 to 18446744073709551664, "
                "but the file has 96 and tensors begin at multiples of 32"
            ),
        ),
        (
            raw_gguf(tensors=[tensor("a", [4]), tensor("a", [4], start=32)], data=b"\0" * 64),
            "at byte 57, the tensor 'a' stands there a second time",
        ),
        (
            raw_gguf(tensors=[tensor("a", [9]), tensor("b", [4], start=32)], data=b"\0" * 64),
            "at byte 128, a and b overlap",
        ),
    ],
)
def test_a_hostile_file_is_refused_at_its_place(content: bytes, said: str, tmp_path: Path) -> None:
    assert refused(content, tmp_path).startswith(said)


def test_many_entries_in_a_long_file_are_refused_before_a_list_is_made(tmp_path: Path) -> None:
    count = 1 << 23
    long = raw_gguf(
        settings=[setting("a", ARRAY, struct.pack("<IQ", 7, count))], data=b"\1" * count
    )
    said = refused(long, tmp_path)
    assert said == f"at byte 41, it announces {count} entries of a; there is room for {1 << 22}"


def test_a_folder_and_an_absent_file(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "absent.gguf"):
        with pytest.raises(CheckpointError, match=r"cannot be read as GGUF: "):
            read_header(place)


def test_every_kind_of_setting_is_read(tmp_path: Path) -> None:
    forms = {
        0: ("<B", 7),
        1: ("<b", -7),
        2: ("<H", 700),
        3: ("<h", -700),
        4: ("<I", 7),
        5: ("<i", -7),
    }
    forms |= {
        6: ("<f", 0.5),
        7: ("<?", True),
        10: ("<Q", 2**40),
        11: ("<q", -(2**40)),
        12: ("<d", 0.1),
    }
    one = [setting(f"one{k}", k, struct.pack(form, value)) for k, (form, value) in forms.items()]
    many = [
        setting(f"many{k}", ARRAY, struct.pack("<IQ", k, 2) + struct.pack(form, value) * 2)
        for k, (form, value) in forms.items()
    ]
    file = tmp_path / "x.gguf"
    file.write_bytes(raw_gguf(settings=one + many))
    settings = read_header(file).settings
    for kind, (_, value) in forms.items():
        assert settings[f"one{kind}"] == value
        assert settings[f"many{kind}"] == [value] * 2
    assert np.array(settings["many0"]).dtype == np.int64
