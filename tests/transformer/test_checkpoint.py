"""Real models by name: each kind of name, and what is told of one that is none."""

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from clearhead.errors import CheckpointError, InputError, UnknownModelError
from clearhead.transformer import checkpoint
from clearhead.transformer.checkpoint import Resolved, from_pretrained, resolve
from clearhead.transformer.fetch import PACKAGES
from tests.transformer.gguf.tiny_gguf import random_tensors, write_gguf
from tests.transformer.tiny_llama import make

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def unknown(name: object, **options: str) -> str:
    with pytest.raises(CheckpointError) as caught:
        resolve(name, **options)
    return str(caught.value)


NONE = ["nope", "SmolLM2", "", "a/b/c", "/no/such/folder", "x.gguf", "a\0b", "\ud800", "x" * 300]


@pytest.mark.parametrize("name", [None, 3, b"smollm2", ["smollm2"]])
def test_what_is_no_name(name: object) -> None:
    with pytest.raises(InputError) as caught:
        from_pretrained(name)
    assert str(caught.value) == f"name_or_path: expected a name or a path, got {name!r}"


@pytest.mark.parametrize("name", [*NONE, "~no such user/x", "x" * 300 + "/a/b"])
def test_an_unknown_name_is_told_what_can_be_given(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownModelError) as caught:
        from_pretrained(name)
    assert str(caught.value) == (
        f"no model is called {name!r}; expected smollm2, minilm, a folder with config.json, "
        "a GGUF file, or a hub name such as 'org/name'"
    )


def test_an_unknown_name_is_told_before_torch_is_imported() -> None:
    code = (
        "import sys\n"
        "from clearhead.errors import UnknownModelError\n"
        "from clearhead.transformer.checkpoint import from_pretrained\n"
        "try: from_pretrained('nope')\n"
        "except UnknownModelError: print(sorted({'torch', 'transformers'} & set(sys.modules)))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_a_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    assert unknown(tmp_path) == (
        f"{tmp_path} holds no config.json: expected a model folder, with config.json, "
        "model.safetensors and tokenizer.json"
    )
    (tmp_path / "config.json").write_text("{}")
    assert resolve(tmp_path) == Resolved(tmp_path, tmp_path.name)
    assert resolve(str(tmp_path)) == Resolved(tmp_path, tmp_path.name)


def test_a_folder_is_called_by_its_name_however_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "tiny.model" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "tiny.model" / "config.json").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "tiny.model")
    monkeypatch.chdir(tmp_path / "tiny.model")
    for given in (".", "./", "inner/..", tmp_path / "tiny.model", "../tiny.model/."):
        assert resolve(given).name == "tiny.model"
    assert resolve("../link").name == "link"
    monkeypatch.chdir(inner)
    assert resolve("..").name == "tiny.model"


def test_the_working_directory_as_a_model(
    tiny_llama: "LlamaForCausalLM", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny").mkdir()
    tiny_llama.save_pretrained(tmp_path / "tiny")
    monkeypatch.chdir(tmp_path / "tiny")
    model = from_pretrained(".")
    assert model.clearhead_name == "tiny"
    assert model.clearhead_origin == "tiny float32, as stored"


def test_an_alias_goes_before_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minilm").mkdir()
    (tmp_path / "minilm" / "config.json").write_text("{}")
    monkeypatch.setattr(checkpoint, "fetch", lambda package: tmp_path / "minilm" / package.alias)
    (tmp_path / "minilm" / "minilm").mkdir()
    (tmp_path / "minilm" / "minilm" / "config.json").write_text("{}")
    assert resolve("minilm") == Resolved(tmp_path / "minilm" / "minilm", "minilm")
    assert resolve("./minilm") == Resolved(Path("minilm"), "minilm")


def test_an_alias_keeps_its_name_beside_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smollm2").mkdir()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "config.json").write_text("{}")
    monkeypatch.setattr(checkpoint, "fetch", lambda _package: tmp_path / "package")
    assert resolve("smollm2") == Resolved(tmp_path / "package", "smollm2")


def test_a_gguf_file_by_its_name_or_by_its_content(tmp_path: Path, cache: Path) -> None:
    file = write_gguf(tmp_path / "x.gguf", random_tensors(0))
    found = resolve(file)
    assert found.folder.parent == cache / "models"
    assert found.name == "x.gguf"
    renamed = file.rename(tmp_path / "x.model")
    assert resolve(renamed) == Resolved(found.folder, "x.model")


def test_a_file_that_is_no_model(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"cos\nsystem\n")
    assert unknown(tmp_path / "x.bin") == (
        f"{tmp_path / 'x.bin'} is no GGUF file and no folder; expected one of these, or an alias "
        "or hub name"
    )
    (tmp_path / "x.gguf").write_bytes(b"")
    assert unknown(tmp_path / "x.gguf").startswith(f"{tmp_path / 'x.gguf'} cannot be read as GGUF")
    assert unknown("/dev/null").startswith("/dev/null is no GGUF file and no folder")
    assert not cache.exists() or not list(cache.rglob("*.safetensors"))


def test_a_hub_name_is_asked_for_with_its_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    from clearhead.transformer import hub

    asked = []
    monkeypatch.setattr(
        hub, "from_hub", lambda name, *, revision: asked.append((name, revision)) or Path("/there")
    )
    there = Resolved(Path("/there"), "org/na.me-1")
    assert resolve("org/na.me-1") == there
    assert resolve("org/na.me-1", revision="v1") == there
    assert asked == [("org/na.me-1", None), ("org/na.me-1", "v1")]


def test_only_a_hub_name_has_revisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "fetch", None)  # nothing is fetched only to be refused
    for given in (str(tmp_path), "smollm2"):
        with pytest.raises(InputError) as caught:
            resolve(given, revision="v1")
        said = f"revision: only a hub name has one, and {given!r} is none"
        assert str(caught.value) == said


def test_no_such_engine() -> None:
    with pytest.raises(InputError) as caught:
        from_pretrained("smollm2", engine="jax")
    said = "engine: expected 'clearhead', 'transformers' or None, got 'jax'"
    assert str(caught.value) == said


@pytest.mark.real_model
def test_the_default_model_is_the_one_that_was_recorded(smollm2_folder: Path) -> None:
    assert smollm2_folder.name == PACKAGES[0].carried_sha256
    facts = json.loads((smollm2_folder / "clearhead.json").read_text(encoding="utf-8"))
    assert facts["origin"] == "SmolLM2-135M-Instruct Q4_1, dequantised to float32"
    assert facts["files"]["model.safetensors"] == 538_092_792


@pytest.mark.real_model
@pytest.mark.parametrize("engine", ["clearhead", "transformers"])
def test_paris(engine: str, smollm2_folder: Path) -> None:
    import torch

    model = from_pretrained("smollm2", engine=engine)
    tokenizer = model.clearhead_tokenizer
    ids = torch.tensor([tokenizer.encode("The capital of France is")])
    with torch.no_grad():
        likely = model(ids).logits[0, -1].softmax(-1).max(-1)
    assert tokenizer.decode([int(likely.indices)]) == " Paris"
    assert round(float(likely.values), 3) == 0.773  # 0.7725, as every faithful reading gives


@pytest.mark.real_model
@pytest.mark.parametrize("engine", ["clearhead", "transformers"])
def test_an_encoder_with_its_tokenizer(engine: str, minilm_folder: Path) -> None:
    model = from_pretrained("minilm", engine=engine)
    assert type(model).__name__ == ("Transformer" if engine == "clearhead" else "BertModel")
    assert model.clearhead_origin == "all-MiniLM-L6-v2, float32 as released"
    ids = model.clearhead_tokenizer.encode("word " * 300)
    assert len(ids) == 302  # its file asks for at most 128, and a text is given whole


def test_pickled_weights_are_read_only_where_they_are_asked_for(tmp_path: Path) -> None:
    theirs = make()
    theirs.save_pretrained(tmp_path)
    torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match='give weights="pickle", which reads tensors alone'):
        from_pretrained(tmp_path)
    ours = from_pretrained(tmp_path, weights="pickle")
    assert torch.equal(ours.to_logits.weight, theirs.lm_head.weight)
