"""A hub that cannot be reached is told at once; what it does not have is told by name."""

import os
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import errors

from clearhead.errors import CheckpointError, UnknownModelError
from clearhead.transformer.hub import from_hub

_ASK = """
import sys
from clearhead.errors import CheckpointError
from clearhead.transformer.hub import from_hub
try:
    from_hub("org/name", revision=None)
except CheckpointError as fault:
    print(fault)
"""


@pytest.mark.parametrize(
    ("setting", "how"),
    [
        ({"HF_HUB_OFFLINE": "1"}, " (HF_HUB_OFFLINE is set)"),
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, ""),  # nobody listens there
    ],
)
def test_no_network_is_told_once(setting: dict[str, str], how: str, tmp_path: Path) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    asked = subprocess.run(
        [sys.executable, "-c", _ASK],
        env=own | {"HF_HOME": str(tmp_path)} | setting,
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stdout == (
        "'org/name' is no folder here, was not fetched before, and the model hub cannot be reached"
        f"{how}; connect to it once, or give a model folder or a GGUF file\n"
    )
    assert asked.stderr == ""


def answering(monkeypatch: pytest.MonkeyPatch, answer: object) -> list[dict[str, object]]:
    """Let the hub's library give this answer; what it was asked."""
    asked: list[dict[str, object]] = []

    def download(name: str, **options: object) -> object:
        asked.append({"name": name, **options})
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return asked


def test_only_weights_that_are_no_programs_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, "/a/folder")
    assert from_hub("org/name", revision="v1") == Path("/a/folder")
    assert asked[0]["name"] == "org/name"
    assert asked[0]["revision"] == "v1"
    patterns = asked[0]["allow_patterns"]
    assert isinstance(patterns, list)
    assert "*.safetensors" in patterns
    assert not {"*", "*.bin", "*.py", "*.pt"} & set(patterns)


def test_the_library_speaks_again_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub.utils import are_progress_bars_disabled, logging

    before = logging.get_verbosity(), are_progress_bars_disabled()
    answering(monkeypatch, OSError("broken"))
    with pytest.raises(CheckpointError):
        from_hub("org/name", revision=None)
    assert (logging.get_verbosity(), are_progress_bars_disabled()) == before


@pytest.mark.parametrize(
    ("answer", "revision", "kind", "said"),
    [
        (
            errors.HFValidationError("no such name"),
            None,
            UnknownModelError,
            "the model hub shows no model 'org/name'",
        ),
        (
            errors.HFValidationError("no such name"),
            "v9",
            UnknownModelError,
            "the model hub shows no model 'org/name' at revision 'v9'",
        ),
        (
            OSError("disk full\nand more"),
            None,
            CheckpointError,
            "'org/name' cannot be fetched from the model hub: disk full",
        ),
        (
            TimeoutError(),
            None,
            CheckpointError,
            "'org/name' cannot be fetched from the model hub: TimeoutError",
        ),
    ],
)
def test_other_answers(
    answer: Exception,
    revision: str | None,
    kind: type[CheckpointError],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering(monkeypatch, answer)
    with pytest.raises(kind) as caught:
        from_hub("org/name", revision=revision)
    assert str(caught.value) == said
