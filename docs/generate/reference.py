"""The reference of the book, written from the declarations: `python docs/generate/reference.py`.

Each page of `docs/reference` is the result of one function. A test compares the pages on disk with
these results, so a page is never edited by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from command_reference import commands_page, environment_page
from error_reference import errors_page, exceptions_page
from host_reference import host_page
from language_reference import functions_page, methods_page, parameters_page
from type_reference import dtypes_page, subset_page

__all__ = ["FOLDER", "PAGES", "write_pages"]

FOLDER = Path(__file__).parents[1] / "reference"
PAGES: dict[str, Callable[[], str]] = {
    "functions.md": functions_page,
    "methods.md": methods_page,
    "parameters.md": parameters_page,
    "dtypes.md": dtypes_page,
    "python.md": subset_page,
    "errors.md": errors_page,
    "exceptions.md": exceptions_page,
    "host.md": host_page,
    "commands.md": commands_page,
    "environment.md": environment_page,
}


def write_pages() -> None:
    """Write every page."""
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write_pages()
