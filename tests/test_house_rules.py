"""The rules of the house hold, and a broken one is seen.

Each test lists every place where its rule does not hold, so that one run is enough to mend them.
"""

import pytest

from tests.house_rules import (
    BOUNDARY_FILES,
    FOREIGN_SIGNATURES,
    PACKAGE,
    ROOT,
    TESTED_ELSEWHERE,
    Rule,
    Source,
    few_positional_arguments,
    functions,
    holds_code,
    reasons_beside_exceptions,
    shallow_nesting,
    short_files,
    short_functions,
    sources,
    telling_names,
    undocumented,
    unknown_types_at_the_boundary,
)

pytestmark = pytest.mark.house


def _name(value: object) -> str:
    return getattr(value, "__name__", "-")


@pytest.mark.parametrize(
    ("rule", "folders"),
    [
        (short_files, ("src", "tests", "bench")),
        (short_functions, ("src", "tests", "bench")),
        (shallow_nesting, ("src", "tests", "bench")),
        (telling_names, ("src", "tests", "bench")),
        (few_positional_arguments, ("src",)),
        (reasons_beside_exceptions, ("src", "tests", "bench")),
        (unknown_types_at_the_boundary, ("src",)),
    ],
    ids=_name,
)
def test_rule_of_the_house(rule: Rule, folders: tuple[str, ...]) -> None:
    found = [
        f"{source.path}:{row}: {what}" for source in sources(*folders) for row, what in rule(source)
    ]
    assert not found, f"{rule.__doc__}\n" + "\n".join(found)


def test_everything_public_is_documented() -> None:
    found = list(undocumented(sources("src")))
    assert not found, "\n".join(found)


def test_the_tests_mirror_the_source() -> None:
    missing = []
    for source in sources("src"):
        inside = (ROOT / source.path).relative_to(PACKAGE)
        test = ROOT / "tests" / inside.parent / f"test_{inside.name}"
        if holds_code(source) and str(inside) not in TESTED_ELSEWHERE and not test.exists():
            missing.append(f"{source.path}: no {test.relative_to(ROOT)}")
    assert not missing, "\n".join(missing)


def test_the_lists_of_exceptions_are_true() -> None:
    names = {node.name for source in sources("src") for node in functions(source.tree)}
    paths = [*BOUNDARY_FILES, *(f"src/clearhead/{name}" for name in TESTED_ELSEWHERE)]
    paths += TESTED_ELSEWHERE.values()
    gone = [path for path in paths if not (ROOT / path).exists()]
    gone += sorted(FOREIGN_SIGNATURES.keys() - names)
    assert not gone, f"listed but not there: {gone}"


_BAD = '''
def deep(a, b, c, d):
    for x in a:
        if x:
            pass
        elif b:
            with c:
                while d:
                    pass
    import os  # noqa: F401
    import re  # noqa: F401  the doctest above shows it
    return a  # pyright: ignore[reportUnknownVariableType]

class Base:
    """Documented."""
    def shown(self):
        """Documented."""
    def hidden(self, a, b, c, d): ...

class Child(Base):
    """Documented."""
    def shown(self): ...
'''


@pytest.mark.parametrize(
    ("rule", "rows"),
    [
        (short_files, [319]),
        (short_functions, [24]),
        (shallow_nesting, [2]),
        (telling_names, [1]),
        (few_positional_arguments, [2, 18]),
        (reasons_beside_exceptions, [10, 12]),
        (unknown_types_at_the_boundary, [12]),
    ],
    ids=_name,
)
def test_a_broken_rule_is_seen(rule: Rule, rows: list[int]) -> None:
    long = "\ndef long():\n" + "    1\n" * 61 + "\n" * 234
    bad = Source("src/clearhead/utils/x.py", _BAD + long)
    assert [row for row, _ in rule(bad)] == rows


def test_a_missing_docstring_is_seen() -> None:
    found = [line.split(": ")[1] for line in undocumented([Source("x.py", _BAD)])]
    assert found == ["deep has no docstring", "Base.hidden has no docstring"]
