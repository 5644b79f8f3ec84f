"""Arrays keep every bit on their way through a page, and every number on their way into JSON."""

import base64
import json
import zlib

import numpy as np
import pytest

from clearhead.report.page.arrays import Array, listed, packed

TYPES = {"f32": np.float32, "u32": np.uint32, "u16": np.uint16, "u8": np.uint8}


def unpacked(entry):
    """What a browser does, in NumPy."""
    kind = np.dtype(TYPES[entry["type"]])
    planes = np.frombuffer(zlib.decompress(base64.b64decode(entry["data"])), np.uint8)
    return planes.reshape(kind.itemsize, -1).T.copy().view(kind).reshape(entry["shape"])


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5), (2, 3, 4), (4, 0)])
def test_every_bit_is_kept(kind, shape, generator):
    rng = np.random.default_rng(generator.initial_seed())
    size = int(np.prod(shape)) * np.dtype(TYPES[kind]).itemsize
    values = np.frombuffer(rng.bytes(size), TYPES[kind]).reshape(shape)
    entry = Array.of(values, kind).packed()
    assert unpacked(entry).tobytes() == values.tobytes()
    assert json.loads(json.dumps(entry)) == entry


def test_lists_give_the_same_float32_again(generator):
    rng = np.random.default_rng(generator.initial_seed())
    values = rng.normal(size=200).astype(np.float32) * np.float32(10.0) ** rng.integers(
        -30, 30, 200
    )
    values = values.astype(np.float32)
    again = json.loads(json.dumps(Array.of(values, "f32").listed()))
    assert np.array(again, dtype=np.float32).tobytes() == values.tobytes()


def test_what_is_no_number_is_none():
    assert Array.of([1.5, np.nan, np.inf, -np.inf], "f32").listed() == [1.5, None, None, None]
    assert Array.of([[1, 2], [3, 4]], "u16").listed() == [[1, 2], [3, 4]]


def test_strided_arrays_are_stored_in_order():
    values = np.arange(12, dtype=np.float32).reshape(3, 4).T
    assert unpacked(Array.of(values, "f32").packed()).tolist() == values.tolist()


def test_trees_keep_what_is_no_array():
    tree = {"a": [Array.of([1], "u8"), "x"], "b": {"c": None, "d": (1, 2.5)}}
    assert listed(tree) == {"a": [[1], "x"], "b": {"c": None, "d": [1, 2.5]}}
    found = packed(tree)
    assert unpacked(found["a"][0]).tolist() == [1]
    assert found["b"] == {"c": None, "d": [1, 2.5]}
