"""The same random programs on two source trees: `python compare_trees.py OLD NEW`.

Each tree runs the models of its own tests in a process of its own. A trace has the driver calls and
the refusals of a program, free of addresses: for each launch, fill or copy its stream, the elements
it touches, and all earlier conflicting calls that come before it. Traces leave out allocations and
frees, which depend on memory reuse, waits, whose effect is the order, the stream of a copy to the
host, which is waited for, and launches of finalisers, whose moment is not defined.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import subprocess
import sys
from collections import defaultdict
from itertools import zip_longest
from pathlib import Path
from weakref import WeakKeyDictionary

CHANGES = 250  # of one program
MODELS = ("Program", "Launches", "Keeper")
FOLDERS = ("src", "tests/runtime/order", "tests/runtime/support")
SHOWN = 30  # lines of a difference


def main(old: str, new: str) -> None:
    """Compare two trees; `MODEL_COUNT` changes for each model, from `MODEL_SEED` on."""
    count = int(os.environ.get("MODEL_COUNT", "20000")) // CHANGES
    first = int(os.environ.get("MODEL_SEED", "0")) * 1_000_003
    for model in MODELS:
        for seed in range(first, first + count, 50):
            seeds = range(seed, min(seed + 50, first + count))
            pairs = zip_longest(*(run(tree, model, seeds) for tree in (old, new)))
            for number, (before, after) in zip(seeds, pairs, strict=True):
                if before != after:
                    whole = (
                        run(tree, model, range(number, number + 1), "--whole")
                        for tree in (old, new)
                    )
                    sys.exit(f"{model}({number}) differs:\n{first_difference(*whole)}")
        _say(f"{model}: {count:,} programs from {first}, the same traces")


def run(tree: str, model: str, seeds: range, *options: str) -> list[str]:
    """Lines of a process that runs programs of one tree."""
    paths = os.pathsep.join(str(Path(tree, folder).resolve()) for folder in FOLDERS)
    command = [sys.executable, __file__, "--trace", model, str(seeds.start), str(seeds.stop)]
    environment = os.environ | {"PYTHONPATH": paths, "TILEWRIGHT_CACHE": "off"}
    ended = subprocess.run(
        [*command, *options], env=environment, cwd="/", text=True, stdout=subprocess.PIPE
    )
    if ended.returncode:
        sys.exit(f"{model} of {tree} has failed")
    return ended.stdout.splitlines()


def first_difference(old: list[str], new: list[str]) -> str:
    """The first lines of two traces that differ."""
    return "\n".join([*difflib.unified_diff(old, new, "old", "new", n=1, lineterm="")][:SHOWN])


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


# --- the process of one tree ----------------------------------------------------------------------


def trace(model: str, first: int, stop: int, *, whole: bool) -> None:
    """Write the trace of each program, or its digest."""
    import launch_program
    import order_program
    import test_order_kept

    from tilewright.backends.cuda import program as assembler
    from tilewright.errors import BorrowError

    assembler.assemble = lambda *_: b"cubin"
    order_program.ClockedDriver = _traced(order_program.ClockedDriver)
    kinds = (order_program.Program, launch_program.Launches, test_order_kept.Keeper)
    kind = next(one for one in kinds if one.__name__ == model)

    class Traced(kind):
        """Programs without nested launches."""

        WEIGHTS = {name: weight for name, weight in kind.WEIGHTS.items() if name != "end"}

        def check(self):
            self.driver.lines.append("--")  # between two changes

        def attempt(self, make, subject):
            def told():
                try:
                    return make()
                except BorrowError as error:
                    self.driver.lines.append(_without_paths(str(error)))
                    raise

            return super().attempt(told, subject)

    for seed in range(first, stop):
        program = Traced(seed)
        program.run(CHANGES)
        lines = program.driver.lines
        text = "\n".join(lines)
        _say(text if whole else hashlib.sha256(text.encode()).hexdigest())


def _without_paths(text: str) -> str:
    return " ".join(word.rpartition("/")[2] for word in text.split(" "))


def _traced(driver: type) -> type:
    """A driver on paper that keeps the trace."""

    class Traced(driver):
        def __init__(self, seed=0):
            super().__init__(seed)
            self.lines = []
            self._storages = WeakKeyDictionary()  # numbers in the order of their first use
            self._before = defaultdict(list)  # calls that have touched a storage
            self._calls, self._used = 0, []

        def _number(self, storage):
            if storage not in self._storages:
                self._storages[storage] = len(self._before) + 1
            return self._storages[storage]

        def _touched(self, name):
            if name in self.INITIAL or name == "free":
                return super()._touched(name)
            self._used = list(self.subject)
            self.subject, subject = self._used, self.subject
            found = super()._touched(name)
            self.subject = subject
            return found

        def _put(self, stream, name, task=None, after=None):
            self._used = []
            super()._put(stream, name, task, after)
            if name in {"wait", "allocate", "free"}:
                return
            act, before, touched = self.acts[stream][-1], set(), []
            self._calls += 1
            for (tensor, writes), touch in zip(self._used, act.touches, strict=bool(self._used)):
                number, mask = self._number(tensor.storage), sum(1 << one for one in touch.elements)
                touched.append(f"{'writes' if writes else 'reads'} {mask:x} of {number}")
                before.update(
                    call
                    for call, its_mask, its_writes, earlier in self._before[number]
                    if its_mask & mask and (writes or its_writes)
                    if earlier.comes_before(act.clock)
                )
                self._before[number].append((self._calls, mask, writes, act))
            place = "" if name == "copy_out" else stream.number
            self.lines.append(f"{name} {place} {', '.join(touched)} after {sorted(before)}")

    return Traced


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), whole="--whole" in sys.argv)
    else:
        main(*sys.argv[1:])
