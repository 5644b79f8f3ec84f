"""What a person may import: there, documented, and light until it is used."""

import subprocess
import sys

import pytest

import clearhead as ch


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ch.__all__)
def test_a_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(ch, name)
    assert value.__name__ == name
    first = (value.__doc__ or "").strip().splitlines()[:1]
    assert first, f"{name} has no docstring"
    assert first[0].endswith((".", ":")), f"{name}: its docstring begins with no full sentence"


def test_names_are_listed_once_and_shown_by_dir() -> None:
    assert len(set(ch.__all__)) == len(ch.__all__)
    assert set(ch.__all__) <= set(dir(ch))


def test_every_error_is_public() -> None:
    from clearhead import errors

    trees = {name for name in errors.__all__ if name.endswith("Error")}
    assert trees <= set(ch.__all__)
    assert all(issubclass(getattr(ch, name), ch.ClearheadError) for name in trees)


def test_a_star_import_gives_the_public_names() -> None:
    found: dict[str, object] = {}
    exec("from clearhead import *", found)  # noqa: S102  a star import is allowed at module level only
    assert set(ch.__all__) <= found.keys()


def test_an_unknown_name_is_said_as_python_says_it() -> None:
    with pytest.raises(AttributeError, match=r"^module 'clearhead' has no attribute 'attend'$"):
        _ = ch.attend


@pytest.mark.parametrize(
    "code",
    [
        "import clearhead",
        "import clearhead; clearhead.ClearheadError; dir(clearhead)",
        "import clearhead.quantities",
        "import clearhead.transformer.config; import clearhead; clearhead.TransformerConfig",
        "import clearhead.cli",
    ],
)
def test_what_needs_no_tensors_imports_no_torch(code: str) -> None:
    heavy = "{'torch', 'transformers', 'pandas'}"
    run = _python(f"{code}\nimport sys; print(sorted({heavy} & sys.modules.keys()))")
    assert run.stdout == "[]\n", run.stderr


def test_transformers_comes_only_with_hugging_face_models() -> None:
    code = "import sys, clearhead as ch; ch.attention, ch.AttentionMatrix, ch.causal_mask, ch.trace"
    run = _python(f"{code}\nprint('transformers' in sys.modules)")
    assert run.stdout == "False\n", run.stderr


def test_the_package_runs_as_a_module() -> None:
    arguments = [sys.executable, "-m", "clearhead", "--help"]
    run = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "look" in run.stdout
