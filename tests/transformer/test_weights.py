"""Weights are read strictly, and a model is built without numbers until they are."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from clearhead.errors import CheckpointError
from clearhead.transformer.weights import Undrawn, read_weights

WANTED = {"a": torch.Size([2, 3]), "b": torch.Size([4])}


def read(*files, wanted=WANTED, ties=None, dtype=torch.float32):
    return read_weights(files, wanted, ties=ties or {}, dtype=dtype, device="cpu")


@pytest.fixture
def tensors(generator):
    return {name: torch.randn(shape, generator=generator) for name, shape in WANTED.items()}


@pytest.fixture
def file(tensors, tmp_path):
    save_file(tensors, tmp_path / "one.safetensors")
    return tmp_path / "one.safetensors"


def test_the_wanted_tensors_are_read(file, tensors):
    got = read(file)
    assert got.keys() == tensors.keys()
    assert all(torch.equal(got[name], tensors[name]) for name in tensors)


def test_tensors_are_converted_on_the_way(file, tensors):
    got = read(file, dtype=torch.bfloat16)
    assert all(torch.equal(got[name], tensors[name].bfloat16()) for name in tensors)


def test_tensors_are_read_from_several_files(tensors, tmp_path):
    files = [tmp_path / f"{name}.safetensors" for name in tensors]
    for name, path in zip(tensors, files, strict=True):
        save_file({name: tensors[name]}, path)
    assert torch.equal(read(*files)["b"], tensors["b"])


def test_every_fault_is_listed_at_once(tensors, tmp_path):
    first, second = tmp_path / "1.safetensors", tmp_path / "2.safetensors"
    wrong = {"b": torch.zeros(5, dtype=torch.int8), "d": torch.zeros(1), "e": torch.zeros(1)}
    save_file(wrong, first)
    save_file({"b": tensors["b"], "c": torch.zeros(1), "d": torch.ones(1)}, second)
    wanted = {**WANTED, "b2": torch.Size([])}
    with pytest.raises(CheckpointError) as caught:
        read(second, first, wanted=wanted, ties={"d": "e"})
    assert str(caught.value) == (
        f"the weights in {tmp_path} do not fit, 8 faults:\n"
        "  - missing a (2, 3)\n"
        "  - missing b2 ()\n"
        "  - unexpected c\n"
        "  - unexpected e\n"
        "  - b has shape (5,), expected (4,)\n"
        "  - b holds I8, expected floating-point numbers\n"
        "  - b is in several files\n"
        "  - d is in several files"
    )


def test_a_tied_tensor_may_be_absent_or_equal_but_not_different(file, tensors):
    ties = {"head": "a"}
    assert read(file, ties=ties).keys() == WANTED.keys()
    save_file({**tensors, "head": tensors["a"].clone()}, file)
    assert read(file, ties=ties).keys() == WANTED.keys()
    save_file({**tensors, "head": tensors["a"] + 1}, file)
    with pytest.raises(CheckpointError) as caught:
        read(file, ties=ties)
    assert str(caught.value) == (
        f"the weights in {file.parent} do not fit: head differs from a, though the config ties them"
    )


def test_a_truncated_file_is_refused(file):
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(CheckpointError) as caught:
            read(file)
        assert str(caught.value).startswith(f"{file} cannot be read as safetensors: ")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError) as caught:
        read(tmp_path / "none.safetensors")
    assert str(caught.value).startswith(f"{tmp_path / 'none.safetensors'} cannot be read as ")


def test_inside_undrawn_no_number_is_drawn():
    before = torch.get_rng_state()
    with torch.device("meta"), Undrawn():
        layer = nn.Linear(3, 2)
    assert {p.device.type for p in layer.parameters()} == {"meta"}
    assert layer.weight.shape == (2, 3)
    with Undrawn():
        assert torch.equal(nn.init.normal_(torch.zeros(2)), torch.zeros(2))
        assert torch.equal(nn.init.uniform_(tensor=torch.zeros(2), a=1.0), torch.zeros(2))
    assert torch.equal(torch.get_rng_state(), before)
