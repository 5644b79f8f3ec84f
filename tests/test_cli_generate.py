"""``clearhead generate``: text as it comes, one line for whatever is wrong, quiet when left."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import clearhead
from clearhead.cli import run
from clearhead.cli_generate import _unescaped
from clearhead.transformer.model import Transformer
from tests.interrupts import interruptible
from tests.tokens import tiny as tokenizers
from tests.transformer.tiny_llama import make

EXPECTED = Path(__file__).parent / "report" / "expected"
TEMPLATE = "{% for message in messages %}{{ message.role }}:{{ message.content }};{% endfor %}"


@pytest.fixture(autouse=True)
def _a_quiet_place(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("CLEARHEAD_DEBUG", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(seeded_weights, tmp_path) -> str:
    """A model folder: a small Llama with a token for every byte, that chats."""
    model = make(vocab_size=300, eos_token_id=1, bos_token_id=0)
    model.save_pretrained(tmp_path)
    tokenizers.saved(tmp_path, chat_template=TEMPLATE, eos_token="</s>")
    return str(tmp_path)


def generated(capsys, *arguments: str) -> str:
    assert run(["generate", *arguments]) == 0
    shown, said = capsys.readouterr()
    assert said == ""
    return shown


# ------------------------------------------------------------------------------------ what it does


def test_help(capsys) -> None:
    assert run(["generate", "--help"]) == 0
    expected = (EXPECTED / "help_generate.txt").read_text(encoding="utf-8")
    assert capsys.readouterr() == (expected, "")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["x", "--top-k", "0"], ["x", "--temperature", "1", "--stop", ""]]
)
def test_light_questions_import_nothing_heavy(arguments) -> None:
    script = (
        "import sys; from clearhead.cli import run; run(sys.argv[1:]);"
        "heavy = {'torch', 'transformers', 'numpy'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    command = [sys.executable, "-c", script, "generate", *arguments]
    ran = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr.decode()


def test_the_text_is_the_librarys(folder, capsys) -> None:
    options = {"temperature": 1.2, "top_k": 40, "top_p": 0.9, "seed": 5, "max_new_tokens": 20}
    model = clearhead.from_pretrained(folder)
    expected = clearhead.generate(model, "he", **options)
    spelled = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    assert generated(capsys, "he", "--model", folder, *spelled) == f"{expected.text}\n"

    told = json.loads(generated(capsys, "he", "--model", folder, "--json", *spelled))
    seconds = [told.pop(f"{name}seconds") for name in ("prompt_", "")]
    assert min(seconds) >= 0
    assert told.pop("tokens_per_second") > 0
    assert told == {
        "format": "clearhead-generate/1",
        "model": model.clearhead_name,
        "weights": model.clearhead_origin,
        "prompt": "he",
        "temperature": 1.2,
        "top_k": 40,
        "top_p": 0.9,
        "text": expected.text,
        "token_ids": list(expected.token_ids),
        "prompt_ids": list(expected.prompt_ids),
        "stopped_by": expected.stopped_by,
        "stopped_at": expected.stopped_at,
        "seed": 5,
    }


def test_files_standard_input_and_chats(folder, capsys, tmp_path, monkeypatch) -> None:
    file = tmp_path / "story.txt"
    file.write_text("he he\n", encoding="utf-8")
    options = ["--model", folder, "--max-new-tokens", "5", "--json"]
    read = json.loads(generated(capsys, "--file", str(file), *options))
    assert read["prompt"] == "he he"

    class Stdin:
        buffer = io.BytesIO(b"he he\n")

    monkeypatch.setattr(sys, "stdin", Stdin)
    piped = json.loads(generated(capsys, "-", *options))
    assert piped["token_ids"] == read["token_ids"]

    words = clearhead.from_pretrained(folder).clearhead_tokenizer
    chat = json.loads(generated(capsys, "he", "--chat", *options))
    assert chat["prompt_ids"] == words.encode("user:he;")


def test_stop_strings_may_be_several_and_hold_new_lines(folder, capsys) -> None:
    options = ["--model", folder, "--temperature", "1", "--seed", "2", "--max-new-tokens", "60"]
    whole = generated(capsys, "he", *options)
    letter = whole[10]
    stopped = json.loads(generated(capsys, "he", *options, "--json", "--stop", letter))
    assert stopped["text"] == whole[: whole.index(letter)]
    assert stopped["stopped_at"] == letter
    assert generated(capsys, "he", *options, "--stop", "he", "--stop", letter) == (
        f"{stopped['text']}\n"
    )


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(r"\n", "\n"), (r"a\tb", "a\tb"), (r"\\n", r"\n"), (r"\d", r"\d"), ("\n\\", "\n\\")],
)
def test_new_lines_and_tabs_of_stop_strings_can_be_typed(typed, meant) -> None:
    assert _unescaped(typed) == meant


# ----------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "text: expected one of TEXT, --file FILE, - (standard input); got none"),
        ([""], "text: expected at least one word; TEXT is empty"),
        (
            ["x", "--temperature", "-1", "--top-k", "0", "--top-p", "2", "--seed", "-3"],
            (
                "cannot generate, 4 faults: --temperature must be 0 (the most probable token) or a "
                "positive number, got -1.0; --top-k must be a whole number of at least 1, got 0; "
                "--top-p must be above 0 and at most 1, got 2.0; --seed must be a whole number "
                "from 0 to 2**62 - 1, got -3"
            ),
        ),
        (
            ["x", "--top-p", "0.9"],
            (
                "cannot generate: --top-p: nothing is drawn at --temperature 0; give "
                "--temperature=1.0 to draw"
            ),
        ),
        (
            ["x", "--max-new-tokens", "0"],
            "cannot generate: --max-new-tokens must be a whole number of at least 1, got 0",
        ),
        (
            ["x", "--stop", ""],
            "cannot generate: --stop must be a text or several, none of them empty, got ''",
        ),
        (
            ["x", "--temperature", "warm"],
            (
                "Invalid value for '--temperature': Input should be a valid number, unable to "
                "parse string as a number; see clearhead generate --help"
            ),
        ),
        (
            ["x", "--loud"],
            "No such option: --loud (Possible options: --model); see clearhead generate --help",
        ),
        (
            ["x", "--model", "no such model"],
            (
                "no model is called 'no such model'; expected smollm2, minilm, a folder with "
                "config.json, a GGUF file, or a hub name such as 'org/name'"
            ),
        ),
    ],
)
def test_bad_input_gets_one_line(arguments, told, capsys) -> None:
    assert run(["generate", *arguments]) == 2
    assert capsys.readouterr() == ("", f"clearhead: error: {told}\n")


def test_a_prompt_that_is_too_long_is_refused_before_weights_are_loaded(
    folder, capsys, monkeypatch
) -> None:
    monkeypatch.setitem(vars(clearhead), "from_pretrained", lambda *_, **__: pytest.fail("loaded"))
    fits = "clearhead: error: this does not fit into the model's context: the prompt has"
    assert run(["generate", "x" * 64, "--model", folder]) == 2
    assert capsys.readouterr() == (
        "",
        f"{fits} 64 tokens, and the model reads at most 64, new ones included: shorten it\n",
    )
    assert run(["generate", "x" * 30, "--model", folder, "--max-new-tokens", "50"]) == 2
    assert capsys.readouterr() == (
        "",
        (
            f"{fits} 30 tokens and max_new_tokens is 50, together 80, and the model reads at most "
            "64: ask for at most 34 new ones, or shorten it\n"
        ),
    )


def test_a_model_that_cannot_chat(folder, capsys) -> None:
    tokenizers.saved(Path(folder))
    assert run(["generate", "x", "--chat", "--model", folder]) == 2
    assert capsys.readouterr() == (
        "",
        "clearhead: error: this model has no chat template: give it text instead of messages\n",
    )


# ------------------------------------------------------------------------------ as a real process


def start(folder: str, *arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "clearhead", "generate", "he", "--model", folder]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([*command, *arguments], **streams)


def test_a_closed_pipe_is_quiet(folder) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe, start(folder, stdout=pipe) as process:
        said = process.communicate(timeout=120)[1]
    assert (process.returncode, said) == (2, b"")


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_any_output_encoding_will_do(folder, encoding) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    drawn = ["--temperature", "1", "--seed", "3", "--max-new-tokens", "40"]
    with start(folder, *drawn, env=environment) as process:
        shown, said = process.communicate(timeout=120)
    assert (process.returncode, said) == (0, b"")
    assert shown.decode(encoding)


SLOW = """
import sys, time
from clearhead import cli
from clearhead.transformer.model import Transformer

forward = Transformer.forward
def slow(*args, **kwargs):
    time.sleep(0.2)
    return forward(*args, **kwargs)
Transformer.forward = slow
cli.main()
"""


def test_an_interrupt_from_the_keyboard_leaves_what_was_written(folder) -> None:
    arguments = ["he", "--model", folder, "--temperature", "1", "--seed", "1"]
    command = [sys.executable, "-c", SLOW, "generate", *arguments]
    with interruptible(command) as process:
        assert process.stdout is not None
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        shown, said = process.communicate(timeout=120)
    assert (process.returncode, said) == (130, b"")
    assert (first + shown).endswith(b"\n")
    assert len(first + shown) < 100


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupt(folder, as_json, capsys, monkeypatch) -> None:
    options = ["he", "--model", folder, "--temperature", "1", "--seed", "1"]
    whole = json.loads(generated(capsys, *options, "--json"))
    forward, calls = Transformer.forward, []

    def interrupted(*given, **options):
        calls.append(1)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return forward(*given, **options)

    monkeypatch.setattr(Transformer, "forward", interrupted)
    assert run(["generate", *options, *["--json"] * as_json]) == 130
    shown, said = capsys.readouterr()
    assert said == ""
    text = json.loads(shown)["text"] if as_json else shown.removesuffix("\n")
    assert 0 < len(text) < len(whole["text"])
    assert whole["text"].startswith(text)
    if as_json:
        assert json.loads(shown)["token_ids"] == whole["token_ids"][:11]
        assert json.loads(shown)["stopped_by"] == "interrupted"
