"""Every Python block of the pages runs as it stands, and links lead somewhere."""

import importlib.util
import re
from pathlib import Path

import pytest
import tiny_models

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")
OPTIONAL = re.compile(r"^import (torch|jax)$", re.MULTILINE)
pytestmark = pytest.mark.filterwarnings("error::tilewright.ExtentWarning")

PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "DESIGN.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)
BLOCKS = [
    pytest.param(match.group(1), id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, match in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8")), start=1)
]


def slug(title: str) -> str:
    """The anchor of a heading, on a code host and on the site alike."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    """Those to files of ours, and to headings of pages; what lies elsewhere is not looked at."""
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        place, _, heading = link.partition("#")
        target = page.parent / place if place else page
        assert target.exists(), link
        if heading:
            titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in set(map(slug, titles)), link


@pytest.mark.parametrize("code", BLOCKS)
def test_a_block_runs(code, tmp_path, monkeypatch):
    """Kernels are read from their file, so the block becomes one; `model` is a tiny model."""
    if "tilewright.llm" in code:
        tiny_models.write_model(tmp_path / "model")
        monkeypatch.chdir(tmp_path)
    for library in OPTIONAL.findall(code):
        pytest.importorskip(library, reason=f"needs {library}")
    script = tmp_path / "block.py"
    script.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("block", script)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
