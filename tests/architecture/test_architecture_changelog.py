"""The changelog lists versions, newest first, and ends at the version of the package."""

import re

from source_tree import ROOT, report

from tilewright.version import VERSION

HEADING = re.compile(r"\d+\.\d+\.\d+ \((?:unreleased|\d{4}-\d{2}-\d{2})\)")


def _sections() -> list[str]:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return re.findall(r"^## (.*)$", text, re.MULTILINE)


def test_every_section_is_a_version():
    wrong = [f"## {title}" for title in _sections() if not HEADING.fullmatch(title)]
    report("sections that are no version: put their lines under the first version", wrong)


def test_the_newest_section_is_the_version_of_the_package():
    versions = [title.split()[0] for title in _sections()]
    assert versions[0] == VERSION
    assert len(versions) == len(set(versions))


def test_an_entry_has_no_heading_of_its_own():
    """The list of the first months had bold headings; a merge must not bring it back."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.findall(r"^- \*\*.*$", text, re.MULTILINE)
    report("entries in bold: keep one plain line of your own under its part, drop the rest", found)


def test_a_part_of_a_version_occurs_once():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for version in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        parts = re.findall(r"^### (.*)$", version, re.MULTILINE)
        assert len(parts) == len(set(parts)), "lines of one part belong together"
