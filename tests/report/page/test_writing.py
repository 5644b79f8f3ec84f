"""A page is written whole or not at all, and a place that takes none is refused at once."""

import os
import stat

import pytest

from clearhead.errors import InputError
from clearhead.report.page.writing import check_page_path, write_page


def test_a_page_is_written(tmp_path):
    path = tmp_path / "page.html"
    check_page_path(path)
    assert list(tmp_path.iterdir()) == []
    write_page("<p>a\u2028é\n", path)
    assert path.read_bytes() == "<p>a\u2028é\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_a_page_replaces_the_one_before(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    check_page_path(path)
    assert path.read_text() == "old"
    write_page("new", path)
    assert path.read_text() == "new"


def test_a_link_stays_and_its_file_is_written(tmp_path):
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "link.html").symlink_to(tmp_path / "real.html")
    write_page("new", tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text() == "new"


def test_others_may_read_what_the_umask_lets_them(tmp_path):
    before = os.umask(0o022)
    try:
        write_page("x", tmp_path / "page.html")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "page.html").stat().st_mode) == 0o644


def test_a_page_keeps_its_permissions(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    path.chmod(0o600)
    write_page("new", path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("act", [check_page_path, lambda path: write_page("x", path)])
def test_an_interrupt_leaves_nothing(act, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("clearhead.report.page.writing.os.close", interrupted)
    monkeypatch.setattr("clearhead.report.page.writing.Path.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        act(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (None, "page: expected the path of a file; got None"),
        (5, "page: expected the path of a file; got 5"),
        (b"x.html", "page: expected the path of a file as text; got b'x.html'"),
    ],
)
def test_what_is_no_path_is_refused(path, told):
    with pytest.raises(InputError) as raised:
        write_page("x", path)
    assert str(raised.value) == told


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("old")
    monkeypatch.setattr("clearhead.report.page.writing.Path.replace", _full)
    told = f"page: cannot write {path}: No space left on device"
    with pytest.raises(InputError) as raised:
        write_page("new", path)
    assert str(raised.value) == told
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def _full(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("act", [check_page_path, lambda path: write_page("x", path)])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("", "page: expected the path of a file; got ''"),
        ("a\0b", "page: expected the path of a file; got 'a␀b'"),
        ("{}", "page: expected the path of a file; {} is a folder"),
        ("/dev/null", "page: expected the path of a file; /dev/null is a device or pipe"),
        ("{}/page/", "page: expected the path of a file; {}/page/ is a folder"),
        ("{}/none/page.html", "page: cannot write {}/none/page.html: No such file or directory"),
        ("{}/file/page.html", "page: cannot write {}/file/page.html: Not a directory"),
    ],
)
def test_a_place_that_takes_no_page_is_refused(act, name, told, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError) as raised:
        act(name.format(tmp_path))
    assert str(raised.value) == told.format(*[tmp_path] * told.count("{}"))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_read_only_page_stays(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root, who may run this, may write it
    with pytest.raises(InputError, match="it is read-only"):
        check_page_path(path)


def test_a_long_name_is_refused_or_written(tmp_path):
    check_page_path(tmp_path / f"{'x' * 200}.html")
    with pytest.raises(InputError, match="File name too long"):
        write_page("x", tmp_path / f"{'x' * 300}.html")
    assert list(tmp_path.iterdir()) == []
