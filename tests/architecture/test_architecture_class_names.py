"""One word, one class: a name that two modules define means two things to a reader."""

import ast
from collections import defaultdict

from source_tree import Module, modules, report, statements

Definition = tuple[Module, int]  # with the line


def _classes() -> dict[str, list[Definition]]:
    """Every class, those inside classes and functions included, one definition for each module."""
    found: dict[str, dict[str, Definition]] = defaultdict(dict)
    for module in modules().values():
        for node in statements(module.tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].setdefault(module.name, (module, node.lineno))
    return {name: list(places.values()) for name, places in found.items()}


def _clashes(classes: dict[str, list[Definition]]) -> list[str]:
    return [
        f"{name}: {', '.join(module.at(line) for module, line in places)}"
        for name, places in sorted(classes.items())
        if len(places) > 1
    ]


def test_no_two_modules_define_a_class_of_one_name():
    clashes = _clashes(_classes())
    report("classes of one name, of which all but the most general need another", clashes)


def test_two_classes_of_one_name_are_seen():
    module = next(iter(modules().values()))
    other = Module(f"{module.name}.other", module.path, module.tree)
    classes = {"Twice": [(module, 1), (other, 1)], "Once": [(module, 1)]}
    assert _clashes(classes) == [f"Twice: {module.at(1)}, {other.at(1)}"]


def test_operations_have_three_levels_of_classes():
    import tilewright  # noqa: F401 (all kinds of operations)
    from tilewright.runtime.ops.operation import DeviceOp

    kinds, deepest = [DeviceOp], 1
    while kinds := [kind for one in kinds for kind in one.__subclasses__()]:
        deepest += 1
    assert deepest == 3
