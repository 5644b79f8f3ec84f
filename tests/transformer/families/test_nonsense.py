"""A value that means nothing is refused by key and value; one that others may know is left to them.

Every number of every family's config, also those within groups, is given what is none.
"""

import copy
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from clearhead.errors import CheckpointError
from clearhead.transformer.checkpoint import from_pretrained
from clearhead.transformer.families.keys import HARMLESS, NonsenseError
from clearhead.transformer.families.known import FAMILIES, from_hugging_face
from clearhead.transformer.families.spelling import means
from clearhead.transformer.model import Transformer
from tests.transformer.released_families import RELEASED, made, saved

NONSENSE = [-1, -0.5, math.nan, math.inf, True, "3", 10**400, [1]]
#: May be a number of nothing, or be read as none at all: these are judged by their meaning.
ODD = [0, None, 10**30, 1.5]
#: Begin what is said of values that do not go together.
TOGETHER = ("these values make no Transformer", "Llama3Scaling: ", "T5Buckets: ")
#: Keys that no number of a model depends on, or that another one tells again.
UNREAD = {"n_positions", "num_hidden_layers", "sliding_window"}


def settings(variant: str) -> dict[str, Any]:
    kind = getattr(transformers, RELEASED[variant][0]).config_class
    told = kind(**copy.deepcopy(RELEASED[variant][1])).to_dict()
    return {**told, "architectures": [RELEASED[variant][0]]}


def numbers(told: dict[str, Any], *path: str) -> Iterator[tuple[str, ...]]:
    """Where the numbers stand, but for those that no model is made of."""
    for name, value in told.items():
        if name in HARMLESS:
            continue
        if isinstance(value, dict):
            yield from numbers(value, *path, name)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield (*path, name)


def changed(told: dict[str, Any], path: tuple[str, ...], value: object) -> dict[str, Any]:
    """The same with another value at a place."""
    again = copy.deepcopy(told)
    group = again
    for name in path[:-1]:
        group = group[name]
    group[path[-1]] = value
    return again


@pytest.mark.parametrize("variant", RELEASED)
def test_nonsense_is_refused_by_key_and_value(variant: str) -> None:
    told = settings(variant)
    family = FAMILIES[told["model_type"]]
    found = [path for path in numbers(told) if path[-1] not in family.harmless]
    assert len(found) > 4
    for path in found:
        unread = refused_as_nonsense(told, path, "x") is None
        assert not unread or path[-1] in UNREAD, path
        for value in NONSENSE:
            said = refused_as_nonsense(told, path, value)
            if unread:
                assert said is None
            else:
                assert said is not None, (path, value)
                assert path[-1] in said
                assert f"got {value!r}" in said


def refused_as_nonsense(told: dict[str, Any], path: tuple[str, ...], value: object) -> str | None:
    """What is said of a value; None where it changes nothing."""
    given = changed(told, path, value)
    try:
        assert means(told, from_hugging_face(given))
    except NonsenseError as fault:
        return str(fault)
    return None


@pytest.mark.parametrize("variant", RELEASED)
def test_what_may_mean_something_is_read_or_refused_by_name(variant: str) -> None:
    told = settings(variant)
    for path in numbers(told):
        for value in ODD:
            said = refused(changed(told, path, value)) or path[-1]
            assert any(name in said for name in (path[-1], *TOGETHER)), (path, value)


def refused(told: dict[str, Any]) -> str | None:
    try:
        from_hugging_face(told)
    except CheckpointError as fault:
        return str(fault)
    return None


def test_an_epsilon_of_nothing_is_another_readers_to_judge() -> None:
    told = settings("llama")
    with pytest.raises(CheckpointError) as caught:
        from_hugging_face({**told, "rms_norm_eps": 0})
    assert not isinstance(caught.value, NonsenseError)
    assert str(caught.value) == (
        "the config of this llama model: rms_norm_eps must be a positive number, got 0"
    )


@pytest.fixture
def folder(seeded_weights: None, tmp_path: Path) -> Path:
    return saved(made("llama"), tmp_path)


def rewrite(folder: Path, **keys: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | keys))


@pytest.mark.parametrize("engine", [None, "clearhead", "transformers"])
@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("max_position_embeddings", 0, "a positive whole number"),
        ("rms_norm_eps", math.inf, "a positive number"),
        ("rms_norm_eps", math.nan, "a positive number"),
        ("rms_norm_eps", -1e-6, "a positive number"),
    ],
)
def test_no_engine_loads_nonsense(
    key: str, value: object, expected: str, engine: str | None, folder: Path
) -> None:
    rewrite(folder, **{key: value, "attn_cap": 3})
    with pytest.raises(CheckpointError) as caught:
        from_pretrained(folder, engine=engine)
    assert str(caught.value) == (
        f"{folder / 'config.json'} cannot be read: the config of this llama model, 2 faults:\n"
        f"  - {key} must be {expected}, got {value!r}\n"
        "  - attn_cap is not known here, got 3"
    )


def test_a_setting_that_only_others_know_is_theirs(folder: Path) -> None:
    for keys in ({"attn_cap": 3}, {"rms_norm_eps": 0.0}):
        rewrite(folder, **{"rms_norm_eps": 1e-6, **keys})
        assert type(from_pretrained(folder)).__name__ == "LlamaForCausalLM"


# -------------------------------------------------------------- what transformers does not look at

ROPES = {
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "yarn": {"factor": 4.0},
    "longrope": {"short_factor": [1.0, 1.5, 2.0, 2.5], "long_factor": [2, 3, 4, 5]},
}
ORIGINAL = "original_max_position_embeddings"
CASES = {
    "a mistral with kinds of layers": (
        "mistral window",
        {"layer_types": ["full_attention", "sliding_attention"]},
    ),
    "a phi-3 with kinds of layers": (
        "phi3 window",
        {"layer_types": ["full_attention", "sliding_attention"]},
    ),
    **{
        f"{name}, part of a head": (name, {"partial_rotary_factor": 0.5})
        for name in ("llama", "mistral", "qwen2", "qwen3", "phi3", "gemma2 windows")
    },
    "llama, part of a head in a group": (
        "llama",
        {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}},
    ),
    "gpt_neox, another family's names": (
        "gpt_neox serial",
        {"rope_theta": 7.0, "partial_rotary_factor": 0.5},
    ),
    **{
        f"{name} {kind}, both contexts": (
            name,
            {"rope_parameters": {"rope_type": kind, **rope, ORIGINAL: 32}, ORIGINAL: 8},
        )
        for kind, rope in ROPES.items()
        for name in ("llama", "mistral", "qwen2")
    },
    **{
        f"llama {kind}, the context outside": (
            "llama",
            {"rope_parameters": {"rope_type": kind, **rope}, ORIGINAL: 8},
        )
        for kind, rope in ROPES.items()
    },
}


@torch.no_grad()
@pytest.mark.parametrize("case", CASES)
def test_what_transformers_ignores_is_ignored_and_what_it_prefers_preferred(
    case: str, seeded_weights: None, tmp_path: Path, generator: torch.Generator
) -> None:
    variant, keys = CASES[case]
    folder = saved(made(variant), tmp_path)
    rewrite(folder, **keys)
    ours, theirs = from_pretrained(folder), from_pretrained(folder, engine="transformers")
    assert isinstance(ours, Transformer)
    ids = torch.randint(3, 99, (2, 7), generator=generator)
    torch.testing.assert_close(ours(ids).logits, theirs(ids).logits)
