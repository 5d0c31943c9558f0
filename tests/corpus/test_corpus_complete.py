"""Every name of the corpus has its test, and each program that is refused an accepted neighbour."""

import ast
from pathlib import Path

import pytest
from corpus_cases import EVERY_CASE

TESTS = Path(__file__).parents[1]


def defined_tests(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", EVERY_CASE)
def test_a_name_of_the_corpus_leads_to_its_test(name):
    place = EVERY_CASE[name]
    golden = place.removeprefix("errors:")
    if golden != place:
        assert (TESTS / "errors" / f"{golden}.err").is_file()
    else:
        file, _, test = place.partition("::")
        assert test in defined_tests(file)
