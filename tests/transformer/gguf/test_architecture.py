"""Every architecture: the file of a model of transformers' gives that model's logits."""

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
import transformers

from clearhead.errors import CheckpointError
from clearhead.positions.frequencies import frequencies
from clearhead.transformer.gguf.architecture import Dealt, Raised, Stored, Turned
from clearhead.transformer.gguf.convert import write_folder
from clearhead.transformer.gguf.header import read_header
from clearhead.transformer.gguf.known import ARCHITECTURES
from clearhead.transformer.loading import load
from clearhead.transformer.model_folder import read_folder
from tests.transformer.gguf.written import write_model

_SIZES = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GPT2 = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
_GEMMA = {**_SIZES, "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 5}
_STRETCHED = {"short_factor": [1.0, 1.5], "long_factor": [2.0, 3.0], "rope_theta": 500.0}


def _turned(kind: str, **settings: object) -> dict[str, object]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 500.0, **settings}}


MODELS = {
    "llama": ("Llama", _SIZES),
    "llama tied, wide heads": ("Llama", {**_SIZES, "tie_word_embeddings": True, "head_dim": 12}),
    "llama biases": ("Llama", {**_SIZES, "attention_bias": True, "mlp_bias": True}),
    "llama linear": ("Llama", {**_SIZES, **_turned("linear", factor=4.0)}),
    "llama yarn": (
        "Llama",
        {**_SIZES, **_turned("yarn", factor=4.0, original_max_position_embeddings=16)},
    ),
    "llama 3": (
        "Llama",
        {
            **_SIZES,
            "head_dim": 8,
            **_turned(
                "llama3",
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=16,
            ),
        },
    ),
    "mistral": ("Mistral", {**_SIZES, "sliding_window": None}),
    "qwen2": ("Qwen2", _SIZES),
    "qwen3": ("Qwen3", {**_SIZES, "head_dim": 12}),
    "gemma2": ("Gemma2", {**_GEMMA, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}),
    "gemma3": (
        "Gemma3",
        {
            **_GEMMA,
            "num_hidden_layers": 7,
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
                "full_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 4.0},
            },
        },
    ),
    "phi3 window": ("Phi3", {**_SIZES, "sliding_window": 5}),
    "phi3 longrope, partial": (
        "Phi3",
        {
            **_SIZES,
            "original_max_position_embeddings": 10,
            "rope_parameters": {
                "rope_type": "longrope",
                "original_max_position_embeddings": 10,
                "partial_rotary_factor": 0.5,
                **_STRETCHED,
            },
        },
    ),
    "gpt2": ("GPT2", _GPT2),
    "gpt2 narrow": ("GPT2", {**_GPT2, "n_inner": 40, "tie_word_embeddings": False}),
}


@torch.no_grad()
def model_of(name: str) -> transformers.PreTrainedModel:
    kind, settings = MODELS[name]
    head = "LMHeadModel" if kind == "GPT2" else "ForCausalLM"
    family = f"{kind}Text" if kind == "Gemma3" else kind
    config = getattr(transformers, f"{family}Config")(**settings)
    model = getattr(transformers, f"{kind}{head}")(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
        if kind.startswith("Gemma"):
            # then a file's 1 + w is exact, and so is what is read from it
            parameter.copy_((parameter * 2**16).round() / 2**16)
    return model


def loaded(folder: Path, engine: str) -> torch.nn.Module:
    return load(read_folder(folder), engine=engine, dtype=None, device=None, name="tiny")


def converted(file: Path, engine: str) -> torch.nn.Module:
    folder = file.parent / "folder"
    folder.mkdir()
    write_folder(file, folder, sha256="0")
    return loaded(folder, engine)


def assert_equal(expected: torch.nn.Module, got: torch.nn.Module) -> None:
    theirs, ours = expected.state_dict(), got.state_dict()
    assert theirs.keys() == ours.keys()
    for name in theirs:
        assert torch.equal(theirs[name], ours[name]), name


@torch.no_grad()
@pytest.mark.parametrize("engine", ["clearhead", "transformers"])
@pytest.mark.parametrize("name", [name for name in MODELS if name != "llama 3"])
def test_a_file_gives_the_bits_of_the_model_that_was_written(
    name: str, engine: str, seeded_weights: None, tmp_path: Path, generator: torch.Generator
) -> None:
    theirs = model_of(name)
    file = write_model(tmp_path / "x.gguf", theirs)
    theirs.save_pretrained(tmp_path / "theirs")
    expected, got = loaded(tmp_path / "theirs", engine), converted(file, engine)
    assert_equal(expected, got)
    ids = torch.randint(99, (2, 16), generator=generator)
    assert torch.equal(got(ids).logits, expected(ids).logits)


@torch.no_grad()
def test_llama_3_scaling_is_read_from_its_tensor(seeded_weights: None, tmp_path: Path) -> None:
    theirs = model_of("llama 3")
    file = write_model(tmp_path / "x.gguf", theirs)
    theirs.save_pretrained(tmp_path / "theirs")
    expected, got = loaded(tmp_path / "theirs", "clearhead"), converted(file, "clearhead")
    assert_equal(expected, got)
    turning = [frequencies(model.config.positions, width=8) for model in (expected, got)]
    torch.testing.assert_close(turning[1], turning[0], rtol=2 * 2**-23, atol=0)  # two roundings


@torch.no_grad()
@pytest.mark.parametrize("name", ["llama", "qwen2", "gemma3", "phi3 window", "gpt2"])
@pytest.mark.parametrize("kind", ["F16", "BF16", "Q4_0", "Q4_1", "Q8_0"])
def test_quantised_weights_stand_where_the_plain_ones_do(
    name: str, kind: str, seeded_weights: None, tmp_path: Path
) -> None:
    theirs, form = model_of(name), gguf.GGMLQuantizationType[kind]
    plain, coarse = (tmp_path / part for part in ("plain", "coarse"))
    plain.mkdir()
    coarse.mkdir()
    exact = converted(write_model(plain / "x.gguf", theirs), "clearhead").state_dict()
    rounded = converted(write_model(coarse / "x.gguf", theirs, form), "clearhead").state_dict()
    assert exact.keys() == rounded.keys()
    for tensor, expected in exact.items():
        # blocks lie along the rows of the file; a turned tensor's are its columns
        rows = expected.numpy()
        widened = gguf.dequantize(gguf.quantize(rows, form), form) if rows.ndim == 2 else rows
        np.testing.assert_array_equal(rounded[tensor].numpy(), widened, err_msg=tensor)


def test_every_architecture_is_written_by_a_test() -> None:
    written = {kind.lower() for kind, _ in MODELS.values()}
    assert set(ARCHITECTURES) <= written


def test_how_a_file_has_a_tensor_is_undone() -> None:
    weights = np.arange(24, dtype=np.float32).reshape(8, 3)
    assert Stored("a").restored(weights, width=4) is weights
    assert Dealt("a").restored(weights, width=4)[:, 0].tolist() == [0, 6, 3, 9, 12, 18, 15, 21]
    assert Dealt("a").restored(weights[:, 0], width=4).tolist() == [0, 6, 3, 9, 12, 18, 15, 21]
    assert Raised("a").restored(weights, width=4)[0].tolist() == [-1, 0, 1]
    assert Turned("a").restored(weights, width=4).shape == Turned("a").shape((8, 3)) == (3, 8)
    assert Turned("a").shape((8,)) == (8,)


def test_a_configuration_that_describes_no_model_names_the_file(tmp_path: Path) -> None:
    from tests.transformer.gguf.tiny_gguf import random_tensors, write_gguf

    file = write_gguf(
        tmp_path / "x.gguf",
        random_tensors(0),
        llama__attention__key_length=2**31 - 2,
        llama__rope__dimension_count=2**31 - 2,
        llama__vocab_size=2**31 - 1,
        llama__attention__head_count=2**31 - 1,
        llama__attention__head_count_kv=2**31 - 1,
    )
    header = read_header(file)
    architecture = ARCHITECTURES["llama"]
    with pytest.raises(CheckpointError, match=f"^{file} describes tensors that cannot be: "):
        architecture.places(architecture.read(header), header)
