"""Where a model's texts begin and end, by its files."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from torch import nn

from clearhead.errors import CheckpointError
from clearhead.tokens.tokenizer import TextTokenizer
from clearhead.transformer.generation.endings import Endings, endings_of
from tests.tokens import tiny

WORDS = TextTokenizer(
    TextTokenizer.wrap(tiny.byte_level())._backend, special_tokens={"eos_token": "</s>"}
)


def model(folder: Path, keys: dict[str, object], generation: object = None) -> nn.Module:
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    made = nn.Module()
    vars(made).update(clearhead_released=SimpleNamespace(folder=folder, keys=keys))
    return made


def test_the_first_that_names_an_end_names_them_all(tmp_path) -> None:
    both = model(tmp_path, {"eos_token_id": 7}, {"eos_token_id": [5, 6]})
    assert endings_of(both, WORDS) == Endings(end=(5, 6))
    assert endings_of(model(tmp_path, {"eos_token_id": 7}, {}), WORDS) == Endings(end=(7,))
    assert endings_of(model(tmp_path, {"eos_token_id": None}, {}), WORDS) == Endings(end=(1,))
    assert endings_of(model(tmp_path, {}, {}), None) == Endings()


def test_a_model_of_ones_own_has_its_tokenizers() -> None:
    assert endings_of(nn.Module(), WORDS) == Endings(end=(1,))
    assert endings_of(nn.Module(), TextTokenizer.wrap(tiny.byte_level())) == Endings()


def test_where_a_decoder_begins(tmp_path) -> None:
    keys = {"decoder_start_token_id": 2, "forced_bos_token_id": 0}
    assert endings_of(model(tmp_path, keys), None).start == (2, 0)
    found = endings_of(model(tmp_path, keys, {"decoder_start_token_id": 9}), None)
    assert found.start == (9, 0)
    assert endings_of(model(tmp_path, {"forced_bos_token_id": 0}, {}), None).start == ()


@pytest.mark.parametrize("value", ["abc", [1.5], -7, [3, -1], 2**63, 10**30, True, [None], {}, 1.0])
def test_what_is_no_id_is_refused_with_its_file(value, tmp_path) -> None:
    told = f"must be the id of a token, or a list of them, got {value!r}"
    for given, name in (
        (({"eos_token_id": value}, {}), "config.json"),
        (({}, {"eos_token_id": value}), "generation_config.json"),
    ):
        with pytest.raises(CheckpointError) as caught:
            endings_of(model(tmp_path, *given), WORDS)
        assert str(caught.value) == f"{tmp_path / name} cannot be read: eos_token_id {told}"


def test_all_that_are_no_ids_stand_in_one_message(tmp_path) -> None:
    keys = dict.fromkeys(("eos_token_id", "decoder_start_token_id", "forced_bos_token_id"), "x")
    with pytest.raises(CheckpointError) as caught:
        endings_of(model(tmp_path, keys), None)
    assert str(caught.value) == (
        f"{tmp_path / 'config.json'} cannot be read, 3 faults:\n"
        + "\n".join(
            f"  - {key} must be the id of a token, or a list of them, got 'x'" for key in keys
        )
    )


def test_an_id_beyond_the_vocabulary_ends_nothing_and_is_none_of_our_business(tmp_path) -> None:
    assert endings_of(model(tmp_path, {"eos_token_id": 50_256}), None).end == (50_256,)
    assert endings_of(model(tmp_path, {"eos_token_id": []}), WORDS).end == (1,)


@pytest.mark.parametrize("text", ["{", "[]", "\xff"])
def test_a_damaged_file_is_named(text, tmp_path) -> None:
    file = tmp_path / "generation_config.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(CheckpointError) as caught:
        endings_of(model(tmp_path, {}), None)
    assert str(caught.value).startswith(f"{file} cannot be read: ")
