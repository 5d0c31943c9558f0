"""The reference says what the declarations say."""

import drawings
import pytest
from reference import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_its_declarations(name):
    written = (FOLDER / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "stale: `make reference` writes the pages anew"


def test_every_page_has_its_declarations():
    assert {path.name for path in FOLDER.glob("*.md")} == set(PAGES)


def test_drawings_are_as_their_script_draws_them():
    written = {path.stem: path.read_text(encoding="utf-8") for path in drawings.FOLDER.iterdir()}
    drawn = {name: draw().svg() for name, draw in drawings.DRAWINGS.items()}
    assert written == drawn, "stale: `make reference` draws them anew"
