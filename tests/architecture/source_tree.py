"""The project as data: its Python modules parsed, their imports, classes and functions.

The architecture tests ask this module and never run the code they judge. It assumes a src layout
and absolute imports (ruff bans relative ones).
"""

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "tilewright"

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")  # fields that hold statements


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    name: str  # dotted, without a trailing `__init__`
    path: Path
    tree: ast.Module

    @property
    def unit(self) -> str:
        """The folder or file directly under the package that it belongs to; "" is the front."""
        return unit_of(self.name)

    def at(self, line: int) -> str:
        """A place in it, as editors open it."""
        return f"{self.path.relative_to(ROOT)}:{line}"


@dataclass(frozen=True)
class Import:
    """One module named by one import statement, with the names taken from it."""

    target: str
    names: tuple[str, ...]
    line: int
    is_local: bool  # inside a function
    is_for_types: bool  # under `if TYPE_CHECKING:`


def unit_of(name: str) -> str:
    """The part of a dotted name just below the package."""
    return name.split(".")[1] if "." in name else ""


def python_files(*folders: str) -> list[Path]:
    """Every Python file under these folders of the project."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@functools.cache
def modules() -> dict[str, Module]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in python_files("src"):
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path, parse(path))
    return found


def parse(path: Path) -> ast.Module:
    """The syntax tree of a file; `modules` keeps those of the package, and no others are kept."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@functools.cache
def imports_of(module: Module) -> tuple[Import, ...]:
    """Its imports, those for type checkers only and those inside functions included.

    `from package import module` counts as an import of that module.
    """
    return tuple(_imports(module.tree.body, is_local=False, is_for_types=False))


def _imports(body: list[ast.stmt], *, is_local: bool, is_for_types: bool) -> Iterator[Import]:
    for node in body:
        where = (node.lineno, is_local, is_for_types)
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, (), *where)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [alias.name for alias in node.names]
            inner = [name for name in names if f"{node.module}.{name}" in modules()]
            for name in inner:
                yield Import(f"{node.module}.{name}", (), *where)
            if taken := tuple(name for name in names if name not in inner):
                yield Import(node.module, taken, *where)
        else:
            yield from _imports(
                list(_blocks(node)),
                is_local=is_local or isinstance(node, FunctionNode),
                is_for_types=is_for_types or _is_for_types(node),
            )


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _blocks(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements directly inside a statement, or inside its handlers and cases."""
    for part in BLOCKS:
        for child in getattr(node, part, ()):
            if isinstance(child, ast.stmt):
                yield child
            else:
                yield from _blocks(child)


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Every statement inside a node, nested ones included; expressions, the most of it, are not."""
    for node in _blocks(tree):
        yield node
        yield from statements(node)


def own_imports_of(module: Module) -> Iterator[Import]:
    """Its imports of other modules of the package."""
    for imported in imports_of(module):
        if imported.target.split(".")[0] == PACKAGE:
            yield imported


def functions(tree: ast.AST) -> Iterator[FunctionNode]:
    """Every function and method, nested ones included."""
    return (node for node in statements(tree) if isinstance(node, FunctionNode))


def exported(module: Module) -> list[str] | None:
    """The names in its `__all__`, or None if it has no literal one."""
    for node in module.tree.body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == "__all__"
        ):
            try:
                return list(ast.literal_eval(node.value))
            except ValueError:
                return None
    return None


def report(title: str, findings: list[str]) -> None:
    """Fail if anything was found: what the rule is about, then one finding a line."""
    if findings:
        lines = "\n".join(f"  {finding}" for finding in findings)
        pytest.fail(f"{title} ({len(findings)}):\n{lines}", pytrace=False)
