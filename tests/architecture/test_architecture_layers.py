"""Imports point down: which layer may know which, and what a plain import may load."""

import ast
import json
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter

import pytest
from source_tree import (
    PACKAGE,
    ROOT,
    exported,
    imports_of,
    modules,
    own_imports_of,
    report,
    unit_of,
)

# A unit may import units of its own row and of the rows above. "" is `tilewright/__init__.py`.
LAYERS = (
    (
        "errors",
        "source",
        "deep_calls",
        "dtypes",
        "given",
        "diagnostics",
        "files",
        "settings",
        "native",
        "version",
    ),
    ("ir",),
    ("analysis", "bytecode"),
    ("check", "passes"),
    ("lang", "frontend", "dims"),
    ("runtime",),
    ("backends",),
    ("jit",),
    ("kernel", "host", "external", "functions", "debugging", "event_log"),
    ("bench", "tune", "autotuning"),
    ("",),
    ("kernels",),
    ("lint", "witness", "cutile", "llm"),
    ("cli", "__main__"),
)
RANK = {unit: rank for rank, row in enumerate(LAYERS) for unit in row}
FOUNDATION = LAYERS[0]

# What takes long to import or is not installed everywhere is loaded by name on first use: a kind of
# device, the part in C, our kernels, the compiler and the program makers, the CUDA bindings, what
# draws plots, torch to compare with, cuTile, language models. A program that is checked names
# modules of ours.
LOADERS_BY_NAME = {
    f"{PACKAGE}.native",
    f"{PACKAGE}.runtime.loading",
    f"{PACKAGE}.jit.loader",
    f"{PACKAGE}.backends.cuda.driver",
    f"{PACKAGE}.kernels",
    f"{PACKAGE}.lint.declarations",
    f"{PACKAGE}.bench.plots",
    f"{PACKAGE}.cli.bench_cases",
    f"{PACKAGE}.cli.cutile",
    f"{PACKAGE}.cli.language",
    f"{PACKAGE}.witness.solver",
}


def test_every_unit_has_a_layer():
    unknown = sorted({module.unit for module in modules().values()} - RANK.keys())
    report("units with no place in LAYERS", unknown)


def test_the_design_page_shows_the_same_layers():
    page = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    table = page.partition("## Layers")[2].partition("## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    shown = [set(re.findall(r"`(\w+)`", row)) for row in rows]
    assert shown == [{unit or "__init__" for unit in row} for row in LAYERS]


def test_imports_point_down():
    wrong = [
        f"{module.at(imported.line)}: {module.unit} must not know {unit_of(imported.target)}"
        for module in modules().values()
        for imported in own_imports_of(module)
        if RANK[unit_of(imported.target)] > RANK[module.unit]
    ]
    report("imports that point up", wrong)


def test_the_runtime_knows_nothing_of_the_compiler():
    wrong = [
        f"{module.at(imported.line)}: imports {imported.target}"
        for module in modules().values()
        if module.unit == "runtime"
        for imported in own_imports_of(module)
        if unit_of(imported.target) not in ("runtime", *FOUNDATION)
    ]
    report("imports of the compiler in the runtime", wrong)


def test_a_backend_never_imports_another():
    wrong = [
        f"{module.at(imported.line)}: imports {imported.target}"
        for module in modules().values()
        if module.unit == "backends" and module.name.count(".") > 1
        for imported in own_imports_of(module)
        if unit_of(imported.target) == "backends"
        and imported.target.count(".") > 1
        and imported.target.split(".")[2] in {"cpu", "cuda"} - {module.name.split(".")[2]}
    ]
    report("imports between backends", wrong)


@pytest.mark.parametrize("grain", ["module", "unit"])
def test_no_cycles(grain):
    """Also between the units of one row: the order there is free, but there is one.

    Inside one unit, two nouns may name each other in annotations: a stream has a device and a
    device its streams.
    """
    graph: dict[str, set[str]] = {}
    for module in modules().values():
        source = module.name if grain == "module" else module.unit
        for imported in own_imports_of(module):
            target = imported.target if grain == "module" else unit_of(imported.target)
            if imported.is_for_types and unit_of(imported.target) == module.unit:
                continue
            if target != source:
                graph.setdefault(source, set()).add(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        pytest.fail(" imports ".join(reversed(cycle.args[1])), pytrace=False)


def test_imports_stand_at_the_top():
    wrong = [
        f"{module.at(imported.line)}: {imported.target}"
        for module in modules().values()
        for imported in imports_of(module)
        if imported.is_local
    ]
    report("imports inside functions", wrong)


def test_only_the_backend_loader_imports_by_name():
    by_name = {"import_module", "__import__"}
    users = {
        module.name
        for module in modules().values()
        for node in ast.walk(module.tree)
        if getattr(node, "id", getattr(node, "attr", None)) in by_name
    }
    wrong = sorted(users - LOADERS_BY_NAME)
    report("modules that import by name", wrong)


def test_names_cross_modules_only_through_all():
    wrong = [
        f"{module.at(imported.line)}: {name} is not in the __all__ of {imported.target}"
        for module in modules().values()
        for imported in own_imports_of(module)
        if imported.target in modules()
        for name in imported.names
        if name not in (exported(modules()[imported.target]) or ())
    ]
    report("private names imported from another module", wrong)


@pytest.mark.parametrize(
    ("unit", "more"), [("kernels", {f"{PACKAGE}.tune"}), ("llm", {f"{PACKAGE}.kernels"})]
)
def test_written_like_a_users(unit, more):
    """Only the public front, the ready-made dims, one thing more, and each other.

    Kernels ask for the tuner's records; language models are made of kernels.
    """
    public = {PACKAGE, f"{PACKAGE}.dims", *more}
    wrong = [
        f"{module.at(imported.line)}: imports {imported.target}"
        for module in modules().values()
        if module.unit == unit
        for imported in own_imports_of(module)
        if imported.target not in public and unit_of(imported.target) != unit
    ]
    report(f"modules of {unit} that use more than public names", wrong)


def test_a_plain_import_loads_only_numpy_and_ml_dtypes():
    script = f"import json, sys; import {PACKAGE}; print(json.dumps(sorted(sys.modules)))"
    answer = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    loaded = json.loads(answer.stdout)
    bare = subprocess.run(
        [sys.executable, "-I", "-c", "import json, sys; print(json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
    )
    new = {name.split(".")[0] for name in loaded} - {
        name.split(".")[0] for name in json.loads(bare.stdout)
    }
    foreign = sorted(new - sys.stdlib_module_names - {PACKAGE, "numpy", "ml_dtypes"})
    report("third parties loaded by a plain import", foreign)
    first_use = tuple(
        f"{PACKAGE}.{unit}" for unit in ("backends.cuda", "cli", "llm", "tune", "bench")
    )
    late = [name for name in loaded if name.startswith(first_use)]
    report("modules that should load on first use", late)
