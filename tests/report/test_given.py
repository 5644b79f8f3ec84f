"""What is given on the command line is read as a person means it, or refused in one sentence."""

import io
import sys

import pytest

from clearhead.errors import InputError, TokenError
from clearhead.report import given
from clearhead.report.given import given_layers, given_passages, given_text, given_token


class Stdin:
    """Standard input with these bytes in it."""

    def __init__(self, data):
        self.buffer = io.BytesIO(data)


def test_a_text_is_taken_as_it_is():
    assert given_text(" a\n", None) == " a\n"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a b\n", "a b"),
        (b"a b\r\n", "a b"),
        (b"a\n\n", "a\n"),
        (b"\xef\xbb\xbfa", "a"),
        ("é漢\n".encode(), "é漢"),
    ],
)
def test_files_and_pipes_lose_their_last_line_end(data, text, tmp_path, monkeypatch):
    file = tmp_path / "text.txt"
    file.write_bytes(data)
    assert given_text(None, str(file)) == text
    monkeypatch.setattr(sys, "stdin", Stdin(data))
    assert given_text("-", None) == text


def _refusal(error, text, file):
    with pytest.raises(error) as raised:
        given_text(text, file)
    return str(raised.value)


def test_one_text_is_wanted():
    start = "text: expected one of TEXT, --file FILE, - (standard input); got "
    assert _refusal(InputError, None, None) == f"{start}none"
    assert _refusal(InputError, "a", "b") == f"{start}TEXT and --file"


@pytest.mark.parametrize("data", [b"", b"\n", b" \t\r\n"])
def test_an_empty_text(data, tmp_path, monkeypatch):
    file = tmp_path / "empty.txt"
    file.write_bytes(data)
    start = "text: expected at least one word; "
    assert _refusal(TokenError, None, str(file)) == f"{start}{file} is empty"
    assert _refusal(TokenError, data.decode(), None) == f"{start}TEXT is empty"
    monkeypatch.setattr(sys, "stdin", Stdin(data))
    assert _refusal(TokenError, "-", None) == f"{start}standard input is empty"


def test_a_file_that_cannot_be_read(tmp_path):
    file = tmp_path / "none.txt"
    told = f"--file: cannot read {file}: No such file or directory"
    assert _refusal(InputError, None, str(file)) == told
    assert _refusal(InputError, None, str(tmp_path)) == (
        f"--file: cannot read {tmp_path}: Is a directory"
    )
    assert _refusal(InputError, None, "") == "--file: cannot read '': No such file or directory"
    assert _refusal(InputError, None, "a\0b") == "--file: cannot read a\0b: embedded null byte"


def test_a_file_that_is_no_text(tmp_path):
    file = tmp_path / "data"
    file.write_bytes(b"ab\0c")
    told = f"text: expected text; {file} is binary, it holds NUL bytes"
    assert _refusal(InputError, None, str(file)) == told
    file.write_bytes(b"caf\xe9 au lait")
    told = f"text: expected UTF-8; {file} is not, at byte 3; convert it first"
    assert _refusal(InputError, None, str(file)) == told


def test_an_argument_in_another_encoding():
    told = "text: expected UTF-8; TEXT is not, at byte 3; convert it first"
    assert _refusal(InputError, "caf\udce9", None) == told


def test_a_text_beyond_any_model(tmp_path, monkeypatch):
    monkeypatch.setattr(given, "_LARGEST_TEXT", 1000)
    file = tmp_path / "long"
    file.write_bytes(b"x" * 1001)
    told = f"text: expected at most 1,000 bytes; {file} is longer"
    assert _refusal(TokenError, None, str(file)) == told


def test_a_closed_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert _refusal(InputError, "-", None) == "text: standard input is closed"


@pytest.mark.parametrize(
    ("written", "token"),
    [("-1", -1), ("12", 12), ("it", "it"), (" 5", " 5"), ("1.5", "1.5"), ("²", "²"), ("-", "-")],
)
def test_a_token(written, token):
    assert given_token(written) == token


def test_no_token():
    with pytest.raises(InputError) as raised:
        given_token("")
    assert str(raised.value) == "--token: expected a word or a position; got an empty one"


@pytest.mark.parametrize(
    ("written", "layers"),
    [
        (None, None),
        ("3", [3]),
        ("0-5,9", [0, 1, 2, 3, 4, 5, 9]),
        ("9, 0-1,1", [0, 1, 9]),
        ("4-4", [4]),
    ],
)
def test_layers(written, layers):
    assert given_layers(written) == layers


@pytest.mark.parametrize("written", ["", "a", "5-3", "1,,2", "-1", "0-", "99999", "1.5", "0-1-2"])
def test_no_layers(written):
    with pytest.raises(InputError) as raised:
        given_layers(written)
    assert str(raised.value) == (
        f"--layers: expected layers and ranges such as 0-5,9; got {written!r}"
    )


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a.txt", "x/b.txt"], ["a.txt", "b.txt"]),
        (["x/a.txt", "y/a.txt", "b.txt"], ["x/a.txt", "y/a.txt", "b.txt"]),
        (["a.txt", "x/a.txt", "y/x/a.txt"], ["a.txt", "x/a.txt", "y/x/a.txt"]),
        (["a.txt", "a.txt", "./a.txt"], ["a.txt", "a.txt (2)", "a.txt (3)"]),
        (["\u202ea\n.txt"], ["\u202ea\n.txt"]),
    ],
)
def test_passages_are_named_by_as_much_of_their_paths_as_tells_them_apart(
    paths, names, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for place, path in enumerate(paths):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"\ufeffhe {place}\n", encoding="utf-8")
    found = given_passages(paths)
    assert list(found) == names
    assert [text.startswith("he ") for text in found.values()] == [True] * len(names)
