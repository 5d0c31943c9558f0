"""Hooks of mkdocs: the files outside `docs` that pages link to become pages as well.

A link of a page is relative to the page's file, so that it works in a checkout and on a code host.
On the site a file `path` outside `docs` is at `project/path`: pages and pictures as they are, other
texts as a page with one block of code, folders as a list of their files. Every link of a page is
rewritten from the first form to the second.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

__all__ = ["on_files", "on_page_markdown", "site_path"]

ROOT = Path(__file__).parents[2]
OUTSIDE = "project"  # folder of the site for files outside `docs`
AS_THEY_ARE = {".md", ".svg", ".png"}
LINK = re.compile(r"(\]\()(?!https?:|#)([^)\s#]+)(#[^)\s]+)?\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def site_path(path: str) -> str:
    """The place on the site of a file or folder, given by its path in the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if (ROOT / path).is_dir():
        return f"{OUTSIDE}/{path}/README.md"
    suffix = "" if Path(path).suffix in AS_THEY_ARE else ".md"
    return f"{OUTSIDE}/{path}{suffix}"


def linked(path: str) -> set[str]:
    """The files and folders of the repository that a page links to."""
    text = FENCE.sub("", (ROOT / path).read_text(encoding="utf-8"))
    targets = {_target(path, link) for _, link, _ in LINK.findall(text)}
    return {target for target in targets if (ROOT / target).exists()}


def on_files(files: Any, config: Any) -> Any:
    """Add the files outside `docs` that pages link to, those that only they link to included."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - tests import this module without it

    for path in sorted(_outside()):
        place = site_path(path)
        if Path(place).suffix in AS_THEY_ARE - {".md"}:
            files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
        else:
            files.append(File.generated(config, place, content=_page(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page with the links of the site."""
    here = _repository_path(page.file.src_uri)

    def moved(match: re.Match[str]) -> str:
        path = _target(here, match[2])
        if not (ROOT / path).exists():
            return match[0]
        target = site_path(path)
        start = os.path.relpath(target, PurePosixPath(page.file.src_uri).parent)
        return f"{match[1]}{start}{match[3] or ''})"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if n % 2 else LINK.sub(moved, part) for n, part in enumerate(parts))


def _outside() -> set[str]:
    pages = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))]
    found: set[str] = set()
    while pages:
        page = pages.pop()
        for path in linked(page):
            if path.startswith("docs/") or path in found:
                continue
            found.add(path)
            if path.endswith(".md"):
                pages.append(path)
            elif (ROOT / path).is_dir():
                found |= {f"{path}/{file}" for file in _files(path)}
    return found


def _page(path: str) -> str:
    place = ROOT / path
    if place.is_dir():
        lines = [f"- [{file}]({file})" for file in _files(path)]
        return "\n".join([f"# {place.name.capitalize()}", "", *lines, ""])
    text = place.read_text(encoding="utf-8")
    if place.suffix == ".md":
        return text
    language = "python" if place.suffix == ".py" else ""
    return f"# {place.name}\n\n```{language}\n{text}```\n"


def _files(folder: str) -> list[str]:
    return sorted(path.name for path in (ROOT / folder).glob("*.py"))


def _target(page: str, link: str) -> str:
    return os.path.normpath(PurePosixPath(page).parent / link)


def _repository_path(uri: str) -> str:
    if not uri.startswith(f"{OUTSIDE}/"):
        return f"docs/{uri}"
    path = uri.removeprefix(f"{OUTSIDE}/")
    if (ROOT / path).exists() or not path.endswith(".md"):
        return path
    return path.removesuffix(".md")  # a folder's README.md that is no file: links are beside it
