"""One word, one class: a name that two modules define means two things to a reader."""

import ast
from collections import defaultdict

from source_tree import Module, modules, report

# Names with a second definition in these parts, until they are renamed there.
PENDING_PARTS = {"jit", "runtime"}
PENDING = {
    "Block",
    "Cut",
    "Known",
    "Member",
    "Partition",
    "Place",
    "Plan",
    "Stamp",
    "Table",
    "Value",
    "Work",
    "_Dropped",
    "_Read",
}

Definition = tuple[Module, int]  # with the line


def _classes() -> dict[str, list[Definition]]:
    """Every class, those inside classes and functions included, one definition for each module."""
    found: dict[str, dict[str, Definition]] = defaultdict(dict)
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].setdefault(module.name, (module, node.lineno))
    return {name: list(places.values()) for name, places in found.items()}


def _clashes(definitions: list[Definition], name: str) -> list[Definition]:
    if name in PENDING:
        definitions = [place for place in definitions if place[0].unit not in PENDING_PARTS]
    return definitions if len(definitions) > 1 else []


def test_no_two_modules_define_a_class_of_one_name():
    clashes = [
        f"{name}: {', '.join(module.at(line) for module, line in places)}"
        for name, definitions in sorted(_classes().items())
        if (places := _clashes(definitions, name))
    ]
    report("classes of one name, of which all but the most general need another", clashes)


def test_two_classes_of_one_name_are_seen():
    module = next(iter(modules().values()))
    other = Module(f"{module.name}.other", module.path, module.tree)
    assert _clashes([(module, 1), (other, 1)], "Twice") == [(module, 1), (other, 1)]
    assert _clashes([(module, 1)], "Once") == []
