"""What is said on standard error: a bar on a terminal, two lines elsewhere."""

import io
from collections.abc import Callable

import pytest

from clearhead.transformer.progress import megabytes, said_progress, said_reading, say


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_one_line_whatever_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    line = "[bold]no markup[/bold] /a/long/path" + "/x" * 200
    say(line)
    assert capsys.readouterr() == ("", f"clearhead: {line}\n")


def test_nothing_is_said_of_what_never_starts(capsys: pytest.CaptureFixture[str]) -> None:
    with said_progress("moving it"):
        pass
    assert capsys.readouterr() == ("", "")


def test_no_end_is_said_of_what_breaks_off(capsys: pytest.CaptureFixture[str]) -> None:

    def breaks_off(advance: Callable[[int, int], None]) -> None:
        advance(0, 5_000_000)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"), said_progress("moving it") as advance:
        breaks_off(advance)
    assert capsys.readouterr() == ("", "clearhead: moving it, 5 MB\n")


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with said_progress("moving it") as advance:
        assert terminal.getvalue() == ""
        advance(1_000_000, 2_000_000)
        advance(2_000_000, 2_000_000)
    assert "moving it" in terminal.getvalue()
    assert "2.0/2.0 MB" in terminal.getvalue()


def test_reading_a_prompt_is_shown_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with said_reading(4096, least=512) as advance:
        advance(256)
    assert capsys.readouterr() == ("", "")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with said_reading(511, least=512) as advance:
        advance(511)
    assert terminal.getvalue() == ""
    with said_reading(4096, least=512) as advance:
        advance(1024)
        advance(4096)
    assert "reading the prompt" in terminal.getvalue()
    assert "4,096 of 4,096 tokens" in terminal.getvalue()


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 kB"), (999_499, "999 kB"), (999_500, "1 MB"), (538_090_408, "538 MB")],
)
def test_sizes(count: int, shown: str) -> None:
    assert megabytes(count) == shown
