"""One or more programs for every op of Tile IR: the table behind the tests of the IR layers.

A case adds its op to an entry and gives it back. An op without a case fails `test_ir_every_op`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from tile_ir_programs import I32, TOKEN, Entry, tile

from tilewright.dtypes import Element
from tilewright.ir.attributes import (
    AtomicMode,
    Bounded,
    DivBy,
    FloatIdentity,
    IntIdentity,
    LoadHints,
    MemoryOrder,
    MemoryScope,
    Ordering,
    Overflow,
    Predicate,
    Rounding,
    Signedness,
)
from tilewright.ir.function import Function
from tilewright.ir.op import Block, FieldKind, Op, Value
from tilewright.ir.ops import control, elementwise, memory, reduction, shape
from tilewright.ir.types import (
    Padding,
    PartitionViewType,
    PtrType,
    TensorViewType,
    TileType,
    scalar,
)

E = Element
_UNSIGNED = Signedness.UNSIGNED
_R = Rounding


@dataclass(frozen=True)
class Case:
    """A program around one op."""

    op: type[Op]
    label: str
    build: Callable[[Entry], Op]
    oldest: int = 80  # the first target that can hold it
    version: tuple[int, int] = field(default=(13, 3))  # the first bytecode that can

    @property
    def name(self) -> str:
        return f"{self.op.__name__}_{self.label}" if self.label else self.op.__name__

    def function(self) -> Function:
        """The program, its op's results stored."""
        entry = Entry(self.name)
        op = self.build(entry)
        entry.keep(*op.results)
        return entry.function()


def _elementwise(
    op: type[Op], element: E, label: str = "", shape: tuple[int, ...] = (4, 8), **attributes: object
) -> Case:
    """All operands are tiles of one type."""
    operands = [f.name for f in op.fields if f.kind is FieldKind.OPERAND]

    def build(entry: Entry) -> Op:
        values = {name: entry.given(TileType(element, shape)) for name in operands}
        return entry.add(op(**values, **attributes))

    return Case(op, label, build)


def _conversion(
    op: type[Op], before: E, after: E, label: str = "", oldest: int = 80, **attributes: object
) -> Case:
    version = (13, 4) if attributes.get("saturating") else (13, 3)

    def build(entry: Entry) -> Op:
        source = entry.given(tile(before, 4, 8))
        return entry.add(op(source=source, to=tile(after, 4, 8), **attributes))

    return Case(op, label, build, oldest, version)


def _float_cases() -> Iterator[Case]:
    e = elementwise
    for op in (e.AbsF, e.Ceil, e.Cos, e.Cosh, e.Floor, e.Log, e.Log2, e.NegF, e.Sin, e.Sinh, e.Tan):
        yield _elementwise(op, E.F32)
    for op in (e.Exp2, e.Rsqrt):
        yield _elementwise(op, E.F16)
        yield _elementwise(op, E.F32, "flushed", flush_to_zero=True)
    for op in (e.Exp, e.Tanh):
        yield _elementwise(op, E.F64 if op is e.Exp else E.BF16)
        yield _elementwise(op, E.F32, "approx", rounding_mode=_R.APPROX)
    yield _elementwise(e.Sqrt, E.F64)
    yield _elementwise(e.Sqrt, E.F32, "approx", rounding_mode=_R.APPROX, flush_to_zero=True)
    for op in (e.AddF, e.SubF, e.MulF, e.Fma):
        yield _elementwise(op, E.F16)
        yield _elementwise(op, E.F32, "cut", rounding_mode=_R.ZERO, flush_to_zero=True)
    yield _elementwise(e.DivF, E.F32, "full", rounding_mode=_R.FULL)
    yield _elementwise(e.DivF, E.F32, "up", rounding_mode=_R.POSITIVE_INF, flush_to_zero=True)
    for op in (e.MaxF, e.MinF):
        yield _elementwise(op, E.F32, "both", propagate_nan=True, flush_to_zero=True)
        yield _elementwise(op, E.F16)
    for op in (e.Pow, e.RemF, e.Atan2):
        yield _elementwise(op, E.F32)
    for ordering in Ordering:
        yield _elementwise(
            e.CmpF, E.F32, ordering.name, comparison_predicate=Predicate.LESS_THAN,
            comparison_ordering=ordering,
        )  # fmt: skip


def _integer_cases() -> Iterator[Case]:
    e = elementwise
    for op in (e.AbsI, e.AndI, e.OrI, e.XOrI, e.MulHiI):
        yield _elementwise(op, E.I32)
    yield _elementwise(e.AndI, E.I1, "truth")
    yield _elementwise(e.NegI, E.I8)
    yield _elementwise(e.NegI, E.I64, "promised", overflow=Overflow.NSW)
    for op, promise in zip(
        (e.AddI, e.SubI, e.MulI, e.ShLI), (Overflow.NW, *Overflow), strict=False
    ):
        yield _elementwise(op, E.I16)
        yield _elementwise(op, E.I32, "promised", (), overflow=promise)
    for op in (e.MaxI, e.MinI, e.RemI, e.ShRI):
        yield _elementwise(op, E.I32)
        yield _elementwise(op, E.I64, "unsigned", signedness=_UNSIGNED)
    yield _elementwise(e.DivI, E.I32, rounding=_R.NEGATIVE_INF)
    yield _elementwise(e.DivI, E.I32, "unsigned", signedness=_UNSIGNED)
    yield _elementwise(e.DivI, E.I32, "up", rounding=_R.POSITIVE_INF)
    for predicate in Predicate:
        yield _elementwise(e.CmpI, E.I32, predicate.name, comparison_predicate=predicate)


def _conversion_cases() -> Iterator[Case]:
    e = elementwise
    yield _conversion(e.Bitcast, E.F32, E.I32)
    yield _conversion(e.ExtI, E.I8, E.I32)
    yield _conversion(e.ExtI, E.I4, E.I8, "four", signedness=_UNSIGNED)
    yield _conversion(e.TruncI, E.I64, E.I32, overflow=Overflow.NUW)
    yield _conversion(e.TruncI, E.I8, E.I4, "four")
    for after, oldest in ((E.BF16, 80), (E.TF32, 80), (E.F8E4M3FN, 90), (E.F8E5M2, 90)):
        yield _conversion(e.FToF, E.F32, after, after.name, oldest)
    yield _conversion(e.FToF, E.F32, E.F4E2M1FN, "f4", 100)
    yield _conversion(e.FToF, E.F32, E.F8E8M0FNU, "scale", 100, rounding_mode=_R.POSITIVE_INF)
    yield _conversion(e.IToF, E.I32, E.F32)
    yield _conversion(e.IToF, E.I64, E.F16, "unsigned", signedness=_UNSIGNED)
    yield _conversion(e.FToI, E.F32, E.I32)
    yield _conversion(e.FToI, E.F16, E.I8, "saturating", saturating=True, signedness=_UNSIGNED)
    yield Case(elementwise.Select, "", _select)
    yield Case(elementwise.Select, "pointers", _select_pointers)


def _select(entry: Entry) -> Op:
    left, right = (entry.given(tile(E.F32, 8)) for _ in range(2))
    return entry.add(
        elementwise.Select(cond=entry.given(tile(E.I1, 8)), val_if_true=left, val_if_false=right)
    )


def _select_pointers(entry: Entry) -> Op:
    left, right = (entry.pointers(E.F32, (8,)) for _ in range(2))
    chosen = elementwise.Select(
        cond=entry.given(tile(E.I1, 8)), val_if_true=left, val_if_false=right
    )
    return entry.add(memory.LoadPtr(source=entry.add(chosen).result))


def _shape_cases() -> Iterator[Case]:
    s = shape
    source = tile(E.F32, 4, 8)
    numbers = np.arange(8, dtype=np.int32)
    yield Case(s.Constant, "", lambda n: n.add(s.Constant(value=1.5, to=source)))
    yield Case(s.Constant, "listed", lambda n: n.add(s.Constant(value=numbers, to=tile(E.I32, 8))))
    yield Case(s.Constant, "truth", lambda n: n.add(s.Constant(value=True, to=tile(E.I1, 8))))
    yield Case(s.Iota, "", lambda n: n.add(s.Iota(to=tile(E.I32, 16))))
    yield Case(
        s.Broadcast, "",
        lambda n: n.add(s.Broadcast(source=n.given(tile(E.F32, 1, 8)), to=source)),
    )  # fmt: skip
    yield Case(
        s.Reshape, "", lambda n: n.add(s.Reshape(source=n.given(source), to=tile(E.F32, 2, 16)))
    )
    yield Case(
        s.Permute, "", lambda n: n.add(s.Permute(source=n.given(source), permutation=(1, 0)))
    )
    yield Case(s.Cat, "", lambda n: n.add(s.Cat(lhs=n.given(source), rhs=n.given(source), dim=1)))
    yield Case(
        s.Extract, "",
        lambda n: n.add(
            s.Extract(source=n.given(source), indices=(n.index(), n.index()), to=tile(E.F32, 2, 8))
        ),
    )  # fmt: skip


def _view_cases() -> Iterator[Case]:
    m = memory
    yield Case(m.MakeToken, "", lambda n: n.add(m.MakeToken()))
    yield Case(m.JoinTokens, "", _join_tokens)
    yield Case(m.MakeTensorView, "", _tensor_view)
    yield Case(m.MakePartitionView, "", _partition_view)
    yield Case(m.GetIndexSpaceShape, "", lambda n: n.add(m.GetIndexSpaceShape(src=_view(n))))
    yield Case(m.GetTensorShape, "", _tensor_shape)
    yield Case(m.LoadView, "", lambda n: n.add(m.LoadView(view=_view(n), index=_at(n))))
    yield Case(m.LoadView, "hinted", _hinted_load)
    yield Case(m.LoadView, "acquire", _acquire_load)
    yield Case(
        m.LoadView, "inbounds",
        lambda n: n.add(
            m.LoadView(view=n.view(E.F32, 16, 32), index=_at(n), inbounds=(True, False))
        ),
        version=(13, 4),
    )  # fmt: skip
    yield Case(m.StoreView, "", lambda n: _store_view(n))
    yield Case(m.StoreView, "hinted", lambda n: _store_view(n, hints=LoadHints(allow_tma=True)))
    yield Case(
        m.StoreView, "release",
        lambda n: _store_view(
            n, memory_ordering=MemoryOrder.RELEASE, memory_scope=MemoryScope.SYS,
            token=n.add(m.MakeToken()).result,
        ),
    )  # fmt: skip


def _view(entry: Entry) -> Value:
    return entry.view(E.F32, 16, 32, padding=Padding.NEG_INF)


def _at(entry: Entry) -> tuple[Value, ...]:
    return entry.index(), entry.index()


def _join_tokens(entry: Entry) -> Op:
    tokens = tuple(entry.add(memory.MakeToken()).result for _ in range(3))
    return entry.add(memory.JoinTokens(tokens=tokens))


def _tensor_view(entry: Entry) -> Op:
    base, number = entry.param(scalar(PtrType(E.F16))), entry.index()
    made = memory.MakeTensorView(
        base=base, dynamic_shape=(number,), dynamic_strides=(number,),
        to=TensorViewType(E.F16, (None, 64), (None, 1)),
    )  # fmt: skip
    result = entry.add(made)
    to = PartitionViewType((16, 16), made.to, (0, 1))
    part = entry.add(memory.MakePartitionView(tensor_view=result.result, to=to)).result
    entry.keep(entry.add(memory.LoadView(view=part, index=(number, number))).tile)
    return result


def _partition_view(entry: Entry) -> Op:
    view = entry.add(
        memory.MakeTensorView(
            base=entry.param(scalar(PtrType(E.F16))), to=TensorViewType(E.F16, (64, 128), (128, 1))
        )
    ).result
    assert isinstance(view.type, TensorViewType)
    to = PartitionViewType((32, 16), view.type, (1, 0), Padding.ZERO)
    made = entry.add(memory.MakePartitionView(tensor_view=view, to=to))
    number = entry.index()
    entry.keep(entry.add(memory.LoadView(view=made.result, index=(number, number))).tile)
    return made


def _tensor_shape(entry: Entry) -> Op:
    view = entry.add(
        memory.MakeTensorView(
            base=entry.param(scalar(PtrType(E.F32))), dynamic_shape=(entry.index(),),
            to=TensorViewType(E.F32, (None, 8), (8, 1)),
        )
    ).result  # fmt: skip
    return entry.add(memory.GetTensorShape(src=view))


def _hinted_load(entry: Entry) -> Op:
    hints = LoadHints(latency=3, allow_tma=False)
    token = entry.add(memory.MakeToken()).result
    return entry.add(memory.LoadView(view=_view(entry), index=_at(entry), hints=hints, token=token))


def _acquire_load(entry: Entry) -> Op:
    order, scope = MemoryOrder.ACQUIRE, MemoryScope.DEVICE
    return entry.add(
        memory.LoadView(
            view=_view(entry), index=_at(entry), memory_ordering=order, memory_scope=scope
        )
    )


def _store_view(entry: Entry, **attributes: object) -> Op:
    values = entry.given(tile(E.F32, 16, 32))
    return entry.add(
        memory.StoreView(tile=values, view=_view(entry), index=_at(entry), **attributes)
    )


def _pointer_cases() -> Iterator[Case]:
    m = memory
    yield Case(m.Offset, "", _offset)
    yield Case(m.LoadPtr, "", lambda n: n.add(m.LoadPtr(source=n.pointers(E.I8, (16,)))))
    yield Case(m.LoadPtr, "masked", _masked_load)
    yield Case(
        m.LoadPtr, "relaxed",
        lambda n: n.add(
            m.LoadPtr(
                source=n.pointers(E.I32), memory_ordering=MemoryOrder.RELAXED,
                memory_scope=MemoryScope.TL_BLK,
            )
        ),
    )  # fmt: skip
    yield Case(m.StorePtr, "", lambda n: _store_ptr(n))
    yield Case(m.StorePtr, "masked", _masked_store)
    for mode, element in (
        (AtomicMode.ADD, E.I32), (AtomicMode.ADDF, E.F16), (AtomicMode.UMIN, E.I64),
        (AtomicMode.XCHG, E.F32), (AtomicMode.AND, E.I32),
    ):  # fmt: skip
        yield Case(m.AtomicRmw, mode.name, _rmw(mode, element))
    yield Case(m.AtomicCas, "", _cas)
    yield Case(m.AtomicCas, "masked", _masked_cas)


def _offset(entry: Entry) -> Op:
    moved = entry.add(
        memory.Offset(ptr=entry.pointers(E.F32, (8,)), offset=entry.given(tile(E.I64, 8)))
    )
    entry.keep(entry.add(memory.LoadPtr(source=moved.result)).result)
    return moved


def _masked_load(entry: Entry) -> Op:
    loaded = memory.LoadPtr(
        source=entry.pointers(E.F32, (8,)), mask=entry.given(tile(E.I1, 8)),
        padding_value=entry.build.constant(-1.0, E.F32, (8,)), hints=LoadHints(latency=2),
        token=entry.add(memory.MakeToken()).result,
    )  # fmt: skip
    return entry.add(loaded)


def _store_ptr(entry: Entry) -> Op:
    return entry.add(
        memory.StorePtr(
            destination=entry.pointers(E.BF16, (8,)), value=entry.given(tile(E.BF16, 8))
        )
    )


def _masked_store(entry: Entry) -> Op:
    stored = memory.StorePtr(
        destination=entry.pointers(E.F32, (8,)), value=entry.given(tile(E.F32, 8)),
        mask=entry.given(tile(E.I1, 8)), token=entry.add(memory.MakeToken()).result,
        hints=LoadHints(latency=1),
    )  # fmt: skip
    return entry.add(stored)


def _rmw(mode: AtomicMode, element: E) -> Callable[[Entry], Op]:
    def build(entry: Entry) -> Op:
        masked = mode in (AtomicMode.ADD, AtomicMode.ADDF)
        changed = memory.AtomicRmw(
            pointers=entry.pointers(element, (8,)), arg=entry.given(tile(element, 8)), mode=mode,
            mask=entry.given(tile(E.I1, 8)) if masked else None,
            token=entry.add(memory.MakeToken()).result if masked else None,
        )  # fmt: skip
        return entry.add(changed)

    return build


def _cas(entry: Entry) -> Op:
    swapped = memory.AtomicCas(
        pointers=entry.pointers(E.I32), cmp=entry.index(), val=entry.index(),
        memory_ordering=MemoryOrder.ACQ_REL, memory_scope=MemoryScope.SYS,
    )  # fmt: skip
    return entry.add(swapped)


def _masked_cas(entry: Entry) -> Op:
    swapped = memory.AtomicCas(
        pointers=entry.pointers(E.I64, (4,)), cmp=entry.given(tile(E.I64, 4)),
        val=entry.given(tile(E.I64, 4)), mask=entry.given(tile(E.I1, 4)),
        token=entry.add(memory.MakeToken()).result,
    )  # fmt: skip
    return entry.add(swapped)


def _combining_cases() -> Iterator[Case]:
    r = reduction
    yield Case(r.Reduce, "", _reduce)
    yield Case(r.Reduce, "pair", _reduce_pair)
    yield Case(r.Scan, "", _scan)
    yield Case(r.Scan, "reverse", lambda n: _scan(n, reverse=True))
    for operand, total, oldest in (
        (E.F16, E.F32, 80), (E.BF16, E.F32, 80), (E.TF32, E.F32, 80), (E.F64, E.F64, 80),
        (E.F8E4M3FN, E.F32, 90),
    ):  # fmt: skip
        yield Case(r.MmaF, operand.name, _product(operand, total), oldest)
    yield Case(r.MmaF, "batched", _product(E.F16, E.F16, batch=(2,)))
    yield Case(r.MmaF, "fast", _product(E.F8E5M2, E.F32, fast_acc=True), 90)
    yield Case(r.MmaI, "", _integer_product)


def _reduce(entry: Entry) -> Op:
    body = Block((Value(scalar(E.F64)), Value(scalar(E.F64))))
    with entry.build.inside(body):
        larger = entry.add(elementwise.MaxF(lhs=body.args[0], rhs=body.args[1])).result
        entry.add(control.Yield(values=(larger,)))
    least = (FloatIdentity(E.F64, float("-inf")),)
    source = entry.given(tile(E.F64, 4, 8))
    return entry.add(reduction.Reduce(sources=(source,), dim=1, identities=least, body=body))


def _reduce_pair(entry: Entry) -> Op:
    """The largest number and where it is."""
    kinds = (E.F32, E.I32)
    body = Block(tuple(Value(scalar(kind)) for kind in kinds for _ in range(2)))
    x, best, i, where = body.args
    with entry.build.inside(body):
        wins = entry.add(
            elementwise.CmpF(lhs=x, rhs=best, comparison_predicate=Predicate.GREATER_THAN)
        ).result
        pairs = [(x, best), (i, where)]
        chosen = [
            entry.add(
                elementwise.Select(cond=wins, val_if_true=new, val_if_false=old)
            ).result
            for new, old in pairs
        ]  # fmt: skip
        entry.add(control.Yield(values=tuple(chosen)))
    identities = (FloatIdentity(E.F32, float("-inf")), IntIdentity(E.I32, 2**32 - 1))
    sources = tuple(entry.given(tile(kind, 8, 4)) for kind in kinds)
    return entry.add(reduction.Reduce(sources=sources, dim=0, identities=identities, body=body))


def _scan(entry: Entry, *, reverse: bool = False) -> Op:
    body = Block((Value(I32), Value(I32)))
    with entry.build.inside(body):
        total = entry.add(elementwise.AddI(lhs=body.args[0], rhs=body.args[1])).result
        entry.add(control.Yield(values=(total,)))
    return entry.add(
        reduction.Scan(
            sources=(entry.given(tile(E.I32, 8)),), dim=0, reverse=reverse,
            identities=(IntIdentity(E.I32, 0),), body=body,
        )
    )  # fmt: skip


def _product(
    operand: E, total: E, *, batch: tuple[int, ...] = (), fast_acc: bool = False
) -> Callable[[Entry], Op]:
    def build(entry: Entry) -> Op:
        lhs, rhs = (entry.given(TileType(operand, (*batch, 32, 32))) for _ in range(2))
        acc = entry.given(TileType(total, (*batch, 32, 32)))
        return entry.add(reduction.MmaF(lhs=lhs, rhs=rhs, acc=acc, fast_acc=fast_acc))

    return build


def _integer_product(entry: Entry) -> Op:
    lhs, rhs = (entry.given(tile(E.I8, 32, 32)) for _ in range(2))
    acc = entry.given(tile(E.I32, 32, 32))
    return entry.add(reduction.MmaI(lhs=lhs, rhs=rhs, acc=acc, signedness_rhs=_UNSIGNED))


def _control_cases() -> Iterator[Case]:
    c = control
    yield Case(c.For, "", _for)
    yield Case(c.For, "bare", _bare_for)
    yield Case(c.Loop, "", _loop)
    yield Case(c.Loop, "returning", _returning_loop)
    yield Case(c.If, "", _if)
    yield Case(c.If, "bare", _bare_if)
    yield Case(c.Break, "", _loop)
    yield Case(c.Continue, "", _for)
    yield Case(c.Yield, "", _if)
    yield Case(c.Return, "", lambda n: n.add(c.Return()))
    for op in (c.GetTileBlockId, c.GetNumTileBlocks):
        yield Case(op, "", lambda n, op=op: n.add(op()))
    yield Case(
        c.Assume, "bounded", lambda n: n.add(c.Assume(value=n.index(), predicate=Bounded(0, 9)))
    )
    yield Case(c.Assume, "divisible", _divisible)
    yield Case(c.Assert, "", _assert)


def _for(entry: Entry) -> Op:
    start = entry.given(tile(E.F32, 8))
    token = entry.add(memory.MakeToken()).result
    body = Block((Value(scalar(E.I64)), Value(start.type), Value(TOKEN)))
    with entry.build.inside(body):
        total = entry.add(elementwise.AddF(lhs=body.args[1], rhs=start)).result
        entry.add(control.Continue(values=(total, body.args[2])))
    lower, upper, step = (entry.param(scalar(E.I64)) for _ in range(3))
    return entry.add(
        control.For(
            lower_bound=lower, upper_bound=upper, step=step, init_values=(start, token),
            body=body, unsigned_cmp=True,
        )
    )  # fmt: skip


def _bare_for(entry: Entry) -> Op:
    body = Block((Value(I32),))
    target = entry.pointers(E.I32)
    with entry.build.inside(body):
        entry.add(memory.StorePtr(destination=target, value=body.args[0]))
        entry.add(control.Continue())
    zero, end, one = entry.build.index(0), entry.index(), entry.build.index(1)
    return entry.add(control.For(lower_bound=zero, upper_bound=end, step=one, body=body))


def _loop(entry: Entry) -> Op:
    """Halve a number until it is below ten; give it as i64."""
    body = Block((Value(I32),))
    wide = scalar(E.I64)
    with entry.build.inside(body):
        ten = entry.build.index(10)
        small = entry.add(
            elementwise.CmpI(
                lhs=body.args[0], rhs=ten, comparison_predicate=Predicate.LESS_THAN
            )
        ).result  # fmt: skip
        leave, stay = Block(), Block()
        with entry.build.inside(leave):
            found = entry.add(elementwise.ExtI(source=body.args[0], to=wide)).result
            entry.add(control.Break(values=(found,)))
        with entry.build.inside(stay):
            entry.add(control.Yield())
        entry.add(control.If(condition=small, then_body=leave, else_body=stay))
        half = entry.add(elementwise.DivI(lhs=body.args[0], rhs=entry.build.index(2))).result
        entry.add(control.Continue(values=(half,)))
    return entry.add(control.Loop(init_values=(entry.index(),), body=body, types=(wide,)))


def _returning_loop(entry: Entry) -> Op:
    body = Block()
    with entry.build.inside(body):
        entry.add(control.Return())
    return entry.add(control.Loop(body=body))


def _if(entry: Entry) -> Op:
    left, right = entry.given(tile(E.F32, 8)), entry.given(tile(E.F32, 8))
    branches = []
    for value in (left, right):
        branch = Block()
        with entry.build.inside(branch):
            negated = entry.add(elementwise.NegF(source=value)).result
            entry.add(control.Yield(values=(negated, value)))
        branches.append(branch)
    return entry.add(
        control.If(
            condition=entry.param(scalar(E.I1)), then_body=branches[0], else_body=branches[1],
            types=(left.type, left.type),
        )
    )  # fmt: skip


def _bare_if(entry: Entry) -> Op:
    target, number = entry.pointers(E.I32), entry.index()
    then, other = Block(), Block()
    with entry.build.inside(then):
        entry.add(memory.StorePtr(destination=target, value=number))
        entry.add(control.Yield())
    with entry.build.inside(other):
        entry.add(control.Return())
    return entry.add(
        control.If(condition=entry.param(scalar(E.I1)), then_body=then, else_body=other)
    )


def _divisible(entry: Entry) -> Op:
    pointers = control.Assume(value=entry.param(scalar(PtrType(E.F32))), predicate=DivBy(16))
    entry.add(memory.LoadPtr(source=entry.add(pointers).result))
    return pointers


def _assert(entry: Entry) -> Op:
    return entry.add(control.Assert(condition=entry.given(tile(E.I1, 8)), message='all "good"\n'))


CASES: tuple[Case, ...] = (
    *_float_cases(),
    *_integer_cases(),
    *_conversion_cases(),
    *_shape_cases(),
    *_view_cases(),
    *_pointer_cases(),
    *_combining_cases(),
    *_control_cases(),
)
