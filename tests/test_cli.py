"""The command line: exact help, one line for whatever is wrong, nothing half-written."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import clearhead
from clearhead import errors
from clearhead.cli import run
from clearhead.quantities import QUANTITIES
from tests.interrupts import interruptible
from tests.report.fakes import FakeTrace

EXPECTED = Path(__file__).parent / "report" / "expected"
TEXT = "The animal did not cross the street because it was tired."


@pytest.fixture(autouse=True)
def _a_quiet_place(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("TRANSFORMERS_VERBOSITY", "HF_HUB_VERBOSITY"):
        monkeypatch.setenv(name, "error")
    for name in ("CLEARHEAD_DEBUG", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def library(monkeypatch):
    """A library without a model: `asked` for what, and what it `raises`."""

    asked_for = SimpleNamespace(asked=[], raises=None)

    def from_pretrained(name, **options):
        asked_for.asked.append((name, options))
        if asked_for.raises is not None:
            raise asked_for.raises
        return object()

    def trace(_model, text, **options):
        asked_for.asked.append((text, options))
        first, *rest = text.replace(".", " .").split(" ")
        return FakeTrace.of(first, *(f" {word}" for word in rest))

    monkeypatch.setitem(vars(clearhead), "from_pretrained", from_pretrained)
    monkeypatch.setitem(vars(clearhead), "trace", trace)
    return asked_for


def _program(*arguments, **options):
    environment = {**os.environ, "COLUMNS": "80", **options.pop("env", {})}
    command = [sys.executable, "-m", "clearhead", *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, check=False, timeout=60, **options
    )


# ------------------------------------------------------------------------------------------ help


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["--help"], "help"),
        ([], "help"),
        (["look", "--help"], "help_look"),
        (["quantities", "-h"], "help_quantities"),
    ],
)
def test_help(arguments, name, capsys):
    assert run(arguments) == 0
    expected = (EXPECTED / f"{name}.txt").read_text(encoding="utf-8")
    assert capsys.readouterr() == (expected, "")


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr() == (f"clearhead {clearhead.__version__}\n", "")


@pytest.mark.parametrize("arguments", [["--help"], ["look", "--help"], ["quantities"], ["look"]])
def test_light_questions_import_nothing_heavy(arguments):
    script = (
        "import sys; from clearhead.cli import run; run(sys.argv[1:]);"
        "heavy = {'torch', 'transformers', 'numpy', 'gguf', 'pandas'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stderr.decode()


# ------------------------------------------------------------------------------------ what it does


def test_look(library, capsys):
    assert run(["look", TEXT, "--token", "it"]) == 0
    shown, said = capsys.readouterr()
    assert "Where ⟦it⟧ drew from, by contribution" in shown
    assert said == ""
    loaded, looked = ("smollm2", {"engine": None}), (TEXT, {"layers": None, "tokenizer": None})
    assert library.asked == [loaded, looked]


def test_every_option_reaches_its_place(library, capsys):
    options = ["--token", "-2", "--by", "attention", "--layers", "0-2,7", "--top", "3"]
    more = ["--model", "minilm", "--engine", "transformers", "--json"]
    assert run(["look", TEXT, *options, *more]) == 0
    read = json.loads(capsys.readouterr().out)
    assert read["format"] == "clearhead-look/1"
    assert read["strip"]["target"] == 10
    assert read["strip"]["by"] == "attention"
    assert read["head"]["layers"] == [0, 1, 2, 7]
    assert len(read["heads"]["rows"]) == 3
    assert library.asked == [
        ("minilm", {"engine": "transformers"}),
        (TEXT, {"layers": [0, 1, 2, 7], "tokenizer": None}),
    ]


def test_a_word_that_occurs_twice_takes_the_last(library, capsys):
    assert run(["look", "the cat saw the dog", "--token", "the"]) == 0
    assert "Token 3 of 5, counted from 0, the last of 2 such; also at 0." in capsys.readouterr().out


def test_files_and_standard_input(library, capsys, tmp_path, monkeypatch):
    file = tmp_path / "poem.txt"
    file.write_text("a b\n", encoding="utf-8")
    assert run(["look", "--file", str(file)]) == 0

    class Stdin:
        buffer = io.BytesIO(b"c d\n")

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert run(["look", "-"]) == 0
    assert [asked for asked, _ in library.asked] == ["smollm2", "a b", "smollm2", "c d"]


def test_quantities(capsys):
    assert run(["quantities"]) == 0
    shown = capsys.readouterr().out
    assert all(entry.name in shown for entry in QUANTITIES)
    assert run(["quantities", "--json"]) == 0
    named = [entry["name"] for entry in json.loads(capsys.readouterr().out)["quantities"]]
    assert named == [entry.name for entry in QUANTITIES]


# ----------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["look"], "text: expected one of TEXT, --file FILE, - (standard input); got none"),
        (["look", ""], "text: expected at least one word; TEXT is empty"),
        (["look", " \n"], "text: expected at least one word; TEXT is empty"),
        (
            ["look", "a", "--layers", "5-0"],
            "--layers: expected layers and ranges such as 0-5,9; got '5-0'",
        ),
        (
            ["look", "a", "--by", "size"],
            "cannot look: by: expected contribution or attention; got 'size'",
        ),
        (["look", "a", "--top", "0"], "cannot look: top: expected at least 1; got 0"),
        (["look", "a", "--token", ""], "--token: expected a word or a position; got an empty one"),
        (
            ["look", "--file", "/no/such/\x1bfile"],
            "--file: cannot read /no/such/␛file: No such file or directory",
        ),
        (
            ["look", "a b", "--token", "zebra"],
            "token 'zebra' is not in the text; the tokens are 0 'a', 1 ' b'",
        ),
        (
            ["look", "a b", "--layers", "28-31"],
            "cannot look: layers: expected some of 0-29; got 30, 31",
        ),
        (["look", "a", "--zzz", "3"], "No such option: --zzz; see clearhead look --help"),
        (["look", "a", "b"], "Got unexpected extra argument(s) (b); see clearhead look --help"),
        (["see"], "No such command 'see'; see clearhead --help"),
        (["--loud"], "No such option: --loud; see clearhead --help"),
    ],
)
def test_bad_input_gets_one_line(arguments, told, library, capsys):
    assert run(arguments) == 2
    assert capsys.readouterr() == ("", f"clearhead: error: {told}\n")


def test_a_wrong_option_is_refused_before_a_model_is_loaded(library, capsys):
    assert run(["look", "a", "--by", "size"]) == 2
    assert run(["look", "a", "--top", "0"]) == 2
    assert library.asked == []


def _all_errors(kind=errors.ClearheadError):
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _all_errors(child)


@pytest.mark.parametrize("kind", [*_all_errors()])
def test_every_error_on_purpose_gets_one_line(kind, library, capsys):
    faults = ["missing tensor: a.weight", "unexpected tensor: b.\x1b[2Jweight"]
    library.raises = kind(errors.gathered("reading /some/model", faults))
    assert run(["look", TEXT]) == 2
    told = (
        "clearhead: error: reading /some/model, 2 faults: missing tensor: a.weight;"
        " unexpected tensor: b.␛[2Jweight\n"
    )
    assert capsys.readouterr() == ("", told)


def test_a_file_that_is_no_text_gets_one_line(tmp_path, capsys):
    file = tmp_path / "data"
    file.write_bytes(b"\x7fELF\0")
    assert run(["look", "--file", str(file)]) == 2
    told = f"clearhead: error: text: expected text; {file} is binary, it holds NUL bytes\n"
    assert capsys.readouterr() == ("", told)


def test_a_fault_of_ours_is_one_line_that_says_how_to_see_more(library, capsys, monkeypatch):
    library.raises = RuntimeError("boom\nbang")
    assert run(["look", TEXT]) == 1
    told = "unexpected RuntimeError: boom; bang; set CLEARHEAD_DEBUG=1 to see where"
    assert capsys.readouterr() == ("", f"clearhead: error: {told}\n")
    monkeypatch.setenv("CLEARHEAD_DEBUG", "1")
    assert run(["look", TEXT]) == 1
    shown, said = capsys.readouterr()
    assert shown == ""
    assert said.startswith("Traceback (most recent call last):")
    assert said.endswith("RuntimeError: boom\nbang\n")


def test_an_interrupt_is_quiet(library, capsys):
    library.raises = KeyboardInterrupt()
    assert run(["look", TEXT]) == 130
    assert capsys.readouterr() == ("", "")


# ------------------------------------------------------------------------------ as a real process


@pytest.mark.parametrize("arguments", [["quantities"], ["--help"], ["look", "--help"]])
def test_a_closed_pipe_is_one_line(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        command = [sys.executable, "-m", "clearhead", *arguments]
        ran = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, check=False, timeout=60)
    assert ran.returncode == 2
    assert ran.stderr.decode() == (
        "clearhead: error: the output was closed before everything was written\n"
    )


def test_exit_codes_leave_the_process():
    assert _program("quantities", "--json").returncode == 0
    ran = _program("look", "--top", "0", "a")
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert ran.stderr == b"clearhead: error: cannot look: top: expected at least 1; got 0\n"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_any_output_encoding_will_do(encoding):
    environment = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    ran = _program("quantities", env=environment)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert "weights" in ran.stdout.decode(encoding)


def test_pipes_get_no_colours_and_columns_are_kept():
    ran = _program("quantities", env={"COLUMNS": "44", "TERM": "xterm-256color"})
    assert b"\x1b" not in ran.stdout
    assert max(map(len, ran.stdout.decode().splitlines())) <= 44


def test_an_interrupt_from_the_keyboard_ends_the_process():
    command = [sys.executable, "-m", "clearhead", "look", "-"]
    with interruptible(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        # More than a pipe holds: once it is written, the program is reading.
        process.stdin.write(b"half a sentence " * 2**15)
        process.stdin.flush()
        time.sleep(1)  # until it waits for more
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""
