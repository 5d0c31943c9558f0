"""Every refused program has a neighbour that is accepted."""

import importlib
from pathlib import Path

from neighbours import CLAIMED

HERE = Path(__file__)
MODULES = [
    importlib.import_module(path.stem)
    for path in sorted(HERE.parent.glob("test_accept_*.py"))
    if path != HERE
]
ERRORS = HERE.parent.parent / "errors"


def test_every_refusal_has_an_accepted_neighbour():
    cases = {f"{path.parent.name}/{path.stem}" for path in ERRORS.glob("*/*.err")}
    tests = {name for module in MODULES for name in vars(module)}
    assert cases - CLAIMED.keys() == set(), "cases without an accepted neighbour"
    assert CLAIMED.keys() - cases == set(), "neighbours of cases that do not exist"
    assert {test for claims in CLAIMED.values() for test in claims} <= tests
