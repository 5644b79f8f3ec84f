"""Where what was fetched or made is kept."""

from pathlib import Path

import platformdirs
import pytest

from clearhead.user_cache import VARIABLE, cache_folder


def test_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "~/models")
    assert cache_folder() == Path.home() / "models"
    for unset in ("", None):
        monkeypatch.setenv(VARIABLE, unset or "")
        assert cache_folder() == platformdirs.user_cache_path("clearhead")
