"""Small and whole: a file is read in one go, a function stands on one screen."""

import ast

from source_tree import ROOT, FunctionNode, functions, parse, python_files, report, statements

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60  # without its docstring and decorators
MAX_STATEMENTS = 40

CODE = ("src", "tests", "benchmarks", "examples", "docs")


def test_files_are_short():
    long = [
        f"{path.relative_to(ROOT)}: {lines} lines"
        for path in python_files(*CODE)
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MAX_FILE_LINES
    ]
    report(f"files over {MAX_FILE_LINES} lines", long)


def test_functions_stand_on_one_screen():
    long = []
    for path in python_files(*CODE):
        for function in functions(parse(path)):
            place = f"{path.relative_to(ROOT)}:{function.lineno}: {function.name}"
            if (lines := _lines(function)) > MAX_FUNCTION_LINES:
                long.append(f"{place} has {lines} lines")
            if (statements := _statements(function)) > MAX_STATEMENTS:
                long.append(f"{place} has {statements} statements")
    title = f"functions over {MAX_FUNCTION_LINES} lines or {MAX_STATEMENTS} statements"
    report(title, long)


def _lines(function: FunctionNode) -> int:
    docstring = 0
    if ast.get_docstring(function, clean=False) is not None:
        first = function.body[0]
        docstring = (first.end_lineno or first.lineno) - first.lineno + 1
    return (function.end_lineno or function.lineno) - function.lineno + 1 - docstring


def _statements(function: FunctionNode) -> int:
    has_docstring = ast.get_docstring(function, clean=False) is not None
    return sum(1 for _ in statements(function)) - has_docstring
