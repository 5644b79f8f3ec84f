"""What lies above is found by name, only when a person wants to see."""

import subprocess
import sys

import pytest

from clearhead.pipeline.showing import ShowsItself, shower


def test_a_value_shows_what_the_notebook_makes_of_it(monkeypatch):
    monkeypatch.setattr(shower("notebook"), "html_of", lambda value: f"<b>{value}</b>")

    class Thing(ShowsItself):
        def __repr__(self):
            return "thing"

    assert Thing()._repr_html_() == "<b>thing</b>"


def test_a_module_of_the_report_is_found_by_name():
    assert shower("notebook").__name__ == "clearhead.report.notebook"
    with pytest.raises(ModuleNotFoundError):
        shower("no_such_file")


def test_nothing_of_the_report_is_loaded_before_it_is_asked_for():
    told = (
        "import sys, clearhead.pipeline.attention;"
        "print([name for name in sys.modules if '.report' in name])"
    )
    run = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
