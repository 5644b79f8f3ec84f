"""Saved models are what transformers reads back, bit for bit, in every family."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from clearhead.errors import CheckpointError, InputError, UnsupportedError
from clearhead.positions.kinds import Alibi
from clearhead.transformer.config import LayerKind, TransformerConfig
from clearhead.transformer.families.known import FAMILIES
from clearhead.transformer.loading import load
from clearhead.transformer.model import Transformer
from clearhead.transformer.model_folder import read_folder
from tests.transformer.released_families import RELEASED, loaded, made, saved

SIZES: dict[str, Any] = {
    "vocabulary_size": 30,
    "context_length": 64,
    "d_model": 32,
    "d_ff": 48,
    "layers": 2,
    "heads": 4,
}


def config_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))


def theirs_again(folder: Path) -> nn.Module:
    """What transformers reads, strictly."""
    build = getattr(transformers, config_of(folder)["architectures"][0])
    model, report = build.from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager"
    )
    assert not any(report.values()), report
    return model.eval()


def logits(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    given = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    return model(ids, **given)[0]


def assert_same(expected: nn.Module, got: nn.Module) -> None:
    assert type(expected) is type(got)
    theirs, ours = expected.state_dict(), got.state_dict()
    assert theirs.keys() == ours.keys()
    for name in theirs:
        assert theirs[name].dtype == ours[name].dtype, name
        assert torch.equal(theirs[name], ours[name]), name


@torch.no_grad()
@pytest.mark.parametrize("variant", RELEASED)
def test_a_loaded_model_is_saved_as_it_was(
    variant: str, seeded_weights: None, tmp_path: Path, generator: torch.Generator
) -> None:
    theirs = made(variant)
    ours = loaded(saved(theirs, tmp_path / "theirs"))
    told = ours.save_pretrained(tmp_path / "ours", spelling="transformers")
    assert told.model_type == theirs.config.model_type
    again = theirs_again(tmp_path / "ours")
    assert_same(theirs, again)
    ids = torch.randint(3, 99, (2, 14), generator=generator)
    assert torch.equal(logits(again, ids), logits(theirs, ids))
    assert {**config_of(tmp_path / "theirs"), "dtype": "float32"} == config_of(tmp_path / "ours")


@torch.no_grad()
@pytest.mark.parametrize("variant", [name for name in RELEASED if not name.startswith("llama4")])
def test_a_model_built_here_is_saved_in_the_spelling_of_a_family_that_has_its_shape(
    variant: str, seeded_weights: None, tmp_path: Path, generator: torch.Generator
) -> None:
    theirs = made(variant)
    ours = loaded(saved(theirs, tmp_path / "theirs"))
    built = Transformer(ours.config)
    built.load_state_dict(ours.state_dict())
    told = built.save_pretrained(tmp_path / "ours", spelling="transformers")
    assert told.difference is None
    again = theirs_again(tmp_path / "ours")
    ids = torch.randint(3, 99, (2, 14), generator=generator)
    assert torch.equal(logits(again, ids), logits(theirs, ids))
    back = loaded(tmp_path / "ours")
    assert {name for name, _ in back.named_parameters()} == set(dict(ours.named_parameters()))


@torch.no_grad()
@pytest.mark.parametrize("variant", RELEASED)
def test_every_model_can_be_saved_in_our_own_spelling(
    variant: str, seeded_weights: None, tmp_path: Path
) -> None:
    ours = loaded(saved(made(variant), tmp_path / "theirs"))
    told = ours.save_pretrained(tmp_path / "ours", spelling="clearhead")
    assert (told.model_type, told.difference) == ("clearhead", None)
    again = loaded(tmp_path / "ours")
    assert again.config == ours.config
    assert_same(ours, again)
    # what was read in our spelling is written in it again
    assert again.save_pretrained(tmp_path / "again").model_type == "clearhead"


def test_the_families_are_all_tried() -> None:
    told = {settings[0] for settings in RELEASED.values()}
    missing = [
        family.model_type for family in FAMILIES.values() if not told & family.architectures.keys()
    ]
    assert not missing


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_weights_keep_their_dtype(dtype: torch.dtype, seeded_weights: None, tmp_path: Path) -> None:
    theirs = made("qwen2").to(dtype)
    ours = loaded(saved(theirs, tmp_path / "theirs"), dtype)
    ours.save_pretrained(tmp_path / "ours")
    assert config_of(tmp_path / "ours")["dtype"] == str(dtype).removeprefix("torch.")
    assert_same(theirs, theirs_again(tmp_path / "ours"))


@pytest.mark.parametrize("size", [20_000, "20KB", "0.02 MB", "19.5 KiB"])
def test_weights_are_cut_into_files_of_a_size(
    size: int | str, seeded_weights: None, tmp_path: Path
) -> None:
    theirs = made("gpt2")
    ours = loaded(saved(theirs, tmp_path / "theirs"))
    told = ours.save_pretrained(tmp_path / "ours", max_shard_size=size)
    files = sorted((tmp_path / "ours").glob("*.safetensors"))
    count = len(files)
    assert count > 3
    expected = [f"model-{n + 1:05d}-of-{count:05d}.safetensors" for n in range(count)]
    assert [file.name for file in files] == expected
    assert set(told.files) == {file.name for file in (tmp_path / "ours").iterdir()}
    assert all(file.stat().st_size < 20_000 + 4000 for file in files)  # a header is shorter
    assert_same(theirs, theirs_again(tmp_path / "ours"))
    assert_same(ours, loaded(tmp_path / "ours"))
    index = json.loads((tmp_path / "ours" / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == sum(4 * p.numel() for p in ours.parameters())


@pytest.mark.parametrize("size", [0, -1, True, "5", "GB", "0KB", "5 XB", None, 1.5])
def test_a_size_that_is_none(size: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        Transformer(TransformerConfig(**SIZES)).save_pretrained(tmp_path, max_shard_size=size)
    assert str(caught.value) == (
        "max_shard_size: expected bytes as a positive whole number, or a text such as '5GB', "
        f"got {size!r}"
    )


def test_what_no_family_tells_is_said_and_saved_in_our_spelling(tmp_path: Path) -> None:
    config = TransformerConfig(**SIZES, positions=Alibi(), d_v=4)
    model = Transformer(config)
    why = (
        "no released family has this shape; the nearest, llama (LlamaForCausalLM), differs in, "
        "2 faults:\n"
        "  - d_v: 4 here, 8 there\n"
        "  - positions: Alibi() here, Rotary(theta=10000.0, scaling=None, width=None, "
        "interleaved=False) there"
    )
    with pytest.raises(UnsupportedError) as caught:
        model.save_pretrained(tmp_path / "a", spelling="transformers")
    assert str(caught.value) == (
        f'spelling="transformers": {why}\nspelling="clearhead" writes what from_pretrained reads '
        "back"
    )
    assert not (tmp_path / "a").exists()
    told = model.save_pretrained(tmp_path / "a")
    assert (told.model_type, told.difference) == ("clearhead", why)
    assert loaded(tmp_path / "a").config == config


def test_a_longer_pattern_that_says_the_same_is_the_same(tmp_path: Path) -> None:
    config = TransformerConfig(**SIZES, pattern=(LayerKind(), LayerKind()))
    assert Transformer(config).save_pretrained(tmp_path).model_type == "llama"


def test_no_such_spelling(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        Transformer(TransformerConfig(**SIZES)).save_pretrained(tmp_path, spelling="gguf")
    said = "spelling: expected 'transformers', 'clearhead' or None, got 'gguf'"
    assert str(caught.value) == said


def test_a_changed_configuration_is_told_anew(seeded_weights: None, tmp_path: Path) -> None:
    ours = loaded(saved(made("llama"), tmp_path / "theirs"))
    ours.config = replace(ours.config, softcap=3.0)
    assert ours.save_pretrained(tmp_path / "ours").model_type == "clearhead"
    assert loaded(tmp_path / "ours").config == ours.config


def test_a_copy_is_saved_as_the_model_is(seeded_weights: None, tmp_path: Path) -> None:
    theirs = made("mistral window")
    ours = copy.deepcopy(loaded(saved(theirs, tmp_path / "theirs")))
    assert ours.save_pretrained(tmp_path / "ours").model_type == "mistral"
    assert_same(theirs, theirs_again(tmp_path / "ours"))


def test_a_model_may_be_saved_over_the_files_it_is_mapped_to(
    seeded_weights: None, tmp_path: Path
) -> None:
    theirs = made("qwen3")
    ours = loaded(saved(theirs, tmp_path))
    for _ in range(2):
        ours.save_pretrained(tmp_path)
        assert_same(theirs, theirs_again(tmp_path))
    assert_same(ours, loaded(tmp_path))


class TestWhatCannotBeSaved:
    def refused(self, model: Transformer, tmp_path: Path) -> str:
        with pytest.raises(InputError) as caught:
            model.save_pretrained(tmp_path / "a")
        assert not (tmp_path / "a").exists()
        return str(caught.value)

    def test_other_parameters_than_the_configuration_gives(self, tmp_path: Path) -> None:
        model = Transformer(TransformerConfig(**SIZES))
        model.token_embedding = nn.Embedding(31, 32)
        model.layers[0].feed_forward.gate = None
        model.extra = nn.Linear(2, 1, bias=False)
        model.register_buffer("count", torch.zeros(2))
        assert self.refused(model, tmp_path) == (
            "this model cannot be saved, 4 faults:\n"
            "  - missing layers.0.feed_forward.gate.weight (48, 32)\n"
            "  - unexpected count\n"
            "  - unexpected extra.weight\n"
            "  - token_embedding.weight has shape (31, 32), and the configuration says (30, 32)"
        )

    def test_a_head_that_is_tied_no_more(self, tmp_path: Path) -> None:
        model = Transformer(TransformerConfig(**SIZES, tied_embeddings=True))
        model.to_logits.weight = nn.Parameter(torch.ones(30, 32))
        said = "this model cannot be saved: unexpected to_logits.weight"
        assert self.refused(model, tmp_path) == said

    def test_numbers_that_are_not_there(self, tmp_path: Path) -> None:
        with torch.device("meta"):
            model = Transformer(TransformerConfig(**{**SIZES, "layers": 1}))
        assert self.refused(model, tmp_path).splitlines()[:2] == [
            "this model cannot be saved, 12 faults:",
            "  - token_embedding.weight has a shape and no numbers: it lies on the meta device",
        ]

    def test_numbers_of_other_kinds(self, tmp_path: Path) -> None:
        model = Transformer(TransformerConfig(**SIZES))
        model.final_norm.weight.data = torch.ones(32, dtype=torch.complex64)
        assert self.refused(model, tmp_path) == (
            "this model cannot be saved: final_norm.weight holds torch.complex64, expected one of "
            "torch.float64, torch.float32, torch.float16, torch.bfloat16"
        )

    @pytest.mark.usefixtures("seeded_weights")
    def test_kinds_that_a_family_keeps_in_one_tensor(self, tmp_path: Path) -> None:
        model = loaded(saved(made("gpt2"), tmp_path / "theirs"))
        key = model.layers[1].attention.to_key
        key.weight.data = key.weight.data.double()
        assert self.refused(model, tmp_path) == (
            "this model cannot be saved: transformer.h.1.attn.c_attn.weight would hold tensors of "
            "several dtypes"
        )
        model.save_pretrained(tmp_path / "b", spelling="clearhead")


@pytest.mark.parametrize("engine", [None, "clearhead"])
def test_our_spelling_with_a_fault_is_refused_by_us(engine: str | None, tmp_path: Path) -> None:
    Transformer(TransformerConfig(**SIZES)).save_pretrained(tmp_path, spelling="clearhead")
    told = config_of(tmp_path)
    told["transformer"]["heads"] = "4"
    (tmp_path / "config.json").write_text(json.dumps(told))
    with pytest.raises(CheckpointError) as caught:
        load(read_folder(tmp_path), engine=engine, dtype=None, device=None, name="tiny")
    assert str(caught.value) == (
        f"{tmp_path / 'config.json'} cannot be read: the config of this clearhead model: "
        "transformer.heads must be a whole number, got '4'"
    )
