"""Runs one block of a function on integers, op by op: what the tests of the passes mean by meaning.

Integers are exact Python numbers wrapped to their width, so an overflow that Tile IR leaves
undefined is noticed, not computed. Memory is a dictionary of tiles by tensor and tile number.
Tokens are the sets of accesses that they wait for, so that the order a program asks for can be
compared with the order it needs. Internal ops run too: a function means the same before and after.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from tilewright.dtypes import Element
from tilewright.ir.attributes import Bounded, Predicate, Rounding, Signedness
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import BaseAddress, Blocks, Extent, RecordAddress, Stride, TileCount
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops import control, elementwise, internal, memory, reduction, shape

RECORD = "record"


class Undefined(Exception):
    """The program did what Tile IR leaves undefined."""


class Endless(Exception):
    """A loop went on for longer than these tests ever mean it to."""


@dataclass
class Access:
    """One executed load or store."""

    number: int
    root: str
    index: tuple[int, ...]
    is_write: bool
    waits_for: frozenset[int]


@dataclass
class World:
    """What all blocks of a launch share."""

    terms: dict[Any, Any]  # launch term -> number
    blocks: int = 1
    tiles: dict[tuple[str, tuple[int, ...]], Any] = field(default_factory=dict)
    counts: dict[str, tuple[int, ...]] = field(default_factory=dict)  # tiles of each tensor
    record: list[int] = field(default_factory=lambda: [0] * 16)
    records: list[tuple[int, int, int]] = field(default_factory=list)  # of `Record` ops
    accesses: list[Access] = field(default_factory=list)

    def term(self, term: Any) -> Any:
        if isinstance(term, Blocks):
            return self.blocks
        if isinstance(term, BaseAddress):
            return term.param
        if isinstance(term, RecordAddress):
            return (RECORD, 0)
        if isinstance(term, TileCount):
            return -(-self.terms[Extent(term.param, term.axis)] // term.tile)
        if isinstance(term, Stride):
            return 1  # tiles are found by their number
        return self.terms[term]


@dataclass
class Jump:
    """How a block of ops ended, and with which values."""

    kind: type[Op]
    values: tuple[Any, ...]


def run(function: Function, world: World, block: int = 0, arguments: tuple[Any, ...] = ()) -> World:
    """Run one block to its end."""
    machine = Machine(world, block)
    machine.values.update(zip(function.params, arguments, strict=True))
    with suppress(Endless):
        assert machine.block(function.body).kind is control.Return
    return world


def wrapped(number: Any, element: Element) -> Any:
    """Integers modulo the width, read as signed; truth values are 0 or 1."""
    half = 1 << (element.bits - 1)
    if element is Element.I1:
        return np.frompyfunc(lambda n: int(n) & 1, 1, 1)(number)
    return np.frompyfunc(lambda n: (int(n) + half) % (2 * half) - half, 1, 1)(number)


def as_unsigned(number: Any, element: Element) -> Any:
    return np.frompyfunc(lambda n: int(n) % (1 << element.bits), 1, 1)(number)


class Machine:
    def __init__(self, world: World, block: int) -> None:
        self.world = world
        self.number = block
        self.values: dict[Value, Any] = {}

    def block(self, block: Block) -> Jump:
        for op in block.ops:
            if isinstance(op, control.Terminator):
                return Jump(type(op), tuple(self.values[value] for value in op.values))
            jump = RULES[type(op)](self, op)
            if isinstance(jump, Jump):
                return jump
            results = jump if isinstance(jump, tuple) else (jump,)
            self.values.update(zip(op.results, results, strict=False))
        raise AssertionError("a block without a terminator")

    def __getitem__(self, value: Value) -> Any:
        return self.values[value]

    def access(self, op: Op, root: str, index: tuple[int, ...], is_write: bool) -> frozenset[int]:
        counts = self.world.counts.get(root)
        if counts and not all(0 <= i < n for i, n in zip(index, counts, strict=True)):
            raise Undefined(f"{root}{list(index)} is outside {counts}")
        waits = frozenset() if op.token is None else self[op.token]
        number = len(self.world.accesses)
        self.world.accesses.append(Access(number, root, index, is_write, waits))
        return waits | {number}


def unordered_conflicts(accesses: list[Access]) -> list[tuple[Access, Access]]:
    """Pairs of accesses to one tile, one of them a write, that no token orders."""
    return [
        (first, second)
        for first, second in product(accesses, accesses)
        if first.number < second.number
        and (first.root, first.index) == (second.root, second.index)
        and (first.is_write or second.is_write)
        and first.number not in second.waits_for
    ]


# --- arithmetic ----------------------------------------------------------------------------------


def _element(value: Value) -> Element:
    return value.type.element


def _integer(meaning: Callable[[int, int], int]) -> Callable[[Machine, Any], Any]:
    def rule(machine: Machine, op: Any) -> Any:
        exact = np.frompyfunc(lambda a, b: meaning(int(a), int(b)), 2, 1)
        return wrapped(exact(machine[op.lhs], machine[op.rhs]), _element(op.result))

    return rule


def _by_sign(meaning: Callable[..., int]) -> Callable[[Machine, Any], Any]:
    def rule(machine: Machine, op: Any) -> Any:
        element = _element(op.lhs)
        lhs, rhs = machine[op.lhs], machine[op.rhs]
        if op.signedness is Signedness.UNSIGNED:
            lhs, rhs = as_unsigned(lhs, element), as_unsigned(rhs, element)
        exact = np.frompyfunc(lambda a, b: meaning(op, int(a), int(b)), 2, 1)
        return wrapped(exact(lhs, rhs), _element(op.result))

    return rule


def _defined_division(op: Any, lhs: int, rhs: int) -> None:
    least = -(1 << (_element(op.lhs).bits - 1))
    if rhs == 0 or (op.signedness is Signedness.SIGNED and lhs == least and rhs == -1):
        raise Undefined(f"{lhs} divided by {rhs}")


def _divide(op: Any, lhs: int, rhs: int) -> int:
    _defined_division(op, lhs, rhs)
    if op.rounding is Rounding.NEGATIVE_INF:
        return lhs // rhs
    if op.rounding is Rounding.POSITIVE_INF:
        return -(-lhs // rhs)
    return abs(lhs) // abs(rhs) * (1 if (lhs < 0) == (rhs < 0) else -1)


def _remainder(op: Any, lhs: int, rhs: int) -> int:
    _defined_division(op, lhs, rhs)
    return abs(lhs) % abs(rhs) * (-1 if lhs < 0 else 1)


_COMPARISONS: dict[Predicate, Callable[[int, int], bool]] = {
    Predicate.EQUAL: lambda a, b: a == b,
    Predicate.NOT_EQUAL: lambda a, b: a != b,
    Predicate.LESS_THAN: lambda a, b: a < b,
    Predicate.LESS_THAN_OR_EQUAL: lambda a, b: a <= b,
    Predicate.GREATER_THAN: lambda a, b: a > b,
    Predicate.GREATER_THAN_OR_EQUAL: lambda a, b: a >= b,
}


def _floor(meaning: Callable[[int, int], int]) -> Callable[[Machine, Any], Any]:
    def rule(machine: Machine, op: Any) -> Any:
        dtype, element = op.result.dtype, _element(op.result)
        lhs, rhs = machine[op.lhs], machine[op.rhs]
        if dtype is not None and not dtype.signed:
            lhs, rhs = as_unsigned(lhs, element), as_unsigned(rhs, element)
        exact = np.frompyfunc(lambda a, b: meaning(int(a), int(b)), 2, 1)
        return wrapped(exact(lhs, rhs), element)

    return rule


def _constant(machine: Machine, op: shape.Constant) -> Any:
    if not op.to.element.is_integer:
        return np.full(op.to.shape, op.value, dtype=np.float64)[()]
    full = np.empty(op.to.shape, dtype=object)
    full[...] = op.value
    return wrapped(full[()], op.to.element)


def _extend(machine: Machine, op: elementwise.ExtI) -> Any:
    source = machine[op.source]
    if op.signedness is Signedness.UNSIGNED:
        source = as_unsigned(source, _element(op.source))
    return wrapped(source, _element(op.result))


def _reduce(machine: Machine, op: reduction.Reduce) -> Any:
    (source,) = op.sources
    total = op.identities[0].value
    for element in np.asarray(machine[source]).reshape(-1):
        machine.values.update(zip(op.body.args, (element, total), strict=True))
        (total,) = machine.block(op.body).values
    return (total,)


def _assume(machine: Machine, op: control.Assume) -> Any:
    value = machine[op.value]
    if isinstance(op.predicate, Bounded):
        lower, upper = op.predicate.lower, op.predicate.upper
        if (lower is not None and value < lower) or (upper is not None and value > upper):
            raise Undefined(f"{value} is not in {op.predicate}")
    elif not isinstance(value, str | tuple) and value % op.predicate.divisor:
        raise Undefined(f"{value} is not a multiple of {op.predicate.divisor}")
    return value


# --- control flow --------------------------------------------------------------------------------


def _if(machine: Machine, op: control.If) -> Any:
    jump = machine.block(op.then_body if machine[op.condition] else op.else_body)
    return jump.values if jump.kind is control.Yield else jump


def _steps(machine: Machine, op: Any, rounds: Any) -> Any:
    carried = tuple(machine[value] for value in op.init_values)
    for minted in rounds:
        machine.values.update(zip(op.body.args, (*minted, *carried), strict=True))
        jump = machine.block(op.body)
        if jump.kind is control.Break:
            return jump.values
        if jump.kind is control.Return:
            return jump
        carried = jump.values
    return carried


def _for(machine: Machine, op: control.For) -> Any:
    bounds = (machine[op.lower_bound], machine[op.upper_bound], machine[op.step])
    return _steps(machine, op, ((number,) for number in range(*map(int, bounds))))


def _loop(machine: Machine, op: control.Loop) -> Any:
    return _steps(machine, op, _rounds())


def _rounds() -> Iterator[tuple[()]]:
    for _ in range(6):
        yield ()
    raise Endless


def _grid(machine: Machine, counts: tuple[Value, ...]) -> list[tuple[int, ...]]:
    return list(product(*(range(int(machine[count])) for count in counts)))


def _walk(machine: Machine, op: internal.Walk) -> Any:
    ends = {axis: [int(machine[end]) for end in pair] for axis, pair in op.ranges.items()}
    tiles = [
        place
        for place in _grid(machine, op.counts)
        if all(start <= place[axis] < stop for axis, (start, stop) in ends.items())
    ]
    return _steps(machine, op, tiles[machine.number :: machine.world.blocks])


def _require(machine: Machine, op: internal.Require) -> Any:
    assert machine[op.condition], op.text
    return ()


def _record(machine: Machine, op: internal.RecordFailure) -> Any:
    if machine[op.failed]:
        values = (op.site_number, op.index, op.count)
        machine.world.records.append(tuple(int(machine[value]) for value in values))
    return ()


# --- memory --------------------------------------------------------------------------------------


def _index(machine: Machine, op: Any) -> tuple[int, ...]:
    return tuple(int(machine[value]) for value in op.index)


def _load(machine: Machine, op: memory.LoadView) -> Any:
    root, index = machine[op.view], _index(machine, op)
    token = machine.access(op, root, index, is_write=False)
    return machine.world.tiles.get((root, index), 0), token


def _store(machine: Machine, op: memory.StoreView) -> Any:
    root, index = machine[op.view], _index(machine, op)
    token = machine.access(op, root, index, is_write=True)
    machine.world.tiles[root, index] = machine[op.tile]
    return token


def _store_pointer(machine: Machine, op: memory.StorePtr) -> Any:
    root, word = machine[op.destination]
    assert root == RECORD
    machine.world.record[word] = int(machine[op.value])
    return frozenset()


def _atomic_cas(machine: Machine, op: memory.AtomicCas) -> Any:
    root, word = machine[op.pointers]
    assert root == RECORD
    old = machine.world.record[word]
    if old == machine[op.cmp]:
        machine.world.record[word] = int(machine[op.val])
    return old, frozenset()


def _offset(machine: Machine, op: memory.Offset) -> Any:
    root, word = machine[op.ptr]
    return root, word + int(machine[op.offset])


RULES: dict[type[Op], Callable[[Machine, Any], Any]] = {
    control.Assume: lambda m, op: (_assume(m, op),),
    control.For: _for,
    control.GetNumTileBlocks: lambda m, op: (m.world.blocks, 1, 1),
    control.GetTileBlockId: lambda m, op: (m.number, 0, 0),
    control.If: _if,
    control.Loop: _loop,
    elementwise.AddF: lambda m, op: m[op.lhs] + m[op.rhs],
    elementwise.AddI: _integer(lambda a, b: a + b),
    elementwise.AndI: _integer(lambda a, b: a & b),
    elementwise.CmpI: _by_sign(lambda op, a, b: _COMPARISONS[op.comparison_predicate](a, b)),
    elementwise.DivI: _by_sign(_divide),
    elementwise.ExtI: _extend,
    elementwise.Fma: lambda m, op: m[op.lhs] * m[op.rhs] + m[op.acc],
    elementwise.MaxI: _by_sign(lambda op, a, b: max(a, b)),
    elementwise.MinI: _by_sign(lambda op, a, b: min(a, b)),
    elementwise.MulF: lambda m, op: m[op.lhs] * m[op.rhs],
    elementwise.MulI: _integer(lambda a, b: a * b),
    elementwise.NegF: lambda m, op: -m[op.source],
    elementwise.NegI: lambda m, op: wrapped(-m[op.source], _element(op.result)),
    elementwise.RemI: _by_sign(_remainder),
    elementwise.Select: lambda m, op: np.where(
        np.asarray(m[op.cond], dtype=bool), m[op.val_if_true], m[op.val_if_false]
    )[()],
    elementwise.SubF: lambda m, op: m[op.lhs] - m[op.rhs],
    elementwise.SubI: _integer(lambda a, b: a - b),
    elementwise.TruncI: lambda m, op: wrapped(m[op.source], _element(op.result)),
    elementwise.XOrI: _integer(lambda a, b: a ^ b),
    internal.BlockIndex: lambda m, op: _grid(m, op.counts)[m.number],
    internal.FloorDiv: _floor(lambda a, b: a // b),
    internal.FloorMod: _floor(lambda a, b: a % b),
    internal.LaunchValue: lambda m, op: (m.world.term(op.term),),
    internal.PartIndex: lambda m, op: (m[op.piece] * op.parts + m[op.own],),
    internal.RecordFailure: _record,
    internal.Require: _require,
    internal.Walk: _walk,
    memory.AtomicCas: _atomic_cas,
    memory.JoinTokens: lambda m, op: (frozenset().union(*(m[t] for t in op.tokens)),),
    memory.LoadView: _load,
    memory.MakePartitionView: lambda m, op: (m[op.tensor_view],),
    memory.MakeTensorView: lambda m, op: (m[op.base],),
    memory.MakeToken: lambda m, op: (frozenset(),),
    memory.Offset: lambda m, op: (_offset(m, op),),
    memory.StorePtr: _store_pointer,
    memory.StoreView: _store,
    reduction.Reduce: _reduce,
    shape.Broadcast: lambda m, op: np.broadcast_to(m[op.source], op.to.shape),
    shape.Constant: _constant,
    shape.Reshape: lambda m, op: np.reshape(m[op.source], op.to.shape),
}
