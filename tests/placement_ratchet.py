"""Where the checks of every kernel of the tests and examples are settled: it may only get better.

`tests/placement.toml` pins, for each kernel by file and qualified name, how many checks are
proved, settled by the launch, hoisted, and left in place. A test that compiles a kernel fails if a
check has moved closer to the kernel. `--update-placement` writes what a run has seen;
`--strict-placement`, which `make test` asks for, also fails for kernels that the file does not have
yet. Kernels that tests make up stand in no file of ours and are nobody's to pin.
"""

from __future__ import annotations

import ast
import functools
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from tilewright.check.ledger import Counts
from tilewright.check.placement import Placement
from tilewright.kernel import Kernel

ROOT = Path(__file__).parents[1]
PINNED = ROOT / "tests" / "placement.toml"
HEAD = """\
# How many checks of each kernel are proved, settled by the launch, hoisted, left in place.
# `pytest --update-placement` rewrites what a run has seen; read what changed before you commit.
"""

GPU_ONLY = "tests/gpu/"  # kernels that most machines never compile: pinned where somebody has
SEPARATOR = "::"
Name = tuple[str, str]  # file, qualified name
Reach = tuple[int, int, int, int]  # checks left in place, in the kernel, behind the compiler, all


def reach(counts: Counts) -> Reach:
    """How far checks come towards the kernel, each number with those that come further."""
    inside = counts.in_place + counts.hoisted
    behind = inside + counts.launch
    return counts.in_place, inside, behind, behind + counts.proved


def counts_of(far: Reach) -> Counts:
    """The opposite of `reach`."""
    in_place, inside, behind, total = far
    return Counts(total - behind, behind - inside, inside - in_place, in_place)


def worst(one: Reach, other: Reach) -> Reach:
    """What covers two specialisations of one kernel."""
    a, b, c, d = map(max, one, other)
    return a, b, c, d


def is_worse(found: Reach, pinned: Reach) -> bool:
    """Whether checks come further than they did; how many there are in all does not matter."""
    return any(now > before for now, before in zip(found[:3], pinned[:3], strict=True))


@functools.cache
def pinned_counts() -> dict[Name, Reach]:
    """What the file says; of lines that a merge has left about one kernel, the worst."""
    found: dict[Name, Reach] = {}
    lines = PINNED.read_text(encoding="utf-8").splitlines() if PINNED.exists() else []
    for line in lines:
        for place, numbers in tomllib.loads(line).items():
            file, _, kernel = place.partition(SEPARATOR)
            far = reach(Counts(*numbers))
            found[file, kernel] = worst(far, found.get((file, kernel), far))
    return found


def defined_names(file: str) -> set[str]:
    """The qualified names of the functions of a file, without what Python puts between them."""
    path = ROOT / file
    return set(_nested(ast.parse(path.read_text(encoding="utf-8")), "")) if path.exists() else set()


def _nested(node: ast.AST, outer: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield outer + child.name
            yield from _nested(child, f"{outer}{child.name}.")
        else:
            yield from _nested(child, outer)


def stale_names(names: set[Name]) -> set[Name]:
    """Pinned kernels that are no longer there."""
    there = {file: defined_names(file) for file in {file for file, _ in names}}
    return {(file, kernel) for file, kernel in names if kernel not in there[file]}


def written(found: dict[Name, Reach]) -> str:
    """The text of the file: a line for each kernel, so that two branches can both add some."""
    lines = [HEAD]
    for name in sorted(found):
        counts = counts_of(found[name])
        row = [counts.proved, counts.launch, counts.hoisted, counts.in_place]
        lines.append(f'"{SEPARATOR.join(name)}" = {row}\n')
    return "".join(lines)


class Ratchet:
    """What one process has seen."""

    def __init__(self, config: pytest.Config) -> None:
        self.updates = config.getoption("--update-placement")
        self.is_strict = config.getoption("--strict-placement")
        self.seen: dict[Name, Reach] = {}
        self.problems: list[str] = []

    def see(self, kernel: Kernel, counts: Counts) -> None:
        """Note a compiled kernel that is ours."""
        path = Path(kernel.source.file.path)
        if not path.is_relative_to(ROOT):
            return
        qualified = kernel.__qualname__.replace("<locals>.", "")
        name = str(path.relative_to(ROOT)), qualified
        found = reach(counts)
        if not self.updates and (problem := self._problem(name, found)):
            self.problems.append(problem)
        self.merge({name: found})

    def merge(self, seen: dict[Name, Reach]) -> None:
        """Take in what was seen elsewhere."""
        for name, found in seen.items():
            self.seen[name] = worst(found, self.seen.get(name, found))

    def _problem(self, name: Name, found: Reach) -> str | None:
        pinned = pinned_counts().get(name)
        if pinned is None:
            is_wanted = self.is_strict and not name[0].startswith(GPU_ONLY)
            missing = f"{name[0]}::{name[1]} is not pinned: `pytest --update-placement` does it"
            return missing if is_wanted else None
        if not is_worse(found, pinned):
            return None
        return (
            f"the checks of {name[0]}::{name[1]} have come closer to the kernel:\n"
            f"  now    {counts_of(found)}\n  pinned {counts_of(pinned)}\n"
            "if that is meant, `pytest --update-placement` pins it"
        )

    def write(self) -> None:
        """Rewrite the file: what was seen, and what was there before and still exists."""
        found = {**pinned_counts(), **self.seen}
        for name in stale_names(set(found)):
            del found[name]
        PINNED.write_text(written(found), encoding="utf-8")

    # --- hooks ---

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Any:
        """A test that compiled a kernel with worse placement fails."""
        result = yield
        problems, self.problems = self.problems, []
        if problems:
            pytest.fail("\n".join(problems), pytrace=False)
        return result

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker hands over what it has seen."""
        rows = json.loads(getattr(node, "workeroutput", {}).get("placement", "[]"))
        self.merge({(file, kernel): tuple(found) for file, kernel, found in rows})

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file, or send what belongs into it to the process that does."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["placement"] = json.dumps([[*name, far] for name, far in self.seen.items()])
        elif self.updates:
            self.write()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-placement",
        action="store_true",
        help="pin where the checks of kernels are settled",
    )
    parser.addoption(
        "--strict-placement", action="store_true", help="fail for kernels that are not pinned yet"
    )


def pytest_configure(config: pytest.Config) -> None:
    ratchet = Ratchet(config)
    config.pluginmanager.register(ratchet, "placement ratchet")
    compiled_before: WeakSet[Any] = WeakSet()
    compile_ = Kernel._compile  # what launches and `specialized` both come to

    def watched(kernel: Kernel, request: Any) -> Any:
        compiled = compile_(kernel, request)
        if request.placement is Placement.EARLIEST and compiled not in compiled_before:
            compiled_before.add(compiled)
            ratchet.see(kernel, compiled.ledger.counts)
        return compiled

    Kernel._compile = watched
    config.add_cleanup(lambda: setattr(Kernel, "_compile", compile_))
