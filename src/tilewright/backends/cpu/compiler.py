"""Compiles a function of pure Tile IR into one Python function, with `exec`.

The source has two parts: the outer function executes ops that are uniform across blocks and returns
the inner one, which runs one block. The code is straight NumPy on local variables, so that a run
has no dispatch. Internal ops must be lowered (`passes`), and the IR must be valid (the verifier).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import CodeType
from typing import Any

from tilewright.backends.cpu.blas import can_limit
from tilewright.backends.cpu.emitter import (
    BLOCK,
    EVENTS,
    GRID,
    LOCK,
    OWN_SPACE,
    RECORD,
    SPACE,
    STOP,
    Emitter,
    is_plain,
    tile_dtype,
    tile_element,
)
from tilewright.backends.cpu.faults import FaultSite
from tilewright.backends.cpu.lifetimes import release
from tilewright.backends.cpu.nested_source import compile_nested
from tilewright.backends.cpu.planning import plan
from tilewright.backends.cpu.room import Room
from tilewright.backends.cpu.rules import RULES
from tilewright.deep_calls import with_room
from tilewright.dtypes import Element
from tilewright.errors import CompileError, InternalError
from tilewright.ir.function import Function
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.internal import BlockInspection
from tilewright.ir.ops.reduction import MmaF, MmaFScaled, MmaI
from tilewright.ir.types import TensorViewType, TileType

__all__ = ["CompiledSource", "RunBlock", "translate"]

RunBlock = Callable[[int, int, int], None]  # takes the block's coordinates


# For smaller arrays NumPy holds the GIL for most of an operation, so threads only wait.
_ELEMENTS_WORTH_A_THREAD = 1 << 14
_VARIABLE = re.compile(r"\bv\d+\b")
_MOST_AXES = 32  # limit of NumPy's arrays, in every release


@dataclass(frozen=True, eq=False)
class CompiledSource:
    """The compiled source of a function: `enter` runs the uniform part and returns the block's."""

    name: str
    source: str
    sites: tuple[FaultSite, ...]
    parameters: tuple[Value, ...]
    threads_pay: bool
    multiplies: bool  # whether the function has matrix products
    enter: Callable[..., RunBlock]
    nbytes: int  # upper bound of its constants and of one block's tiles

    def convert(self, arguments: Sequence[float]) -> list[Any]:
        """Convert arguments to the program's scalars."""
        if len(arguments) != len(self.parameters):
            raise InternalError(
                f"{self.name} takes {len(self.parameters)} arguments, got {len(arguments)}"
            )
        return [to(given) for to, given in zip(self._conversions, arguments, strict=True)]

    @cached_property
    def _conversions(self) -> tuple[Callable[[Any], Any], ...]:
        return tuple(map(_conversion, self.parameters))


def _conversion(parameter: Value) -> Callable[[Any], Any]:
    """Return the function that converts an argument to a parameter's scalar."""
    if not is_plain(parameter):
        scalar: Callable[[Any], Any] = tile_dtype(parameter).type
        return scalar
    element = tile_element(parameter)
    if not isinstance(element, Element):
        return int
    if element is Element.I1:
        return bool
    half = 1 << element.bits - 1
    return lambda argument: (int(argument) + half) % (2 * half) - half


def translate(
    function: Function,
    globals: Mapping[str, int] | None = None,
    *,
    watched: bool = False,
    as_gpus: bool = False,
    limit: int | None = None,
) -> CompiledSource:
    """Translate a function to Python and compile it; a watched program records every access.

    `globals` are the addresses of the module's globals by name. With `as_gpus` some undefined
    behaviour follows GPUs instead of being reported (`executor.compile_module`). A function that
    holds more bytes at once than `limit` is refused with an `OutOfMemoryError`.
    """
    try:
        return with_room(partial(_translated, function, globals, watched, as_gpus, limit))
    except RecursionError as error:
        raise _too_deep(function.name, error) from None


def _translated(
    function: Function,
    globals: Mapping[str, int] | None,
    watched: bool,
    as_gpus: bool,
    limit: int | None,
) -> CompiledSource:
    for op in function.walk():
        if type(op) not in RULES:
            raise InternalError(f"{op.mnemonic} is no op of Tile IR, or the CPU has no rule for it")
        _require_axes(function.name, op)
    room = Room(f"kernel `{function.name}`", limit)
    emitter = Emitter(RULES, plan(function, globals, watched=watched, as_gpus=as_gpus), room)
    names = []
    for parameter in function.params:
        names.append(emitter.fresh())
        emitter.bind(parameter, names[-1])
    emitter.write_uniform(function.walk())
    emitter.write(function.body)
    source = _source(emitter, names)
    namespace = dict(emitter.namespace)
    exec(_compiled(source, function.name), namespace)
    return CompiledSource(
        name=function.name,
        source=source,
        sites=tuple(emitter.sites),
        parameters=function.params,
        threads_pay=_threads_pay(function),
        multiplies=_multiplies(function),
        enter=namespace["enter"],
        nbytes=room.taken,
    )


def _require_axes(name: str, op: Op) -> None:
    """Refuse tiles and tensors of higher rank than NumPy's arrays."""
    for value in op.results:
        if isinstance(value.type, TileType | TensorViewType) and value.type.rank > _MOST_AXES:
            raise CompileError(
                f"kernel `{name}` has a value of {value.type.rank} axes ({op.mnemonic}), and the "
                f"CPU holds at most {_MOST_AXES}"
            )


def _compiled(source: str, name: str) -> CodeType:
    filename = f"<cpu kernel {name!a}>"
    try:
        return compile(source, filename, "exec")
    except IndentationError:
        pass  # Python's tokenizer reads at most 100 levels of indentation
    except (SyntaxError, MemoryError) as error:
        raise _too_deep(name, error) from None
    try:
        return compile_nested(source, filename)
    except (SyntaxError, MemoryError) as error:
        raise _too_deep(name, error) from None


def _too_deep(name: str, error: Exception) -> CompileError:
    """Return the error for Python's own limits: nested loops, and the compiler's depth.

    A function has at most 20 nested loops, and 21 from Python 3.13 on.
    """
    return CompileError(
        f"kernel `{name}` nests loops or branches deeper than the CPU can run, which has about "
        f"20 loops inside each other: {error}"
    )


def _source(emitter: Emitter, names: list[str]) -> str:
    lines = [f"def enter({', '.join([SPACE, LOCK, RECORD, STOP, *GRID, *names])}):"]
    lines += [f"    {line}" for line in emitter.uniform_lines]
    lines += [f"    def block({', '.join(BLOCK)}):"]
    if emitter.plan.watched:
        lines += [f"        {EVENTS} = []", f"        {RECORD}((({', '.join(BLOCK)}), {EVENTS}))"]
    if emitter.plan.allocates:
        lines += [f"        {OWN_SPACE} = {SPACE}.of_block()"]
    local = emitter.large - set(_VARIABLE.findall(" ".join([*names, *emitter.uniform_lines])))
    lines += [f"        {line}" for line in release(emitter.block_lines, local)]
    lines += ["    return block", ""]
    return "\n".join(lines)


def _threads_pay(function: Function) -> bool:
    """Whether blocks should run on several threads: an observer sees them one by one.

    NumPy releases the GIL while it works on a large array. Matrix products have threads of their
    own, which compete with threads of blocks unless they can be limited.
    """
    if any(isinstance(op, BlockInspection) for op in function.walk()):
        return False
    types = (value.type for op in function.walk() for value in op.results)
    largest = max((tile.size for tile in types if isinstance(tile, TileType)), default=1)
    return largest >= _ELEMENTS_WORTH_A_THREAD and (can_limit() or not _multiplies(function))


def _multiplies(function: Function) -> bool:
    return any(isinstance(op, MmaF | MmaFScaled | MmaI) for op in function.walk())
