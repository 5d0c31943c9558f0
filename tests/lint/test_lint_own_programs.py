"""All programs of ours are free of findings: examples, pages, benchmarks, tests of the tour."""

import re
from pathlib import Path

import pytest

from tilewright.lint.host_code import check_host_code

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOLDERS = ("examples", "benchmarks", "tests/tour", "src/tilewright/kernels")


@pytest.mark.parametrize("folder", FOLDERS)
def test_programs_have_no_finding(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    for path in files:
        assert check_host_code(path.read_text(encoding="utf-8"), path) == (), path


def test_pages_have_no_finding():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    blocks = [(page, code) for page in pages for code in BLOCK.findall(page.read_text("utf-8"))]
    assert len(blocks) > 20
    for page, code in blocks:
        assert check_host_code(code, page) == (), (page, code)


def test_the_mistakes_of_the_tour_are_found():
    """The tour shows refusals: a launch that reads its output, and a kernel that is refused."""
    path = ROOT / "src/tilewright/cli/tour.py"
    found = check_host_code(path.read_text(encoding="utf-8"), path)
    assert [one.code for one in found] == ["borrow", "never-run"]
