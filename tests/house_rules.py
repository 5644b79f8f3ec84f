"""The rules of the house that a program can keep: sizes, nesting, names, documents, reasons.

A rule takes one parsed file and names every place where it does not hold. The exceptions to a rule
stand here too, each with its reason.
"""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

__all__ = [
    "BOUNDARY_FILES",
    "FOREIGN_SIGNATURES",
    "PACKAGE",
    "ROOT",
    "TESTED_ELSEWHERE",
    "Rule",
    "Source",
    "few_positional_arguments",
    "functions",
    "holds_code",
    "reasons_beside_exceptions",
    "shallow_nesting",
    "short_files",
    "short_functions",
    "sources",
    "telling_names",
    "undocumented",
    "unknown_types_at_the_boundary",
]

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "clearhead"

FILE_LINES, FUNCTION_LINES, NESTING, POSITIONAL = 300, 60, 3, 3
BANNED_NAMES = {"common", "helper", "helpers", "misc", "util", "utils"}

# Files that may let in unknown types of other libraries, and why.
BOUNDARY_FILES: dict[str, str] = {}

# Names of functions whose signature somebody else fixed, and who.
FOREIGN_SIGNATURES = {
    "attention_function": "transformers calls it with module, query, key, value and mask",
    "predicate": "FlexAttention calls a mask_mod with batch, head, query and key",
}

# Files of src without a test file of their own, and where they are tested instead.
TESTED_ELSEWHERE = {
    "__init__.py": "tests/test_public_names.py",
    "__main__.py": "tests/test_public_names.py",
}


@dataclass(frozen=True, eq=False)
class Source:
    """One Python file, read and parsed once."""

    path: str
    text: str = field(repr=False)

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file."""
        return ast.parse(self.text)


Rule = Callable[[Source], Iterator[tuple[int, str]]]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


def sources(*folders: str) -> list[Source]:
    """Every Python file below some folders of the project."""
    files = sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))
    return [Source(str(file.relative_to(ROOT)), file.read_text("utf-8")) for file in files]


def holds_code(source: Source) -> bool:
    """Whether there is more than a docstring, imports and a list of names."""
    passive = (ast.Expr, ast.Import, ast.ImportFrom)
    body = [node for node in source.tree.body if not isinstance(node, passive)]
    return any("__all__" not in ast.unparse(node) for node in body)


def functions(tree: ast.Module) -> Iterator[Function]:
    """Every function of a file, methods and inner ones included."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def _public(
    tree: ast.Module | ast.ClassDef, prefix: str = ""
) -> Iterator[tuple[str, Definition, ast.AST]]:
    """Public functions, classes and their public methods: dotted name, node, where it stands."""
    for node in tree.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield prefix + node.name, node, tree
            if isinstance(node, ast.ClassDef):
                yield from _public(node, f"{prefix}{node.name}.")


# ------------------------------------------------------------------------------------- the rules


def short_files(source: Source) -> Iterator[tuple[int, str]]:
    """A file can be read in one sitting."""
    lines = source.text.count("\n")
    if lines > FILE_LINES:
        yield lines, f"{lines} lines, at most {FILE_LINES}"


def short_functions(source: Source) -> Iterator[tuple[int, str]]:
    """A function fits on a screen."""
    for node in functions(source.tree):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES:
            yield node.lineno, f"{node.name}: {lines} lines, at most {FUNCTION_LINES}"


_BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.TryStar, ast.Match, ast.AsyncFor)


def _depth(node: ast.AST) -> int:
    """How deep blocks stand inside blocks below a node; an elif is as deep as its if."""
    deepest = 0
    for name, value in ast.iter_fields(node):
        children = value if isinstance(value, list) else [value]
        for child in children:
            if not isinstance(child, ast.AST) or isinstance(child, Definition):
                continue
            is_elif = isinstance(node, ast.If) and name == "orelse" and isinstance(child, ast.If)
            own = 1 if isinstance(child, _BLOCKS) and not is_elif else 0
            deepest = max(deepest, own + _depth(child))
    return deepest


def shallow_nesting(source: Source) -> Iterator[tuple[int, str]]:
    """Blocks inside blocks inside blocks, and no further."""
    for node in functions(source.tree):
        depth = _depth(node)
        if depth > NESTING:
            yield node.lineno, f"{node.name}: blocks nest {depth} deep, at most {NESTING}"


def telling_names(source: Source) -> Iterator[tuple[int, str]]:
    """A name says what is inside."""
    banned = BANNED_NAMES & set(Path(source.path).with_suffix("").parts)
    if banned:
        yield 1, f"the name {min(banned)!r} says nothing"


def few_positional_arguments(source: Source) -> Iterator[tuple[int, str]]:
    """Three arguments at most without their name."""
    for name, node, parent in _public(source.tree):
        if isinstance(node, ast.ClassDef) or node.name in FOREIGN_SIGNATURES:
            continue
        count = len(node.args.posonlyargs) + len(node.args.args)
        static = any(
            isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list
        )
        count -= isinstance(parent, ast.ClassDef) and not static
        if count > POSITIONAL:
            yield node.lineno, f"{name}: {count} positional arguments, at most {POSITIONAL}"


_DIRECTIVE = re.compile(
    r"# *(?:(?:ruff: *)?noqa|type: *ignore|pyright: *ignore)(?:\[[^]]*\]|: *(?:[A-Z]+\d+,? *)+)?"
    r"|# *pyright:.*"
)
_REASON = re.compile(r"\w+\W+\w+")  # two words at least


def reasons_beside_exceptions(source: Source) -> Iterator[tuple[int, str]]:
    """An exception to a check says why, beside it or in the comment line above."""
    lines = source.text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        directive = _DIRECTIVE.match(token.string)
        if token.type != tokenize.COMMENT or not directive:
            continue
        row = token.start[0]
        above = lines[row - 2].strip() if row > 1 else ""
        above = above if above.startswith("#") and not _DIRECTIVE.match(above) else ""
        if not _REASON.search(token.string[directive.end() :]) and not _REASON.search(above):
            yield row, f"{token.string!r} gives no reason"


_UNKNOWN = re.compile(r"#\s*pyright:.*reportUnknown|#\s*pyright:\s*(basic|standard)")


def unknown_types_at_the_boundary(source: Source) -> Iterator[tuple[int, str]]:
    """Unknown types of other libraries come in through named files only."""
    for row, line in enumerate(source.text.splitlines(), 1):
        if _UNKNOWN.search(line) and source.path not in BOUNDARY_FILES:
            yield row, "lets in unknown types; name the file in BOUNDARY_FILES, with a reason"


# ------------------------------------------------------------------------------------- documents


def _inherits_a_docstring(classes: dict[str, ast.ClassDef], owner: str, method: str) -> bool:
    """Whether a base class of ours documents a method; classes are known by their names."""
    for base in classes[owner].bases:
        name = ast.unparse(base).split("[")[0].split(".")[-1]
        if name not in classes:
            continue
        found = [n for n in classes[name].body if isinstance(n, Function) and n.name == method]
        if any(map(ast.get_docstring, found)) or _inherits_a_docstring(classes, name, method):
            return True
    return False


def undocumented(files: list[Source]) -> Iterator[str]:
    """Public functions, classes and methods without a docstring, their own or inherited."""
    nodes = [node for source in files for node in ast.walk(source.tree)]
    classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
    for source in files:
        for name, node, parent in _public(source.tree):
            decorators = " ".join(ast.unparse(d) for d in node.decorator_list)
            if ast.get_docstring(node) or "overload" in decorators or ".setter" in decorators:
                continue
            owner = parent.name if isinstance(parent, ast.ClassDef) else None
            if owner and _inherits_a_docstring(classes, owner, node.name):
                continue
            yield f"{source.path}:{node.lineno}: {name} has no docstring"
