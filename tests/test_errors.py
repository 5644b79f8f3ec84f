"""The tree of errors is the one drawn on top of its file, and a message holds every fault."""

import re

import pytest

import clearhead as ch
from clearhead import errors


def drawn_tree() -> dict[str, str]:
    """Read child → parent off the drawing: each name stands deeper than its parent."""
    parents: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^(\s*[│├└─ ]*)(\w+Error)\b", line)
        if not found:
            continue
        depth, name = len(found[1]), found[2]
        above = [(d, n) for d, n in above if d < depth]
        if above:
            parents[name] = above[-1][1]
        above.append((depth, name))
    return parents


def test_the_drawing_is_the_tree() -> None:
    drawn = drawn_tree()
    real = {
        name: getattr(errors, name).__mro__[1].__name__
        for name in errors.__all__
        if name.endswith("Error") and name != "ClearheadError"
    }
    assert drawn == real


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name.endswith("Error")])
def test_every_error_is_one_of_ours_and_public(name: str) -> None:
    assert issubclass(getattr(errors, name), ch.ClearheadError)
    assert getattr(ch, name) is getattr(errors, name)


@pytest.mark.parametrize(
    ("ours", "builtin"),
    [(ch.InputError, ValueError), (ch.OutOfRangeError, IndexError), (ch.NotKeptError, LookupError)],
)
def test_an_error_is_also_what_python_would_raise(
    ours: type[Exception], builtin: type[Exception]
) -> None:
    assert issubclass(ours, builtin)


def test_one_fault_is_one_line() -> None:
    assert errors.gathered("the call does not fit", ["q is 3 wide"]) == (
        "the call does not fit: q is 3 wide"
    )


def test_several_faults_are_listed() -> None:
    assert errors.gathered("the call does not fit", ["q is 3 wide", "k is 4 wide"]) == (
        "the call does not fit, 2 faults:\n  - q is 3 wide\n  - k is 4 wide"
    )
