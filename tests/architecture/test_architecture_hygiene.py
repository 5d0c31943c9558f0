"""Nothing left lying about: vague file names, unfinished work, traces of one machine."""

import ast
import re
from pathlib import Path

from source_tree import ROOT, parse, python_files, report, statements

VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "stuff"}

# One letter in brackets, so that this file passes its own test.
UNFINISHED = re.compile(r"\b([T]ODO|[F]IXME|[X]XX|[H]ACK)\b")
ONE_MACHINE = re.compile(
    r"(?<![\w.~}])/(work|home|root|Users|mnt)/[\w.-]+|index[-]url|find[-]links"
)
LINK = re.compile(r"https?://([\w.-]+)")
PUBLIC_HOSTS = {
    "arxiv.org",
    "developer.nvidia.com",
    "docs.nvidia.com",
    "docs.python.org",
    "example.com",
    "github.com",
    "numpy.org",
    "pypi.org",
    "www.apache.org",
    "www.w3.org",
}


# What changes something; `python -O` leaves assertions out, and everything in them.
CHANGES = {"add", "append", "clear", "discard", "extend", "insert", "pop", "popleft", "popitem",
           "put", "remove", "send", "setdefault", "sort", "submit", "update"}  # fmt: skip


def _texts() -> list[Path]:
    """Everything a person wrote: code, documents, build files."""
    folders = [ROOT / name for name in ("src", "tests", "benchmarks", "examples", "docs", ".ci")]
    deep = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    top = [path for path in ROOT.iterdir() if path.suffix in {".md", ".toml"}]
    skipped = {".pyc", ".so", ".cubin", ".tileirbc", ".bin", ".png", ".svg"}
    written = (p for p in deep if p.suffix not in skipped and "__pycache__" not in p.parts)
    return sorted({*written, *top, ROOT / "Makefile"})


def _findings(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in _texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for match in pattern.finditer(line)
    ]


def test_files_are_named_after_what_they_hold():
    vague = [
        str(path.relative_to(ROOT))
        for path in python_files("src", "tests", "benchmarks", "examples", "docs")
        if VAGUE.intersection(path.relative_to(ROOT).with_suffix("").parts)
        or VAGUE.intersection(path.stem.split("_"))
    ]
    report("files whose name says nothing", vague)


def test_assertions_only_look():
    changing = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node.test)}"
        for path in python_files("src")
        for node in statements(parse(path))
        if isinstance(node, ast.Assert) and any(map(_changes, ast.walk(node.test)))
    ]
    report("assertions that do something", changing)


def _changes(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES
    return isinstance(node, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom))


def test_nothing_is_left_unfinished():
    report("marks of unfinished work", _findings(UNFINISHED))


def test_no_trace_of_one_machine():
    report("paths and settings of one place", _findings(ONE_MACHINE))


def test_links_lead_to_public_places():
    found = [line for line in _findings(LINK) if line.rpartition("//")[2] not in PUBLIC_HOSTS]
    report("links to hosts that PUBLIC_HOSTS does not know", found)


def test_test_files_have_unique_names():
    """They are imported by their bare names."""
    seen: dict[str, Path] = {}
    twice = []
    for path in python_files("tests"):
        if path.name != "conftest.py" and seen.setdefault(path.name, path) != path:
            twice.append(f"{path.relative_to(ROOT)} and {seen[path.name].relative_to(ROOT)}")
    report("test files of one name", twice)
