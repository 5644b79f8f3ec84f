"""``clearhead look`` with passages, a question and an answer, and as a page."""

import json
import sys

import pytest

import clearhead
from clearhead.cli import run
from tests.report.documents.readers import reader

QUESTION = ["--question", "Who sang?"]
SHORT = ["--max-new-tokens", "5"]


@pytest.fixture(autouse=True)
def _a_quiet_place(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    for name in ("TRANSFORMERS_VERBOSITY", "HF_HUB_VERBOSITY"):
        monkeypatch.setenv(name, "error")
    for name in ("CLEARHEAD_DEBUG", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def loaded(monkeypatch, seeded_weights):
    """A small model behind every name; how often it was asked for."""
    asked: list[str] = []

    def from_pretrained(name, **_options):
        asked.append(name)
        return reader(context_length=900)

    monkeypatch.setitem(vars(clearhead), "from_pretrained", from_pretrained)
    return asked


@pytest.fixture
def files(tmp_path):
    """Three passages, two of one name."""
    for name in ("a/notes.txt", "b/notes.txt", "c.txt"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"what {name} says\n", encoding="utf-8")
    return ["--passage", "a/notes.txt", "--passage", "b/notes.txt", "--passage", "c.txt"]


def refused(capsys, *arguments: str) -> str:
    assert run(["look", *arguments]) == 2
    shown, said = capsys.readouterr()
    assert shown == ""
    assert said.startswith("clearhead: error: ")
    assert said.count("\n") == 1
    return said.removeprefix("clearhead: error: ").rstrip("\n")


# ------------------------------------------------------------------------------------------ answers


def test_an_answer_is_shown_passage_by_passage(files, loaded, capsys):
    assert run(["look", *files, *QUESTION, *SHORT]) == 0
    shown, said = capsys.readouterr()
    assert said == ""
    assert "Question: Who sang?" in shown
    for name in ("a/notes.txt", "b/notes.txt", "c.txt", "question"):
        assert f"%  {name}" in shown
    assert "The answer was cut at 5 tokens; max_new_tokens changes that." in " ".join(shown.split())
    assert loaded == ["smollm2"]


def test_json_has_every_number_of_the_answer(files, loaded, capsys):
    assert run(["look", *files, *QUESTION, "--answer", "he did", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    documents = made["documents"]
    assert made["format"] == "clearhead-look/1"
    assert [one["name"] for one in documents["segments"]][-1] == "question"
    assert documents["answer"]["text"] == "he did"
    assert documents["answer"]["generated"] is False
    assert made["strip"]["target"] == documents["answer"]["start"]
    assert len(documents["each"]) == documents["answer"]["stop"] - documents["answer"]["start"]
    for entry in (documents["average"], *documents["each"]):
        shares = entry["contribution"]
        whole = sum(shares["segments"]) + shares["elsewhere"] + shares["answer"]
        assert whole == pytest.approx(1, abs=1e-5)


def test_a_question_needs_no_passages(loaded, capsys):
    assert run(["look", *QUESTION, *SHORT, "--json"]) == 0
    documents = json.loads(capsys.readouterr().out)["documents"]
    assert [one["name"] for one in documents["segments"]] == ["question"]


@pytest.mark.parametrize("how", [["--answer", "he did"], SHORT])
def test_an_answer_may_follow_a_text(how, loaded, capsys):
    assert run(["look", "he sang", *how, "--json"]) == 0
    documents = json.loads(capsys.readouterr().out)["documents"]
    assert [one["name"] for one in documents["segments"]] == ["text"]


def test_a_plain_look_has_no_documents(loaded, capsys):
    assert run(["look", "he sang", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["documents"] is None
    assert made["strip"]["target"] == len(made["strip"]["tokens"]) - 1


def test_a_token_of_the_prompt_is_refused(files, loaded, capsys):
    told = refused(capsys, *files, *QUESTION, "--answer", "he did", "--token", "sang")
    assert "in the prompt: an answer is looked from its own tokens, " in told


# ----------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--passage", "c.txt"], "--question is missing: add what is asked about the passages"),
        (["--question", " "], "--question is empty"),
        ([*QUESTION, "--answer", ""], "--answer is empty"),
        (["text", *QUESTION], "--question is asked with --passage or alone; leave out the text"),
        (
            [*QUESTION, "--max-new-tokens", "0"],
            "--max-new-tokens must be a whole number of at least 1, got 0",
        ),
        (
            ["text", "--answer", "a", *SHORT],
            "--max-new-tokens is for an answer that the model writes: leave it or --answer out",
        ),
    ],
)
def test_what_is_asked_wrongly_is_said_before_a_model_is_loaded(
    arguments, told, files, loaded, capsys
):
    assert refused(capsys, *arguments) == f"cannot look: {told}"
    assert loaded == []


def test_all_passages_that_cannot_be_read_are_named(files, loaded, capsys, tmp_path):
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "data").write_bytes(b"\x7fELF\0")
    names = ("c.txt", "empty.txt", "missing.txt", "latin.txt", "data")
    passages = [part for name in names for part in ("--passage", name)]
    assert refused(capsys, *passages, *QUESTION) == (
        "cannot read the passages, 4 faults: --passage: expected at least one word; empty.txt is "
        "empty; --passage: cannot read missing.txt: No such file or directory; --passage: expected "
        "UTF-8; latin.txt is not, at byte 3; convert it first; --passage: expected text; data is "
        "binary, it holds NUL bytes"
    )
    assert loaded == []


def test_what_does_not_fit_is_named_and_no_page_is_left(files, loaded, capsys, tmp_path):
    (tmp_path / "long.txt").write_text("he " * 900)
    told = refused(
        capsys, *files, "--passage", "long.txt", *QUESTION, "--html", "page.html", *SHORT
    )
    assert "tiny reads 900: " in told
    assert "What does not fit: 'long.txt' (" in told
    assert not list(tmp_path.glob("*page*"))


# ------------------------------------------------------------------------------------------- pages


@pytest.mark.parametrize("arguments", [["he sang"], [*QUESTION, "--answer", "he did"]])
def test_a_page_is_written_beside_what_is_printed(arguments, loaded, capsys, tmp_path):
    assert run(["look", *arguments, "--html", "page.html"]) == 0
    shown, said = capsys.readouterr()
    assert "drew from, by contribution" in shown
    assert said == "clearhead: the page is in page.html\n"
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert [file.name for file in tmp_path.glob("*page*")] == ["page.html"]


def test_json_has_every_number_of_the_page(loaded, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["clearhead", "look", "he sang", "--html", "a b.html"])
    assert run(["look", "he sang", "--html", "a b.html", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    page = made["page"]
    assert page["command"] == "clearhead look 'he sang' --html 'a b.html'"
    assert page["rows"] == list(range(len(made["strip"]["tokens"])))
    assert len(page["first_token"]) == len(page["rows"])
    assert "look" not in page


@pytest.mark.parametrize("path", ["", ".", "no/such/folder/page.html"])
def test_a_page_that_cannot_be_written_is_refused_before_a_model_is_loaded(
    path, loaded, capsys, tmp_path
):
    assert refused(capsys, "he sang", "--html", path).startswith("page: ")
    assert loaded == []
    assert list(tmp_path.iterdir()) == []
