"""`tilewright run-bytecode`: run Tile IR of any producer on the CPU, on arrays from .npy files.

An array is passed in the calling convention of cuTile Python: address, extents, strides in
elements.
"""

from __future__ import annotations

import difflib
import io
import re
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from tilewright.backends.cpu.executor import compile_function
from tilewright.backends.cpu.memory import KernelMemory, is_nibble, storage_dtype
from tilewright.cli.limits import half_of_memory, limited
from tilewright.cli.options import amount_of_memory, seconds_option
from tilewright.cli.screen import BadInput, Screen, VisibleStream
from tilewright.cli.tile_ir_files import check_rules, read_bytecode, read_bytes, write_bytes
from tilewright.dtypes import Element
from tilewright.ir.function import Function, Module
from tilewright.ir.types import PtrType, TileType, Type
from tilewright.runtime.devices.backend import ALIGNMENT

__all__ = ["run_bytecode_command"]

Array = np.ndarray[Any, Any]
_Grid = tuple[int, int, int]
_SCALARS = {
    element.spelling: element
    for element in Element
    if element.bits >= 8 or element is Element.I1
    if not element.is_held_as_bits
}


@click.command("run-bytecode")
@click.argument("source", metavar="FILE.tileirbc")
@click.option("--entry", metavar="NAME", help="Entry to run, if the file has several.")
@click.option("--grid", default="1", metavar="X[,Y,Z]", help="Number of blocks along each axis.")
@click.option(
    "--arg",
    "given",
    multiple=True,
    metavar="FILE.npy | TYPE:NUMBER",
    help="An array (address, extents, strides) or a scalar such as i32:7 or f32:1.5; in order.",
)
@click.option("--out", metavar="OUT.npy", help="Output file of the last array.")
@click.option("--race-check", is_flag=True, help="Detect races, between and within blocks.")
@seconds_option("--time-limit", 300.0, "Time limit in seconds; inf for none.")
@click.option(
    "--memory-limit",
    type=amount_of_memory,
    metavar="BYTES",
    default=half_of_memory,
    show_default="half of this machine's",
    help="Memory limit of tiles, constants and globals: 512M, 8G.",
)
@click.pass_obj
def run_bytecode_command(screen: Screen, /, source: str, **options: Any) -> None:
    """Run an entry of a Tile IR bytecode file on the CPU.

    Arrays are read and written in memory of this process; their files stay unchanged. Behaviour
    that Tile IR leaves undefined is reported, never executed.
    """
    blocks, limits = _read_grid(options["grid"]), (options["time_limit"], options["memory_limit"])
    with limited(source, *limits):
        arrays = _run(screen, Path(source), blocks, options)
    if options["out"] is not None:
        _write(Path(options["out"]), arrays[-1], screen)


def _run(screen: Screen, path: Path, blocks: _Grid, options: dict[str, Any]) -> list[Array]:
    """Read, verify and run an entry; return the arrays that were passed to it."""
    decoded = read_bytecode(path)
    check_rules(path, decoded.module, decoded.version)
    function = _choose(decoded.module, options["entry"], path)
    arguments = _Arguments(function, [_read(text) for text in options["given"]])
    if options["out"] is not None and not arguments.arrays:
        raise BadInput("--out: no array is passed that could be written there")
    kernel = compile_function(function, decoded.module, limit=options["memory_limit"])
    start = time.perf_counter()
    with screen.working(f"{function.name} …"), redirect_stdout(VisibleStream(sys.stdout)):
        kernel.run(blocks, arguments.numbers, arguments.memories, race_check=options["race_check"])
    elapsed = time.perf_counter() - start
    shown = "x".join(map(str, blocks))
    screen.err.print(f"{function.name}: {shown} blocks in {elapsed:.3f} s", style="soft")
    return arguments.arrays


def _read_grid(text: str) -> _Grid:
    parts = text.split(",")
    if len(parts) > 3 or not all(re.fullmatch(r"\d{1,18}", part, re.ASCII) for part in parts):
        raise BadInput(f"--grid {text}: write one to three whole numbers, such as 8 or 8,4,1")
    x, y, z = (*map(int, parts), *(1,) * (3 - len(parts)))
    if max(x, y, z) >= 1 << 31:
        raise BadInput(f"--grid {text}: an axis has at most {(1 << 31) - 1} blocks")
    return x, y, z


def _choose(module: Module, name: str | None, path: Path) -> Function:
    functions = {function.name: function for function in module.functions}
    if name is None and len(functions) == 1:
        return next(iter(functions.values()))
    if name is None:
        raise BadInput(
            f"{path} has several entries; choose one with --entry: {', '.join(functions)}"
        )
    if name not in functions:
        close = difflib.get_close_matches(name, functions, n=1)
        hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(functions)}"
        raise BadInput(f"--entry {name}: {path} has no such entry; {hint}")
    return functions[name]


# --- arguments -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scalar:
    """A scalar argument."""

    text: str
    element: Element
    number: float


@dataclass(frozen=True)
class _File:
    """An array argument."""

    text: str
    array: Array


def _read(text: str) -> _Scalar | _File:
    kind, colon, number = text.partition(":")
    if colon and kind in _SCALARS:
        return _Scalar(text, _SCALARS[kind], _number(text, _SCALARS[kind], number))
    if not text.endswith(".npy"):
        kinds = ", ".join(_SCALARS)
        raise BadInput(
            f"--arg {text}: give the name of a .npy file, or TYPE:NUMBER; TYPE is one of {kinds}"
        )
    try:
        loaded = np.load(io.BytesIO(read_bytes(Path(text))), allow_pickle=False)
    except BadInput as error:
        raise BadInput(f"--arg {error.message}") from None
    except Exception as error:  # noqa: BLE001 - NumPy's reader raises many kinds for odd bytes
        raise BadInput(f"--arg {text}: no array can be read from it: {error}") from None
    if not isinstance(loaded, np.ndarray):
        raise BadInput(f"--arg {text}: the file holds several arrays; one .npy file is one")
    return _File(text, loaded)


def _number(text: str, element: Element, number: str) -> float:
    try:
        found = float(number) if element.is_float else int(number, 0)
    except ValueError:
        wanted = "a number" if element.is_float else "a whole number"
        raise BadInput(f"--arg {text}: {wanted} is needed behind the colon") from None
    if element.is_integer and not -(1 << element.bits - 1) <= found < 1 << element.bits:
        raise BadInput(f"--arg {text}: the number does not fit in {element.bits} bits")
    return found


class _Arguments:
    """The numbers that an entry takes, and the memory behind its pointers."""

    def __init__(self, function: Function, given: Sequence[_Scalar | _File]) -> None:
        self._types: list[Type] = [param.type for param in function.params]
        self._name = function.name
        self.numbers: list[float] = []
        self.memories: list[KernelMemory] = []
        self.arrays: list[Array] = []
        for item in given:
            if isinstance(item, _Scalar):
                self._take(item.text, item.element, item.number)
            else:
                self._take_array(item)
        if len(self.numbers) < len(self._types):
            raise BadInput(
                f"{self._takes()}; {len(self.numbers)} of them are given: pass the others"
            )

    def _take_array(self, item: _File) -> None:
        pointer = self._next(item.text)
        if not isinstance(pointer, PtrType):
            raise BadInput(f"--arg {item.text}: {self._takes()}; here it takes {pointer}, no array")
        array, memory = _placed(item, pointer.pointee)
        self.numbers.append(memory.address)
        for number in (*array.shape, *(stride // array.itemsize for stride in array.strides)):
            self._take(item.text, None, number)
        self.memories.append(memory)
        self.arrays.append(array)

    def _take(self, text: str, element: Element | None, number: float) -> None:
        wanted = self._next(text)
        fits = wanted is element if element else isinstance(wanted, Element) and wanted.is_integer
        if not fits:
            raise BadInput(f"--arg {text}: {self._takes()}; here it takes {wanted}")
        self.numbers.append(number)

    def _next(self, text: str) -> Element | PtrType:
        if len(self.numbers) == len(self._types):
            raise BadInput(f"--arg {text}: {self._takes()}, and all of them are given")
        type_ = self._types[len(self.numbers)]
        assert isinstance(type_, TileType), "the verifier has seen to that"
        return type_.element

    def _takes(self) -> str:
        return f"entry `{self._name}` takes ({', '.join(str(type_) for type_ in self._types)})"


def _placed(item: _File, element: Element) -> tuple[Array, KernelMemory]:
    """The array in memory aligned like a device's; some element types have no NumPy dtype."""
    if is_nibble(element):
        raise BadInput(f"--arg {item.text}: arrays of {element} cannot be passed")
    dtype = storage_dtype(element)
    same_kind = item.array.dtype == dtype or (
        item.array.dtype.kind in _KINDS[element.is_integer]
        and item.array.itemsize == dtype.itemsize
    )
    if not same_kind:
        raise BadInput(
            f"--arg {item.text}: the array has {item.array.dtype}, but the entry takes {element}"
        )
    memory = KernelMemory.aligned(item.array.nbytes, ALIGNMENT)
    order: Any = "F" if item.array.flags.f_contiguous else "C"
    placed: Array = np.ndarray(item.array.shape, item.array.dtype, memory.array.data, order=order)
    placed[...] = item.array
    return placed, memory


# Kinds of NumPy dtypes that hold the bits of integers, and of floats without a NumPy dtype.
_KINDS = {True: "iub", False: "V"}


def _write(path: Path, array: Array, screen: Screen) -> None:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    write_bytes(path, file.getvalue())
    screen.err.print(f"wrote {path}: {array.dtype} {array.shape}", style="soft")
