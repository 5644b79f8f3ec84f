"""Weights are read strictly, and a model is built without numbers until they are."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from clearhead.errors import CheckpointError
from clearhead.transformer.weights import Undrawn, names_in, read_weights

WANTED = {"a": torch.Size([2, 3]), "b": torch.Size([4])}


def read(*files, wanted=WANTED, twins=None, dtype=torch.float32, **given):
    return read_weights(files, wanted, twins=twins or {}, dtype=dtype, device="cpu", **given)


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
        read(second, first, wanted=wanted, twins={"d": "e"})
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


def refused(*files, **given) -> str:
    with pytest.raises(CheckpointError) as caught:
        read(*files, **given)
    return str(caught.value)


def test_a_twin_may_be_absent_or_equal_but_not_different(file, tensors):
    twins = {"head": "a"}
    assert read(file, twins=twins).keys() == WANTED.keys()
    save_file({**tensors, "head": tensors["a"].clone()}, file)
    assert read(file, twins=twins).keys() == WANTED.keys()
    save_file({**tensors, "head": tensors["a"] + 1}, file)
    assert refused(file, twins=twins) == (
        f"the weights in {file.parent} do not fit: head differs from a, though the config ties them"
    )


def test_a_twin_may_be_there_instead_and_is_then_checked_as_the_other(file, tensors):
    save_file({"head": tensors["a"], "b": tensors["b"]}, file)
    got = read(file, twins={"head": "a"})
    assert got.keys() == WANTED.keys()
    assert torch.equal(got["a"], tensors["a"])
    save_file({"head": tensors["a"].int(), "b": tensors["b"]}, file)
    assert refused(file, twins={"head": "a"}) == (
        f"the weights in {file.parent} do not fit: head holds I32, expected floating-point numbers"
    )
    save_file({"head": tensors["a"].mT.contiguous(), "b": tensors["b"]}, file)
    assert refused(file, twins={"head": "a"}) == (
        f"the weights in {file.parent} do not fit: head has shape (3, 2), expected (2, 3)"
    )


def test_a_twin_that_is_wanted_itself_may_differ(file, tensors):
    save_file({**tensors, "head": tensors["a"] + 1}, file)
    wanted = {**WANTED, "head": torch.Size([2, 3])}
    got = read(file, wanted=wanted, twins={"head": "a"})
    assert torch.equal(got["head"], tensors["a"] + 1)


def test_what_is_ignored_may_be_of_any_kind_but_has_the_whole_name(file, tensors):
    save_file({**tensors, "places.0": torch.zeros(2, dtype=torch.int8)}, file)
    assert read(file, ignored=r"places\.\d").keys() == WANTED.keys()
    for ignored in (r"places", r"laces\.\d"):
        assert refused(file, ignored=ignored) == (
            f"the weights in {file.parent} do not fit: unexpected places.0"
        )
    # what is wanted is read, whatever else it is
    assert read(file, ignored=r".*").keys() == WANTED.keys()


def test_names_of_several_files_come_together(tensors, tmp_path):
    files = [tmp_path / f"{name}.safetensors" for name in tensors]
    for name, path in zip(tensors, files, strict=True):
        save_file({name: tensors[name]}, path)
    assert names_in(files) == {"a", "b"}
    assert names_in(files[:1]) == {"a"}


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
