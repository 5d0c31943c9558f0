"""Cases of the ops with regions, of matrix products and of what a block can ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tile_ir_programs import I32, TOKEN, Case, Entry, tile

from tilewright.dtypes import Element
from tilewright.ir.attributes import (
    Bounded,
    DivBy,
    FloatIdentity,
    IntIdentity,
    Predicate,
    Promise,
    SameElements,
    Signedness,
)
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops import control, elementwise, memory, reduction
from tilewright.ir.types import PtrType, TileType, scalar

E = Element
_UNSIGNED = Signedness.UNSIGNED
_V3 = (13, 3)


def combining_cases() -> Iterator[Case]:
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
    yield Case(r.MmaF, "fast", _product(E.F8E5M2, E.F32, fast_acc=True), 90, _V3)
    yield Case(r.MmaI, "", _integer_product)
    for operand, scale, group in (
        (E.F8E4M3FN, E.F8E8M0FNU, 32), (E.F8E5M2, E.F8E8M0FNU, 32), (E.F4E2M1FN, E.F8E8M0FNU, 16),
        (E.F4E2M1FN, E.F8E8M0FNU, 32), (E.F4E2M1FN, E.F8E4M3FN, 16),
    ):  # fmt: skip
        label = f"{operand.name}_{scale.name}_{group}"
        yield Case(r.MmaFScaled, label, _scaled_product(operand, scale, group), 100, _V3)
    for group in (16, 32):
        yield Case(
            r.MmaFScaled, f"E5M3_{group}", _scaled_product(E.F4E2M1FN, E.FNV8E5M3FNU, group),
            107, (13, 4), newest=107,
        )  # fmt: skip
    yield Case(
        r.MmaFScaled, "batched", _scaled_product(E.F8E5M2, E.F8E8M0FNU, 32, batch=(2,)), 100, _V3
    )


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


def _scaled_product(
    operand: E, scale: E, group: int, *, batch: tuple[int, ...] = ()
) -> Callable[[Entry], Op]:
    shapes = [
        (operand, (16, 2 * group)), (operand, (2 * group, 16)), (E.F32, (16, 16)), (scale, (16, 2)),
        (scale, (2, 16)),
    ]  # fmt: skip

    def build(entry: Entry) -> Op:
        tiles = [entry.given(TileType(element, (*batch, *shape))) for element, shape in shapes]
        lhs, rhs, acc, left, right = tiles
        return entry.add(
            reduction.MmaFScaled(lhs=lhs, rhs=rhs, acc=acc, lhs_scale=left, rhs_scale=right)
        )

    return build


def control_cases() -> Iterator[Case]:
    c = control
    yield Case(c.For, "", _for)
    yield Case(c.For, "unsigned", lambda n: _for(n, unsigned_cmp=True), version=(13, 2))
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
    for label, promise in (
        ("grouped", DivBy(4, every=2, along=1)), ("alike", SameElements((4, 2))),
        ("open", Bounded(None, None)), ("low", Bounded(-5, None)),
    ):  # fmt: skip
        yield Case(c.Assume, label, _assumed(promise))
    yield Case(c.Print, "", lambda n: n.add(c.Print(str="plain 100%%\n")))
    yield Case(c.Print, "tiles", _print)
    yield Case(c.Print, "ordered", _ordered_print, version=(13, 2))
    yield Case(c.Assert, "", _assert)


def _for(entry: Entry, *, unsigned_cmp: bool = False) -> Op:
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
            body=body, unsigned_cmp=unsigned_cmp,
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


def _assumed(promise: Promise) -> Callable[[Entry], Op]:
    return lambda n: n.add(control.Assume(value=n.given(tile(E.I32, 4, 8)), predicate=promise))


def _print(entry: Entry) -> Op:
    values = entry.given(tile(E.F32, 8)), entry.index()
    return entry.add(control.Print(str='x = %5.2f, "n" = %i', args=values))


def _ordered_print(entry: Entry) -> Op:
    token = entry.add(memory.MakeToken()).result
    return entry.add(control.Print(str="%lld", args=(entry.param(scalar(E.I64)),), token=token))


def _divisible(entry: Entry) -> Op:
    pointers = control.Assume(value=entry.param(scalar(PtrType(E.F32))), predicate=DivBy(16))
    entry.add(memory.LoadPtr(source=entry.add(pointers).result))
    return pointers


def _assert(entry: Entry) -> Op:
    return entry.add(control.Assert(condition=entry.given(tile(E.I1, 8)), message='all "good"\n'))
