"""What a stream can show, and that writing to it ends well or in one sentence."""

import errno
import io
import os
import sys

import pytest
from rich.text import Text

from clearhead.report import terminal
from clearhead.report.terminal import (
    OutputError,
    Terminal,
    plain_for,
    rendered,
    status,
    write_whole,
)


class Screen(io.StringIO):
    """A terminal to write to."""

    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_width_follows_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "47")
    assert Terminal.of(io.StringIO()).width == 47
    assert Terminal.of(None).width == 47


def test_a_terminal_is_never_taken_for_narrower_than_twenty(monkeypatch):
    monkeypatch.setenv("COLUMNS", "3")
    assert Terminal.of(io.StringIO()).width == 20


def test_a_pipe_is_plain():
    assert Terminal.of(io.StringIO()).colours is None


def test_a_terminal_has_its_colours(monkeypatch):
    assert Terminal.of(Screen()).colours == "256"
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert Terminal.of(Screen()).colours == "truecolor"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLORTERM")
    assert Terminal.of(Screen()).colours == "standard"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_may_want_none(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert Terminal.of(Screen()).colours is None


def test_rendering_neither_marks_up_nor_colours_a_plain_text():
    assert (
        rendered(Text("[b]x[/b] :smile: 12", "bold red"), Terminal(40)) == "[b]x[/b] :smile: 12\n"
    )


def test_what_an_encoding_lacks_is_escaped():
    assert rendered(Text("▅ŵ 漢"), Terminal(40, None, "cp1252")) == "5\\u0175 \\u6f22\n"
    assert rendered(Text("été"), Terminal(40, None, "cp1252")) == "été\n"
    assert rendered(Text("été"), Terminal(40, None, "no such encoding")) == "\\xe9t\\xe9\n"


def test_a_models_text_does_nothing_on_a_terminal_and_goes_unchanged_elsewhere():
    text = "a\tb\n\x1b[2J\r\x9b é 👩‍👧"
    assert plain_for(text, Screen()) == "a\tb\n␛[2J␍‹U+009B› é 👩‍👧"
    assert plain_for(text, io.StringIO()) == text
    assert plain_for("é", None) == "é"


def test_a_models_text_fits_the_streams_encoding():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    assert plain_for("é…", stream) == "\\xe9..."


class Broken(io.StringIO):
    """A stream that cannot be written to."""

    def __init__(self, code):
        super().__init__()
        self.code = code

    def write(self, _text):
        raise OSError(self.code, os.strerror(self.code))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.EPIPE, "the output was closed before everything was written"),
        (errno.ENOSPC, "cannot write the output: No space left on device"),
    ],
)
def test_a_stream_that_breaks(code, message):
    with pytest.raises(OutputError) as raised:
        write_whole("text", Broken(code))
    assert str(raised.value) == message


def test_a_stream_that_is_closed_from_the_start():
    with pytest.raises(OutputError) as raised:
        write_whole("text", None)
    assert str(raised.value) == "standard output is closed: nothing was written"


def test_writing_writes_all_at_once():
    stream = io.StringIO()
    write_whole("a\nb\n", stream)
    assert stream.getvalue() == "a\nb\n"


def test_status_is_shown_on_a_terminal_and_taken_away(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "20")
    with status("loading \x1b[2J a long name of a model"):
        shown = screen.getvalue()
    assert shown == "\x1b[2Kloading ␛[2J a lon…\r"
    assert screen.getvalue() == f"{shown}\x1b[2K\r"


def test_status_is_taken_away_after_an_error_too(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(ZeroDivisionError), status("dividing"):
        raise ZeroDivisionError
    assert screen.getvalue().endswith("\x1b[2K\r")


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_status_is_silent_where_it_cannot_be_taken_away(monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    with status("loading"):
        pass
    assert stream is None or stream.getvalue() == ""


def test_a_diagnosis_with_nowhere_to_go_is_dropped(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    terminal.write_diagnosis("x")
    monkeypatch.setattr(sys, "stderr", Broken(errno.EPIPE))
    terminal.write_diagnosis("x")
