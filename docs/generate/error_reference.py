"""Pages about refusals: every kind of problem, with the tests' wrong and right programs.

A kind of problem is a class derived from `Problem`. Its wrong programs are the cases of
`tests/errors` whose message has the form of its title; its right ones are their accepted neighbours
in `tests/accept`. The host check has its pairs in `tests/lint/programs.txt`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from page_text import ROOT, block, page, prose, sentence, table

import tilewright.check.errors
from tilewright import errors
from tilewright.diagnostics import Problem
from tilewright.lint import findings
from tilewright.lint.host_code import check_host_code

sys.path.append(str(ROOT / "tests/lint"))

__all__ = ["errors_page", "exceptions_page"]

CASES, ACCEPTED = ROOT / "tests/errors", ROOT / "tests/accept"
FAMILIES = {
    "ownership": "A store or a walk of memory that the block does not own.",
    "bounds": "An index that leaves its axis, or a check that may not stay in the kernel.",
    "types": "Dtypes, shapes and ranks that do not fit.",
    "syntax": "Python that is not part of the kernel language.",
    "names": "Names without a value, and values that a kernel cannot capture.",
    "target": "A dtype, an operation or a size that the GPU does not have.",
    "unsafe": "Operations that the compiler cannot check, outside a block with a reason.",
    "assert": "A `tw.static_assert` of your own.",
    "borrow": "Host code that uses a tensor while a built operation holds it.",
    "moved": "Host code that uses a handle after `tw.move`.",
    "never-run": "Host code that builds an operation and drops it.",
}


@dataclass(frozen=True)
class Example:
    """A wrong program, its message, and a right one; the source names the test."""

    source: str
    wrong: str
    message: str
    right: str


def errors_page() -> str:
    """Every error, by its code."""
    kinds = [kind for kind in _problems() if not inspect.isabstract(kind)]
    codes = dict.fromkeys(kind.code for kind in kinds)
    assert set(codes) == set(FAMILIES), "every code has a line in FAMILIES, and no other"
    parts = [
        "A refusal names the line, the reason and the way out. Its code, `error[ownership]`, is a "
        "section of this page. Wrong programs and their messages are those of the tests; below "
        "each stands an accepted one beside it.",
        table(("code", "cause"), [(f"[`error[{c}]`](#{c})", text) for c, text in FAMILIES.items()]),
    ]
    for code, cause in FAMILIES.items():
        parts += [f"## {code}", cause]
        for kind in kinds:
            if kind.code == code:
                parts.append(_section(kind))
    return page("Errors", *parts)


def _section(kind: type[Problem]) -> str:
    words = re.sub(r"(?<!^)([A-Z][a-z])", r" \1", kind.__name__)
    parts = [f"### {words[0]}{words[1:].lower()}", prose(kind)]
    example = _host_examples().get(kind) or _examples().get(kind)
    if example is not None:
        parts += [
            block(example.wrong, "py"),
            block(example.message),
            f"Accepted, beside `{example.source}`:",
            block(example.right, "py"),
        ]
    else:
        parts.append("The assembler decides this for each target, so there is no program to show.")
    return "\n\n".join(parts)


def _problems() -> Iterator[type[Problem]]:
    modules = pkgutil.iter_modules(tilewright.check.errors.__path__)
    for module in (*(f"tilewright.check.errors.{m.name}" for m in modules), findings.__name__):
        declared = importlib.import_module(module)
        for found in vars(declared).values():
            is_problem = inspect.isclass(found) and issubclass(found, Problem)
            if is_problem and found.__module__ == module:
                yield found


@cache
def _examples() -> dict[type[Problem], Example]:
    """For each kind the shortest case of its form, if possible one with a single problem."""
    forms = [(kind, *_form(kind)) for kind in _problems() if not inspect.isabstract(kind)]
    right = _accepted()
    found: dict[type[Problem], Example] = {}
    for path in sorted(CASES.glob("*/*.err"), key=_length):
        message = _message(path)
        title = re.match(r"error\[([\w-]+)\]: (.*)", message)
        case = f"{path.parent.name}/{path.stem}"
        if title is None or case not in right:
            continue
        fitting = [
            (literal, kind) for kind, form, literal in forms
            if kind.code == title[1] and form.fullmatch(title[2])
        ]  # fmt: skip
        if fitting:
            _, kind = max(fitting, key=lambda each: each[0])
            source = f"tests/errors/{case}.py"
            found.setdefault(kind, Example(source, _program(path), message, right[case]))
    return found


def _length(path: Path) -> tuple[int, int, str]:
    return _message(path).count("error["), len(_program(path)), str(path)


def _message(path: Path) -> str:
    """The text of a refusal, without the line that names its exception."""
    return path.read_text(encoding="utf-8").partition("\n")[2]


def _program(path: Path) -> str:
    """A case without its docstring."""
    return path.with_suffix(".py").read_text(encoding="utf-8").split('"""', 2)[2].strip()


def _form(kind: type[Problem]) -> tuple[re.Pattern[str], int]:
    """The pattern of a title, and the number of its fixed characters.

    The title is an f-string, or one of several: each constant is itself, each value anything.
    """
    assert isinstance(kind.title, property)
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind.title.fget)))  # type: ignore[arg-type]
    patterns, fixed = [], 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.value is not None:
            pattern, length = _pattern(node.value)
            patterns.append(pattern)
            fixed = max(fixed, length)
    return re.compile("|".join(patterns), re.DOTALL), fixed


def _pattern(node: ast.expr) -> tuple[str, int]:
    if isinstance(node, ast.Constant):
        return re.escape(str(node.value)), len(str(node.value))
    if isinstance(node, ast.JoinedStr):
        parts = [_pattern(part) for part in node.values]
        return "".join(part for part, _ in parts), sum(length for _, length in parts)
    return ".*", 0


def _accepted() -> dict[str, str]:
    """The accepted neighbour of each case: the kernels of the test that claims it."""
    found: dict[str, str] = {}
    for path in sorted(ACCEPTED.glob("test_accept_*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                for case in _claims(node):
                    found.setdefault(case, _kernels(node, text))
    return found


def _claims(test: ast.FunctionDef) -> Iterator[str]:
    for decorator in test.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "neighbour_of":
            for argument in decorator.args:
                yield ast.literal_eval(argument)


def _kernels(test: ast.FunctionDef, text: str) -> str:
    """The functions that a test defines, or all of it where it defines none."""
    inner = [node for node in test.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    lines = text.splitlines()

    def source(node: ast.FunctionDef | ast.ClassDef) -> str:
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        return textwrap.dedent("\n".join(lines[first - 1 : node.end_lineno]))

    if inner:
        return "\n\n\n".join(source(node) for node in inner)
    return textwrap.dedent("\n".join(lines[test.body[0].lineno - 1 : test.end_lineno]))


@cache
def _host_examples() -> dict[type[Problem], Example]:
    """The first pair of `programs.txt` for each finding of the host check."""
    from running_programs import PATH, PRELUDE  # noqa: PLC0415 - found in tests/lint

    found: dict[type[Problem], Example] = {}
    pairs = (ROOT / "tests/lint/programs.txt").read_text(encoding="utf-8")
    for section in pairs.split("=== ")[1:]:
        wrong, right = re.split(r"^---.*\n", section.partition("\n")[2], flags=re.MULTILINE)
        (finding,) = check_host_code(PRELUDE + wrong, PATH)
        shown = re.sub(r"\s*#[!?=]+", "", wrong), re.sub(r"\s*#[!?=]+", "", right)
        message = f"error[{finding.code}]: {finding.title}"
        notes = [f" = help: {way_out}" for way_out in finding.helps]
        text = "\n".join([message, *notes])
        example = Example("tests/lint/programs.txt", shown[0], text, shown[1])
        found.setdefault(type(finding), example)
    return found


def exceptions_page() -> str:
    """Every exception and warning that you can catch."""
    return page(
        "Exceptions",
        "Every exception is a `tw.TilewrightError`; warnings are Python's own `UserWarning`s.",
        "## Errors",
        _kinds(is_warning=False),
        "## Warnings",
        _kinds(is_warning=True),
    )


def _kinds(*, is_warning: bool) -> str:
    kinds = [(name, getattr(errors, name)) for name in errors.__all__]
    rows = [
        (f"`{name}`", f"`{kind.__bases__[0].__name__}`", sentence(kind))
        for name, kind in kinds
        if issubclass(kind, UserWarning) is is_warning
    ]
    return table(("name", "is a", "meaning"), rows)
