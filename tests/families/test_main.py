import json
from pathlib import Path

import pytest

from families import __main__ as program
from families.verdict import Verdict


@pytest.fixture(autouse=True)
def _judged_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def made(family: str, task: str) -> Verdict:
        wrong = family == "gpt2"
        kind = "WRONG" if wrong else "traced"
        return Verdict(family, task, "Model", kind=kind, layers=4, error=float(wrong))

    monkeypatch.setattr(program, "verdict_apart", made)
    monkeypatch.setattr(program, "PAGE", tmp_path / "families.md")


def test_families_are_named_with_or_without_their_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["bert"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1/2 causal/bert: traced, 4 layers, error 0.0e+00",
        "2/2 masked/bert: traced, 4 layers, error 0.0e+00",
        "0 WRONG, 2 traced, 0 refused, 0 not made",
    ]
    assert program.main(["masked/bert", "--json"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line)["task"] == "masked"


def test_a_wrong_one_is_loud(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["gpt2"]) == 1
    assert "WRONG, 4 layers, error 1.0e+00  <<<<<<<<" in capsys.readouterr().out


def test_the_page_is_of_all_families() -> None:
    program.main(["--write"])
    page = program.PAGE.read_text("utf-8")
    assert "| llama |" in page
    assert "| t5 |" in page
    with pytest.raises(SystemExit):
        program.main(["--write", "llama"])


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main(["lama"])
    assert "no such family: lama" in capsys.readouterr().err
