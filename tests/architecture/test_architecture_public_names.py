"""What a module offers is listed, in one order, and says what it is."""

import ast
import functools
import re
from collections.abc import Iterator

from source_tree import FunctionNode, Module, exported, modules, report, statements


def _offering() -> list[Module]:
    """Modules with anything in them: an `__init__` that only marks a folder offers nothing."""
    return [module for module in modules().values() if module.tree.body]


def test_modules_say_what_they_are_for():
    silent = [module.at(1) for module in _offering() if not ast.get_docstring(module.tree)]
    report("modules with no docstring", silent)


def test_modules_list_what_they_offer():
    missing = [
        module.at(1)
        for module in _offering()
        if exported(module) is None and len(module.tree.body) > 1 and module.unit != "__main__"
    ]
    report("modules with no literal __all__", missing)


def test_lists_are_sorted_and_true():
    wrong = []
    for module in _offering():
        names = exported(module) or []
        if names != sorted(set(names), key=_isort_order):
            wrong.append(f"{module.at(1)}: not in the order of ruff's RUF022, or a name twice")
        bound = set(_bound_names(module.tree.body))
        wrong += [f"{module.at(1)}: {name} is not defined" for name in names if name not in bound]
    report("wrong __all__", wrong)


def test_public_names_are_documented():
    silent = []
    for module in _offering():
        definitions = _definitions(module)
        for name in exported(module) or ():
            if (node := definitions.get(name)) is not None:
                silent += _undocumented(module, node)
    report("public names with no docstring", silent)


def test_public_constants_are_explained():
    """By a comment above or beside them, or by a string below."""
    silent = []
    for module in _offering():
        names = set(exported(module) or ())
        lines = module.path.read_text(encoding="utf-8").splitlines()
        for node, below in zip(module.tree.body, [*module.tree.body[1:], None], strict=True):
            for name in names.intersection(_assigned(node)):
                own = lines[node.lineno - 1 : node.end_lineno]
                commented = lines[node.lineno - 2].lstrip().startswith("#")
                if not (commented or any("# " in line for line in own) or _is_string(below)):
                    silent.append(f"{module.at(node.lineno)}: {name}")
    report("public constants with no explanation", silent)


def _isort_order(name: str) -> tuple[int, list[tuple[int, int, str]]]:
    """Constants, then classes, then the rest; numbers by value: ruff's RUF022."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    parts = re.findall(r"\d+|\D+", name)
    return kind, [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]


def _bound_names(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef | FunctionNode):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.If | ast.Try):
            yield from _bound_names([*node.body, *node.orelse])
        else:
            yield from _assigned(node)


def _assigned(node: ast.stmt) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    for target in targets:
        for part in ast.walk(target) if target is not None else ():
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                yield part.id


def _is_string(node: ast.stmt | None) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _definitions(module: Module) -> dict[str, ast.ClassDef | FunctionNode]:
    return {n.name: n for n in module.tree.body if isinstance(n, ast.ClassDef | FunctionNode)}


def _undocumented(module: Module, node: ast.ClassDef | FunctionNode) -> Iterator[str]:
    if not ast.get_docstring(node):
        yield f"{module.at(node.lineno)}: {node.name}"
    if not isinstance(node, ast.ClassDef):
        return
    for name, method in _methods(node).items():
        inherited = any(name in _documented_methods(base) for base in _ancestors(node))
        if not ast.get_docstring(method) and not inherited and not name.startswith("_"):
            yield f"{module.at(method.lineno)}: {node.name}.{name}"


def _methods(node: ast.ClassDef) -> dict[str, FunctionNode]:
    """Its methods by name; of overloads and property setters the first documented one."""
    found: dict[str, FunctionNode] = {}
    for method in node.body:
        if isinstance(method, FunctionNode):
            known = found.get(method.name)
            if known is None or not ast.get_docstring(known):
                found[method.name] = method
    return found


def _documented_methods(node: ast.ClassDef) -> set[str]:
    return {name for name, method in _methods(node).items() if ast.get_docstring(method)}


@functools.cache
def _classes() -> dict[str, ast.ClassDef]:
    return {
        node.name: node
        for module in modules().values()
        for node in statements(module.tree)
        if isinstance(node, ast.ClassDef)
    }


def _ancestors(node: ast.ClassDef) -> Iterator[ast.ClassDef]:
    """Classes of the package that it derives from: an override means what they say."""
    waiting, seen = [node], {node.name}
    while waiting:
        for base in waiting.pop().bases:
            plain = base.value if isinstance(base, ast.Subscript) else base
            name = plain.attr if isinstance(plain, ast.Attribute) else getattr(plain, "id", "")
            if name in _classes() and name not in seen:
                seen.add(name)
                waiting.append(_classes()[name])
                yield _classes()[name]
