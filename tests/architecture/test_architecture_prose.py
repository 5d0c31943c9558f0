"""The subject of every sentence in comments, docstrings, messages and pages is a thing."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from source_tree import ROOT, python_files, report

# An indefinite person is never what a sentence of ours is about; a clause with "what" as subject
# hides the noun that is. One letter in brackets, so that this file passes its own test.
PERSONS = re.compile(
    r"\b([n]obody|[s]omebody|[a]nybody|[e]verybody|[w]hoever|[w]homever|[n]o one|[s]omeone|[a]nyone"
    r"|[e]veryone)\b",
    re.IGNORECASE,
)
PAGES = (
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "benchmarks" / "README.md",
)
CODE = ("src", "examples", "benchmarks", "docs", "tests/runtime")
BEGINS = re.compile(r"\s*(?:#+|[-*]|\d+\.|\|)\s")
CLAUSE = re.compile(r"(?:^|[.;:!?]\s+|\n\n)([Ww]hat|Whatever)\s(?!\w+\?)[^?\n]*")
# A file of code without any of their words, also over two lines or parts of a text, is not parsed.
WORDS = re.compile(
    PERSONS.pattern + r"|\b[n]o\b\W*[bfru]?\W*one\b|\bwhat(?:ever)?\b", re.IGNORECASE
)


def _comments(path: Path) -> Iterator[tuple[int, str]]:
    """Comments, those of neighbouring lines as one text."""
    block: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type != tokenize.COMMENT:
            continue
        if block and token.start[0] != last + 1:
            yield first, " ".join(block)
            block = []
        if not block:
            first = token.start[0]
        block.append(token.string.lstrip("# "))
        last = token.start[0]
    if block:
        yield first, " ".join(block)


def _strings(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings and every other text of the code."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, re.sub(r"(?<!\n)\n\s*(?!\n)", " ", node.value).strip()


def _passages(path: Path) -> Iterator[tuple[int, str]]:
    """Paragraphs, list items, headings and table cells of a page; code blocks are left out."""
    block: list[str] = []
    first, is_code = 0, False
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], start=1):
        is_fence = line.lstrip().startswith("```")
        begins = BEGINS.match(line)
        if block and (is_fence or begins or not line.strip()):
            yield first, " ".join(block)
            block = []
        is_code ^= is_fence
        if is_code or is_fence:
            continue
        if line.startswith("|"):
            yield from ((number, cell.strip()) for cell in line.split("|"))
        elif line.strip():
            first = first if block else number
            block.append(line.strip().removeprefix(begins[0].strip() if begins else ""))


def vague(path: Path) -> Iterator[str]:
    """Sentences of a file without a thing as their subject."""
    is_page = path.suffix == ".md"
    if not is_page and not WORDS.search(path.read_text(encoding="utf-8")):
        return
    for line, text in _passages(path) if is_page else (*_comments(path), *_strings(path)):
        for pattern in (PERSONS, CLAUSE):
            for match in pattern.finditer(text):
                yield f"{path.relative_to(ROOT)}:{line}: {match[0].strip()[:80]}"


def test_sentences_are_about_things():
    found = [line for path in (*python_files(*CODE), *PAGES) for line in vague(path)]
    report("sentences about an indefinite person, or that begin with a clause", sorted(set(found)))
