"""Emits the Python source of one kernel, and tracks how each SSA value is represented in it.

An SSA value becomes a local variable. Its representation is fixed when the source is emitted:

- a rank-0 integer, truth value or pointer is a Python int (bool), in the signed range of its width;
- every other tile is a NumPy array, or a NumPy scalar where all elements are equal. An array may
  have extent one, or be a scalar, where the tile is broadcast: `Held.shape` is the actual shape;
- views are the objects of `views`; tokens have no representation, since a block runs in program
  order.

A watched program records the accesses of its block, and represents a token as the set of events
that precede it: a Python int with a bit for each.

Arrays are never modified once they are bound, so a value may be an alias of another.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from math import prod
from typing import Any

import numpy as np

from tilewright.backends.cpu import shorts
from tilewright.backends.cpu.faults import FaultSite
from tilewright.backends.cpu.room import Room
from tilewright.dtypes import Element
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.types import PtrType, TileType, TokenType

__all__ = [
    "BLOCK",
    "EVENTS",
    "GRID",
    "LOCK",
    "OWN_SPACE",
    "RECORD",
    "SPACE",
    "STOP",
    "EmissionPlan",
    "Emitter",
    "Held",
    "Rules",
    "Shape",
    "Short",
    "is_integral",
    "is_plain",
    "tile_dtype",
    "tile_element",
    "tile_shape",
]

_LARGE = 1 << 12  # elements of an array whose memory is worth reusing
_TURNS = count()  # `next` on it is atomic; only the order of its numbers matters

Shape = tuple[int, ...]  # of an array
Rules = Mapping[type[Op], Callable[["Emitter", Any], None]]  # emitters by op class

# Parameters of the generated functions.
SPACE = "space"  # the address space of the launch
LOCK = "lock"  # held during an atomic
RECORD = "record"  # receives the accesses of a block, in a watched program
STOP = "stop"  # reasons to stop; empty while the run may continue
GRID = ("grid_x", "grid_y", "grid_z")  # blocks along each axis
BLOCK = ("block_x", "block_y", "block_z")  # this block's coordinates
# Variables of the block part.
OWN_SPACE = "own_space"  # the address space including the block's own memories
EVENTS = "events"  # accesses of the block, in a watched program


@dataclass(frozen=True)
class EmissionPlan:
    """Decisions about a function, made before its source is emitted."""

    hoisted: AbstractSet[Op] = frozenset()  # ops uniform across blocks, executed once
    borrowed: AbstractSet[Op] = frozenset()  # loads whose tile may stay a window on memory
    read: AbstractSet[Value] = frozenset()  # values that are used
    cut: Mapping[Op, int] = field(default_factory=dict)  # loads without padding along an axis
    direct: AbstractSet[Op] = frozenset()  # ops whose result only the next store uses
    nested: AbstractSet[Value] = frozenset()  # values used in loops or branches behind them
    shortens: bool = False  # whether tiles at an edge are loaded without their padding
    watched: bool = False  # whether every access is recorded
    as_gpus: bool = False  # whether undefined behaviour follows GPUs, where they agree
    allocates: bool = False  # whether blocks allocate memory
    globals: Mapping[str, int] = field(default_factory=dict)  # addresses of the module's globals


@dataclass(frozen=True)
class Short:
    """The end of a tile that an array may lack along an axis, and the number that repeats there."""

    axis: int
    fill: str | Callable[[], str]  # the name of a constant, or a function that writes the text
    weight: int = 0  # of that text: the number of its calls
    depth: int = 0  # of the line that made the array

    def text(self) -> str:
        """Return the text of the fill."""
        return self.fill if isinstance(self.fill, str) else self.fill()


@dataclass(frozen=True)
class Held:
    """Representation of one value: the text that names it, and static facts about it."""

    text: str
    plain: bool  # a Python int
    shape: Shape | None  # of the array; None if one text serves arrays of any shape
    constant: Any = None  # the number in every element, if known
    short: Short | None = None  # the end that the array may lack; `shape` is that of the tile


class Emitter:
    """Source text in two parts: the uniform part of a launch, and the part of each block."""

    def __init__(self, rules: Rules, plan: EmissionPlan, room: Room) -> None:
        self.plan = plan
        self._room = room  # budget for the arrays of the program
        self._rules = rules
        self.uniform_lines: list[str] = []
        self.block_lines: list[str] = []
        self.namespace: dict[str, Any] = {}
        self.sites: list[FaultSite] = []
        self.held: dict[Value, Held] = {}
        self.large: set[str] = set()  # variables whose arrays are released after their last use
        self.targets: dict[type[Op], Sequence[Value]] = {}  # values that a terminator assigns
        self.crossed: dict[Value, tuple[Value, Value]] = {}  # a column and a row, combined late
        self.direct: dict[Value, str] = {}  # calls whose result goes to memory, still open
        self.leads: dict[Value, str] = {}  # arrays as long as such results, if these are short
        self.moves: dict[Value, tuple[int, str]] = {}  # site and base of crossed addresses
        self._turns: dict[Op, str] = {}  # rank of an access among those that synchronise
        self._tiles: dict[Hashable, str] = {}  # constant tiles, each stored once
        self._origins: dict[Value, Value] = {}  # sources of aliases
        self._lines = self.block_lines
        self._depth = 0
        self._count = 0

    def write_uniform(self, ops: Iterable[Op]) -> None:
        """Emit the hoisted ops of a function in the uniform part."""
        self._lines = self.uniform_lines
        for op in ops:
            if op in self.plan.hoisted:
                self._rules[type(op)](self, op)
        self._lines = self.block_lines

    def write(self, block: Block) -> None:
        """Emit the ops of a block, hoisted ones excluded."""
        for op in block.ops:
            if op not in self.plan.hoisted:
                self._rules[type(op)](self, op)

    @contextmanager
    def target(self, terminator: type[Op], values: Sequence[Value]) -> Iterator[None]:
        """Within the context, terminators of this kind assign these values."""
        outer = self.targets.get(terminator, ())
        self.targets[terminator] = values
        yield
        self.targets[terminator] = outer

    # --- text -------------------------------------------------------------------------------------

    def emit(self, line: str) -> None:
        """Append one line."""
        self._lines.append("    " * self._depth + line)

    def emit_stop(self) -> None:
        """Append the check of every loop iteration that ends a run asked to stop."""
        self.emit(f"if {STOP}: raise {STOP}[0]")

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Indent by one level; an empty block gets a `pass`."""
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.emit("pass")
        self._depth -= 1

    def fresh(self) -> str:
        """Return an unused variable name."""
        self._count += 1
        return f"v{self._count}"

    def constant(self, value: Any) -> str:
        """Return a name for an immutable object that exists now."""
        self._count += 1
        name = f"k{self._count}"
        self.namespace[name] = value
        return name

    def need(self, nbytes: int) -> None:
        """Count bytes that the program takes beside its tiles."""
        self._room.take(nbytes)

    def constant_tile(self, value: Value, key: Hashable, make: Callable[[], Any]) -> str:
        """Return a name for a constant tile; there is one tile for each key.

        The bytes of the tile are counted before it is made.
        """
        shape, dtype = tile_shape(value), tile_dtype(value)
        known = (key, shape, dtype)
        if known not in self._tiles:
            self._room.take(prod(shape) * dtype.itemsize)
            tile = make()
            tile.flags.writeable = False
            self._tiles[known] = self.constant(tile)
        return self._tiles[known]

    def function(self, function: Callable[..., Any]) -> str:
        """Return a name for a function that the source calls."""
        name = f"{function.__name__}_{function.__module__.rpartition('.')[2] or 'numpy'}"
        known = self.namespace.setdefault(name, function)
        assert known is function, f"two functions are {name}"
        return name

    def call(self, function: Callable[..., Any], *arguments: str | int | bool) -> str:
        """Return the text of a call."""
        return f"{self.function(function)}({', '.join(map(str, arguments))})"

    def site(self, op: Op) -> int:
        """Return the number by which an op reports faults."""
        self.sites.append(FaultSite.of(op))
        return len(self.sites) - 1

    @property
    def space(self) -> str:
        """Return the address space that is in scope at the current line."""
        own = self.plan.allocates and self._lines is self.block_lines
        return OWN_SPACE if own else SPACE

    # --- tokens -----------------------------------------------------------------------------------

    def is_held(self, value: Value) -> bool:
        """Whether a value has a representation at run time."""
        return self.plan.watched or not isinstance(value.type, TokenType)

    def watch(self, op: Any, where: str, at: str = "()") -> None:
        """Record an access, in a watched program, and define its result token."""
        if self.plan.watched:
            before = self._events_before(op)
            self.take_turn(op)
            turn = f", {self._turns[op]}" if op in self._turns else ""
            self.emit(f"{EVENTS}.append(({self.site(op)}, {where}, {at}, {before}{turn}))")
            if op.result_token in self.plan.read:
                self.define(op.result_token, f"{before} | 1 << len({EVENTS}) - 1", None)

    def take_turn(self, op: Op) -> None:
        """Number a release or acquire, in a watched program.

        A release takes its number before it writes, an acquire after it has read, so that an
        acquire that reads a released value has the greater number.
        """
        site = FaultSite.of(op)
        if self.plan.watched and op not in self._turns and (site.acquires or site.releases):
            self._turns[op] = self.fresh()
            self.emit(f"{self._turns[op]} = next({self.constant(_TURNS)})")

    def pass_token(self, op: Any) -> None:
        """Forward the token of an op that is no access."""
        if self.plan.watched:
            self.bind(op.result_token, self._events_before(op), None)

    def _events_before(self, op: Any) -> str:
        return "0" if op.token is None else self.held[op.token].text

    # --- values -----------------------------------------------------------------------------------

    def define(self, value: Value, expression: str, shape: Shape | None = ()) -> None:
        """Bind a value to the result of an expression; `shape` is that of an array."""
        name = self.fresh()
        if shape != () and isinstance(value.type, TileType):
            held = value.type.shape if shape is None else shape
            self._room.take(prod(held) * tile_dtype(value).itemsize)
        self.emit(f"{name} = {expression}")
        self.bind(value, name, shape)

    def cross(self, value: Value, text: str, operands: tuple[Value, Value]) -> bool:
        """Bind a tile that combines a column and a row to an expression; return whether it does.

        An access of whole rows needs only the two; any other use evaluates the expression.
        """
        shapes = [self.held[operand].shape for operand in operands]
        if self.plan.watched or self._lines is not self.block_lines or None in shapes:
            return False
        shape = tile_shape(value)
        if len(shape) != 2 or 1 in shape or set(shapes) != {(shape[0], 1), (1, shape[1])}:
            return False
        self._room.take(prod(shape) * tile_dtype(value).itemsize)
        self.bind(value, f"({text})", shape)
        self.crossed[value] = (operands[0], operands[1])
        if shapes[0] == (1, shape[1]):
            self.crossed[value] = (operands[1], operands[0])
        return True

    def bind(self, value: Value, text: str, shape: Shape | None = (), constant: Any = None) -> None:
        """Declare that a value is represented by an existing name."""
        plain = shape == () and is_plain(value)
        self.held[value] = Held(text, plain, shape, constant)
        if shape and prod(shape) >= _LARGE:
            self.large.add(text)

    def alias(self, value: Value, source: Value) -> None:
        """Declare that a value shares the representation of another."""
        self.held[value] = self.held[source]
        self._origins[value] = self._origins.get(source, source)

    def name_of(self, value: Value) -> str:
        """Return the author's name of a value, or of the value that it aliases."""
        return value.hint or self._origins.get(value, value).hint

    def plain(self, value: Value) -> str:
        """Return a rank-0 integer, as the text of a Python int."""
        held = self.held[value]
        assert held.plain, f"{value} is not a scalar here"
        return held.text

    def array(self, value: Value) -> str:
        """Return a tile as a NumPy operand: a Python int gets its dtype."""
        if self.held[value].short is not None:
            return self._settled(value)
        held = self.held[value]
        if not held.plain:
            return held.text
        dtype = tile_dtype(value)
        if held.constant is not None:
            return self.constant(dtype.type(held.constant))
        return f"{self.function(dtype.type)}({held.text})"

    def full(self, value: Value) -> str:
        """Return a tile as an array with the full shape of the tile."""
        held, shape = self.held[value], tile_shape(value)
        if held.short is not None and held.shape == shape:
            return self._settled(value)
        if held.shape is None or (held.shape == shape and not held.plain):
            return held.text
        if held.constant is not None:
            dtype = tile_dtype(value)
            number = dtype.type(held.constant)
            return self.constant_tile(
                value, ("full", number.tobytes()), lambda: np.full(shape, number, dtype)
            )
        return self.call(np.broadcast_to, self.array(value), repr(shape))

    def shorten(self, value: Value, short: Short) -> None:
        """Declare that the array of a value may lack the end of its tile along an axis.

        A value that is used in a loop or a branch gets its end before that, once.
        """
        short = replace(short, depth=self._depth)
        self.held[value] = replace(self.held[value], short=short)
        if value in self.plan.nested:
            self._settled(value)

    def _settled(self, value: Value) -> str:
        """Return a short tile with its end, which the variable keeps if no branch is in between."""
        held, text = self.held[value], self.padded(value)
        assert held.short is not None
        if held.short.depth != self._depth or value in self.direct:
            return text
        self.emit(f"{held.text} = {text}")
        self.held[value] = replace(held, short=None)
        return held.text

    def short_text(self, value: Value) -> str:
        """Return a tile as a NumPy operand, without the end that its array may lack."""
        held = self.held[value]
        return self.array(value) if held.short is None else held.text

    def padded(self, value: Value) -> str:
        """Return the text of a short tile with its end."""
        held, extents = self.held[value], tile_shape(value)
        assert held.short is not None
        axis = held.short.axis
        return self.call(shorts.padded, held.text, axis, extents[axis], held.short.text())

    def constant_text(self, value: Value) -> str | None:
        """Return the name of a NumPy scalar in the namespace that all elements equal, if known."""
        held = self.held[value]
        if held.constant is None:
            return None
        text = self.array(value)
        return text if text in self.namespace else None

    def shapes(self, values: Sequence[Value]) -> Shape | None:
        """Return the shape of an array computed element by element from others."""
        found: list[Shape] = []
        for value in values:
            shape = self.held[value].shape
            if shape is None:
                return None
            found.append(shape)
        return np.broadcast_shapes(*found)


def tile_shape(value: Value) -> Shape:
    """Return the shape of a tile."""
    assert isinstance(value.type, TileType)
    return value.type.shape


def tile_element(value: Value) -> Element | PtrType:
    """Return the element of a tile."""
    assert isinstance(value.type, TileType)
    return value.type.element


def tile_dtype(value: Value) -> np.dtype[Any]:
    """Return the NumPy type of a tile; pointers are their addresses."""
    element = tile_element(value)
    return np.dtype(np.int64) if isinstance(element, PtrType) else element.numpy


def is_integral(value: Value) -> bool:
    """Whether a tile holds integers, truth values or pointers."""
    element = tile_element(value)
    return isinstance(element, PtrType) or element.is_integer


def is_plain(value: Value) -> bool:
    """Whether a value is a scalar represented by a Python int."""
    return isinstance(value.type, TileType) and not value.type.shape and is_integral(value)
