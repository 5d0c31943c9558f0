"""Machine code as NVIDIA's disassembler prints it, and which of it runs before a wait.

Only what these tests ask: where the code branches, which ops touch global memory, where a warp
waits for the grids before, and which barriers in shared memory hand that on to other warps.
"""

import itertools
import re
import subprocess
from collections.abc import Collection, Iterator
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pytest

__all__ = ["before_the_wait", "disassembled", "stores_without_barrier"]

_LABEL = re.compile(r"\s*(\.L_\w+):")
_OP = re.compile(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(.*?)\s*;")
_PREDICATED = re.compile(r"\s*/\*[0-9a-f]+\*/\s+@")
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_CONDITION = re.compile(r"\bU?P\d")  # a branch may have one among its operands
_PLACE = re.compile(r"\[[^\]]*?(0x[0-9a-f]+)\]")
_GLOBAL = ("LDG", "STG", "UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "RED", "ATOM", "LDGSTS")
_WAIT, _ARRIVE, _CHECK = "ACQBULK", "SYNCS.ARRIVE", "SYNCS.PHASECHK"

Lines = list[str]


def disassembled(cubin: bytes, folder: Path) -> Lines:
    """The labels and ops of a cubin with one kernel."""
    try:
        (tool,) = (one for one in files("nvidia-cuda-nvdisasm") or () if one.name == "nvdisasm")
    except PackageNotFoundError:
        pytest.skip("needs nvdisasm, of the extra `dev`")
    (folder / "kernel.cubin").write_bytes(cubin)
    command = [str(tool.locate()), "-c", folder / "kernel.cubin"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line for line in run.stdout.splitlines() if _LABEL.match(line) or _OP.match(line)]


def before_the_wait(lines: Lines) -> list[str]:
    """Accesses to global memory that a warp may come to before the grids before have ended.

    A warp has waited if it did so itself, or if it has waited at a barrier in shared memory where
    only warps arrive that have.
    """
    arrivals = {n for n, line in enumerate(lines) if _ARRIVE in line}
    reached, places, handed_on = set[int](), None, set[str]()
    while handed_on != places:
        places = handed_on
        reached = set(_reached(lines, places))
        early = {_place(lines[n]) for n in arrivals & reached}
        late = {_place(lines[n]) for n in arrivals - reached}
        handed_on = {place for place in late - early if place is not None}
    return [lines[n].strip() for n in sorted(reached) if _op(lines[n]).startswith(_GLOBAL)]


def _reached(lines: Lines, places: Collection[str]) -> Iterator[int]:
    """What runs before a wait; `places` are barriers that stand for one."""
    labels = {found[1]: n for n, line in enumerate(lines) if (found := _LABEL.match(line))}
    seen, starts = set[int](), [0]
    while starts:
        for n in range(starts.pop(), len(lines)):
            op = _op(lines[n])
            if n in seen or op.startswith(_WAIT):
                break
            if op.startswith(_CHECK) and _place(lines[n]) in places:
                break
            seen.add(n)
            yield n
            target = _TARGET.search(op)
            if target is not None and op.startswith(("BRA", "CALL")):
                starts.append(labels[target[1]])
            always = not _PREDICATED.match(lines[n]) and not _CONDITION.search(op.split("`")[0])
            if always and op.startswith(("BRA", "EXIT", "RET")):
                break


def stores_without_barrier(lines: Lines) -> int:
    """How many stores follow a load with no barrier of the block between, as the code stands."""
    kinds = [kind for line in lines if (kind := _op(line)[:3]) in ("LDG", "STG", "BAR")]
    return sum(pair == ("LDG", "STG") for pair in itertools.pairwise(kinds))


def _op(line: str) -> str:
    found = _OP.match(line)
    return found[1] if found else ""


def _place(line: str) -> str | None:
    found = _PLACE.search(line)
    return found[1] if found else None
