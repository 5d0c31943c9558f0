"""The kernels that a run of the tests compiles, kept as files for a later run to assemble.

Each kernel has a folder, named after its place in the repository or after the test that wrote its
text, with one file of Tile IR bytecode for each form in which it was compiled. What hypothesis
makes up is left out: there would be thousands.
"""

import hashlib
import inspect
import os
import re
from collections.abc import Iterator
from functools import wraps
from pathlib import Path

import hypothesis

import tilewright
from tilewright.bytecode.decode import decode
from tilewright.bytecode.encode import encode
from tilewright.frontend.source.capture import SourceFunction
from tilewright.ir.function import Module
from tilewright.ir.ops.internal import BlockInspection
from tilewright.ir.types import TileType
from tilewright.ir.versions import required_version
from tilewright.jit.compile import compiler
from tilewright.jit.compile.compiled import CompiledKernel, Request

__all__ = ["record_into", "recorded"]

REPOSITORY = Path(__file__).parents[1]
PACKAGES = Path(tilewright.__file__).parents[1]  # elsewhere, if what is installed is tested


# Kernels that are about the front end's limits: the assembler would take minutes for one of them.
_MOST_BYTES = 24 << 10  # of bytecode
_MOST_ELEMENTS = 1 << 17  # of a tile


def record_into(folder: Path) -> None:
    """From now on keep every kernel that is compiled in this process."""
    compile_kernel = compiler.compile_kernel

    @wraps(compile_kernel)
    def recording(request: Request) -> CompiledKernel:
        compiled = compile_kernel(request)
        if not hypothesis.currently_in_test_context():
            _keep(folder / _place(request.source), compiled.module)
        return compiled

    compiler.compile_kernel = recording


def recorded(folder: Path) -> Iterator[tuple[str, list[Module]]]:
    """Each kernel that was kept, by its place, in all its forms."""
    for place in sorted(folder.iterdir()):
        yield place.name, [decode(file.read_bytes()).module for file in sorted(place.iterdir())]


def _place(source: SourceFunction) -> str:
    path = Path(inspect.getfile(source.function))
    for root in (PACKAGES, REPOSITORY):
        if path.is_relative_to(root):
            file = path.relative_to(root).with_suffix("")
            return f"{'.'.join(file.parts)}-{source.node.lineno}-{source.name}"
    test, _, _ = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")  # behind it: setup, call
    digest = hashlib.sha256(test.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', test)[-150:]}-{digest}-{source.name}"


def _keep(folder: Path, module: Module) -> None:
    if _largest_tile(module) > _MOST_ELEMENTS or _is_inspected(module):
        return
    data = encode(module, required_version(module), locations=False).data
    if len(data) > _MOST_BYTES:
        return
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / hashlib.sha256(data).hexdigest()
    if not file.exists():
        # Several processes record at once: a file appears whole or not at all.
        scratch = file.with_suffix(f".{id(data)}")
        scratch.write_bytes(data)
        scratch.replace(file)


def _is_inspected(module: Module) -> bool:
    """Whether a kernel stops in a debugger, which no GPU does."""
    ops = (op for function in module.functions for op in function.walk())
    return any(isinstance(op, BlockInspection) for op in ops)


def _largest_tile(module: Module) -> int:
    types = (
        value.type
        for function in module.functions
        for op in function.walk()
        for value in op.results
    )
    return max((type_.size for type_ in types if isinstance(type_, TileType)), default=1)
