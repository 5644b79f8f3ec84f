"""Every example a person may copy runs: in docstrings and in the Python blocks of documents."""

import doctest
import importlib
from pathlib import Path

import pytest
from sybil import Document
from sybil.parsers.markdown import PythonCodeBlockParser

from tests.house_rules import PACKAGE, ROOT

pytestmark = pytest.mark.house

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
MODULES = [
    ".".join(["clearhead", *file.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(
        ".__init__"
    )
    for file in sorted(PACKAGE.rglob("*.py"))
    if file.stem != "__main__" and ">>>" in file.read_text("utf-8")
]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples may write files; they end up in a folder of their own."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_examples_of_a_document_run(document: Path, request: pytest.FixtureRequest) -> None:
    parsed = Document.parse(str(document), PythonCodeBlockParser(doctest_optionflags=OPTIONS))
    examples = list(parsed.examples())
    if any("smollm2" in parsed.text[e.start : e.end] for e in examples):
        request.getfixturevalue("smollm2_folder")
    for example in examples:
        example.evaluate()


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_docstring_run(name: str) -> None:
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=OPTIONS, report=True)
    assert result.attempted, "there are examples, and none was found"
    assert not result.failed, f"{result.failed} of {result.attempted} examples failed, see above"
