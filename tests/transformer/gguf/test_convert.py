"""A GGUF file becomes a folder: the same model, whole or not at all."""

import json
import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file

from clearhead.errors import CheckpointError
from clearhead.transformer.cache_folder import read_seal
from clearhead.transformer.fetch import sha256_of
from clearhead.transformer.gguf.convert import write_folder
from clearhead.transformer.gguf.kept import folder_of
from tests.transformer.gguf.tiny_gguf import (
    F32,
    random_tensors,
    tensors_of,
    tiny_model,
    write_gguf,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def refused(tensors: dict[str, np.ndarray], tmp_path: Path, **changed: Any) -> str:
    file = write_gguf(tmp_path / "x.gguf", tensors, **changed)
    with pytest.raises(CheckpointError) as caught:
        folder_of(file)
    models = tmp_path / "cache" / "models"
    assert not models.exists() or not list(models.iterdir())  # nothing half-written
    return str(caught.value).removeprefix(f"{file} cannot be read")


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("engine", ["clearhead", "transformers"])
def test_the_model_that_went_in_comes_out(tied: bool, engine: str, tmp_path: Path) -> None:
    import torch

    from clearhead.transformer.checkpoint import from_pretrained

    model = tiny_model(tied=tied)
    file = write_gguf(tmp_path / "Tiny-F32.gguf", tensors_of(model))
    again = from_pretrained(file, engine=engine)
    ids = torch.arange(40).unsqueeze(0)
    with torch.no_grad():
        expected, got = model(ids).logits, again(ids).logits
    torch.testing.assert_close(got, expected)
    assert again.clearhead_origin == "Tiny float32, as stored"
    assert again.clearhead_tokenizer.encode("he") == [258]
    if engine == "transformers":
        theirs, ours = model.state_dict(), again.state_dict()
        assert theirs.keys() == ours.keys()
        assert all(torch.equal(theirs[name], ours[name]) for name in theirs)
        assert again.config.rope_parameters == model.config.rope_parameters
        assert again.generation_config.eos_token_id == 1


KINDS = ("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")


@pytest.mark.parametrize("kind", [gguf.GGMLQuantizationType[name] for name in KINDS])
def test_each_kind_is_widened_as_gguf_says(kind: gguf.GGMLQuantizationType, tmp_path: Path) -> None:
    tensors = random_tensors(1)
    file = write_gguf(tmp_path / f"Tiny.{kind.name}.gguf", tensors, kind=kind)
    folder = folder_of(file)
    weights = load_file(folder / "model.safetensors")
    stored = tensors["blk.1.ffn_up.weight"]
    widened = gguf.dequantize(gguf.quantize(stored, kind), kind)
    assert weights["model.layers.1.mlp.up_proj.weight"].dtype == np.float32
    np.testing.assert_array_equal(weights["model.layers.1.mlp.up_proj.weight"], widened)
    assert len(weights) == len(tensors)
    facts = read_seal(folder)
    assert facts is not None
    how = "widened" if kind.name in ("F16", "BF16") else "dequantised"
    assert facts["origin"] == f"Tiny {kind.name}, {how} to float32"
    assert facts["sha256"] == sha256_of(file) == folder.name
    assert facts["bytes"] == sum(facts["files"].values())


@pytest.mark.parametrize("name", ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"])
def test_random_blocks_of_each_kind_are_widened_as_gguf_says(
    name: str, tmp_path: Path, seed: int
) -> None:
    """gguf reads these kinds and writes none, so the blocks are made up."""
    kind = gguf.GGMLQuantizationType[name]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    tensors, chance = random_tensors(0), np.random.default_rng(seed)
    rows = tensors["token_embd.weight"].shape[0]
    config = {"llama__embedding_length": 256, "llama__rope__dimension_count": 64}
    wide = {name: _widened(weights) for name, weights in tensors.items()}
    stored = chance.integers(0, 60, (rows, 256 // block * size), np.uint8)  # no NaN, no infinity
    writer_kinds = {"token_embd.weight": kind}
    file = write_gguf(
        tmp_path / "x.gguf",
        wide | {"token_embd.weight": stored},
        stored_as=writer_kinds,
        **config,
    )
    weights = load_file(folder_of(file) / "model.safetensors")["model.embed_tokens.weight"]
    np.testing.assert_array_equal(weights, gguf.dequantize(stored, kind))


def _widened(weights: np.ndarray) -> np.ndarray:
    """A tensor of a model of width 32, for one of width 256."""
    return np.ones(
        [256 if size == 32 else 128 if size == 16 else size for size in weights.shape], np.float32
    )


def test_the_size_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_gguf(tmp_path / "x.gguf", random_tensors(0))
    folder = folder_of(file)
    assert folder_of(file) == folder
    facts = read_seal(folder)
    assert facts is not None
    size = f"{facts['bytes'] / 1e3:.0f} kB"
    said = f"clearhead: x.gguf: {size} of float32 weights are kept in {folder}\n"
    assert capsys.readouterr() == ("", said)


def test_another_architecture_is_refused_by_name(tmp_path: Path) -> None:
    said = refused(random_tensors(0), tmp_path, architecture="mamba")
    assert said == (
        ": it holds a model of the architecture 'mamba'; "
        "readable are llama, qwen2, qwen3, gemma2, gemma3, phi3, gpt2"
    )


def test_tensors_that_do_not_fit_are_listed(tmp_path: Path) -> None:
    tensors = random_tensors(0)
    del tensors["blk.1.attn_q.weight"]
    tensors["blk.1.attn_rot_embd.weight"] = np.ones(4, np.float32)
    tensors["blk.0.attn_k.weight"] = np.ones((32, 32), np.float32)
    assert refused(tensors, tmp_path) == (
        ", 3 faults:\n"
        "  - missing blk.1.attn_q.weight (32, 32)\n"
        "  - blk.0.attn_k.weight has the shape (32, 32), expected (16, 32)\n"
        "  - unexpected blk.1.attn_rot_embd.weight (4,)"
    )


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    tensors = random_tensors(0)
    tensors["output_norm.weight"][3] = np.nan
    assert refused(tensors, tmp_path) == ": output_norm.weight holds NaN or infinity"


def test_a_kind_that_cannot_be_widened_is_refused(tmp_path: Path) -> None:
    tensors = random_tensors(0)
    tensors["output_norm.weight"] = np.ones(32, np.int32)
    said = ": output_norm.weight is stored as I32, which cannot be widened"
    assert refused(tensors, tmp_path) == said


def test_more_tokens_than_rows_are_refused(tmp_path: Path) -> None:
    tensors = random_tensors(0)
    tensors["token_embd.weight"] = tensors["token_embd.weight"][:-1]
    said = ": the tokenizer has 261 tokens, but the embedding has 260 rows"
    assert refused(tensors, tmp_path) == said


def test_more_rows_than_tokens_are_fine(tmp_path: Path) -> None:
    tensors = random_tensors(0)
    tensors["token_embd.weight"] = np.ones((264, 32), np.float32)
    folder = folder_of(write_gguf(tmp_path / "x.gguf", tensors))
    assert json.loads((folder / "config.json").read_text())["vocab_size"] == 264


def test_too_little_room_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "free")  # noqa: PYI024  (two lines of a stand-in)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1000))
    file = write_gguf(tmp_path / "x.gguf", random_tensors(0))
    with pytest.raises(CheckpointError) as caught:
        folder_of(file)
    assert str(caught.value) == (
        f"{file} needs 108 kB in {tmp_path / 'cache' / 'models'} as float32, "
        "and only 1 kB are free there"
    )


def test_it_is_written_into_the_folder_that_is_given(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "x.gguf", random_tensors(0), kind=F32)
    target = tmp_path / "out"
    target.mkdir()
    size = write_folder(file, target, sha256="0")
    names = {"clearhead.json", "config.json", "generation_config.json", "model.safetensors"}
    names |= {"tokenizer.json", "tokenizer_config.json"}
    assert {entry.name for entry in target.iterdir()} == names
    assert size == sum(e.stat().st_size for e in target.iterdir() if e.name != "clearhead.json")
