"""Our verifier and NVIDIA's agree: on changed programs, what one accepts the other accepts.

Each case is changed in one place at a time: an operand of another type, another member of an
enum, a flag turned, another type of the result. Where a rule of ours is stricter on purpose it is
left out here.
"""

import random
from collections.abc import Iterator

import pytest
from tile_ir_addresses import GLOBALS
from tile_ir_cases import CASES
from tile_ir_programs import I32, Case, Entry, tile
from tile_ir_views import gathered, strided

from tilewright.backends.cuda.explain import AssemblyError
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode import encode
from tilewright.dtypes import Element
from tilewright.errors import CompileError
from tilewright.ir.attributes import Bounded, DivBy, SameElements, TargetHints
from tilewright.ir.codecs import EnumCodec, PredicateCodec
from tilewright.ir.function import Function, Module
from tilewright.ir.op import Block, Field, FieldKind, Op, Value
from tilewright.ir.ops.control import Return
from tilewright.ir.ops.memory import MakeToken
from tilewright.ir.types import PtrType, TileType, scalar
from tilewright.ir.verify.verifier import violations

E = Element
_STRICTER = ("does not go with a padded view", "a latency hint is", "does not fill")
_REFUSED_RUNS = 200  # the disassembler is started for each
_TARGET = "sm_107"
_PROMISES = (
    DivBy(8), DivBy(8, 2, 0), DivBy(8, 9, 0), DivBy(8, 1, 2), DivBy(8, 1, None), Bounded(0, 5),
    Bounded(-1, 300), SameElements((1,)), SameElements((1, 2)), SameElements(()),
)  # fmt: skip
_OTHER_TYPES = (
    I32, scalar(E.I64), scalar(E.F32), scalar(PtrType(E.F32)), tile(E.I8, 8), tile(E.I8, 32),
    tile(E.I64, 8), tile(E.F32, 8), tile(E.I4, 8), TileType(PtrType(E.F16), (8,)),
)  # fmt: skip


def _strangers(entry: Entry) -> list[Value]:
    """Values of every kind, to stand where they may not belong."""
    types = [
        I32, scalar(E.I64), scalar(E.F32), scalar(E.I1), scalar(PtrType(E.F32)), tile(E.F32, 8),
        tile(E.F32, 4, 8), tile(E.F16, 4, 8), tile(E.I32, 4, 8), tile(E.I1, 4, 8), tile(E.I8, 8),
        tile(E.I32, 16), tile(E.F8E8M0FNU, 32, 2), tile(E.I64, 8), tile(E.I4, 8),
    ]  # fmt: skip
    return [
        *(entry.param(type_) if type_.rank == 0 else entry.given(type_) for type_ in types),
        entry.add(MakeToken()).result,
        entry.tensor(E.F32, 2),
        entry.view(E.F32, 16, 32),
        strided(entry),
        gathered(entry, 0),
    ]


def _changes(op: Op, field: Field, strangers: list[Value]) -> Iterator[object]:
    held = getattr(op, field.name)
    if field.kind in (FieldKind.OPERAND, FieldKind.OPTIONAL_OPERAND):
        yield from strangers
    elif field.kind is FieldKind.OPERANDS and held:
        yield from ((stranger, *held[1:]) for stranger in strangers)
        yield held[:-1]
        yield (*held, held[0])
    elif field.kind is FieldKind.FLAG:
        yield not held
    elif isinstance(field.codec, EnumCodec):
        yield from (member for member in field.codec.enum if member is not held)
    elif isinstance(held, TargetHints | None) and field.optional:
        yield TargetHints.of(latency=4)
    elif isinstance(field.codec, PredicateCodec):
        yield from _PROMISES
    elif field.from_types is not None and isinstance(held, TileType):
        yield from _OTHER_TYPES
        yield from (held.with_shape(shape) for shape in ((), (8,), (16,), (1, 8)))


def _changed(case: Case) -> Iterator[Function]:
    """The case with one change at a time. The ops before the changed one are shared."""
    entry = Entry(case.name)
    strangers = _strangers(entry)
    op = case.build(entry)
    if op not in entry.block.ops:
        return
    before = entry.block.ops[: entry.block.ops.index(op)]
    parts = {f.name: getattr(op, f.name) for f in op.fields if _is_given(f)}
    changes = ((f, new) for f in op.fields for new in _changes(op, f, strangers))
    for number, (field, new) in enumerate(changes):
        try:
            other = type(op)(**parts | {field.name: new})
        except (AssertionError, AttributeError, IndexError):
            continue  # the type rule itself refuses
        end = [] if isinstance(other, Return) else [Return()]
        block = Block(entry.block.args, [*before, other, *end])
        yield Function(f"{case.name}_{number}", block)


def _module(*functions: Function) -> Module:
    return Module(functions, globals=GLOBALS)


def _is_given(field: Field) -> bool:
    return field.kind not in (FieldKind.RESULT, FieldKind.RESULTS)


def _programs() -> tuple[list[Function], list[tuple[Function, str]]]:
    """Every changed program, those that we accept and those that we do not (and why)."""
    good, bad = [], []
    for case in CASES:
        for function in _changed(case):
            found = [str(violation) for violation in violations(_module(function), _TARGET)]
            if not found:
                good.append(function)
            elif not any(text in found[0] for text in _STRICTER):
                bad.append((function, found[0]))
    return good, bad


@pytest.fixture(scope="module")
def programs() -> tuple[list[Function], list[tuple[Function, str]]]:
    return _programs()


def test_what_we_accept_is_accepted(programs):
    good, _ = programs
    assert len(good) > 800
    find_toolchain().disassemble(encode(_module(*good), (13, 4)))


def test_what_we_refuse_is_refused(programs):
    _, bad = programs
    sample = random.Random(7).sample(bad, min(_REFUSED_RUNS, len(bad)))
    assert len(sample) == _REFUSED_RUNS
    toolchain = find_toolchain()
    let_pass = []
    for function, reason in sample:
        try:
            toolchain.disassemble(encode(_module(function), (13, 4)))
        except (AssemblyError, CompileError):
            continue
        let_pass.append(f"{function.name}: {reason}")
    assert let_pass == []
