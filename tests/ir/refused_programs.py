"""Programs that break one rule of the verifier each, with the start of what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tile_ir_programs import I32, Entry, tile

from tilewright.dtypes import Element
from tilewright.ir.attributes import (
    AtomicMode,
    Bounded,
    DivBy,
    IntIdentity,
    MemoryOrder,
    MemoryScope,
    Overflow,
    Rounding,
    Signedness,
    TargetHints,
)
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops import control as c
from tilewright.ir.ops import elementwise as e
from tilewright.ir.ops import memory as m
from tilewright.ir.ops import reduction as r
from tilewright.ir.ops import shape as s
from tilewright.ir.types import (
    Padding,
    PartitionViewType,
    PtrType,
    TensorViewType,
    TileType,
    scalar,
)

E = Element


@dataclass(frozen=True)
class Refused:
    """A program and the start of what is said about it."""

    label: str
    message: str
    build: Callable[[Entry], Op]
    ours_only: bool = False  # NVIDIA's reader lets it pass


def _floats(*shape: int) -> TileType:
    return TileType(E.F32, shape)


def _add(left: TileType, right: TileType) -> Callable[[Entry], Op]:
    return lambda n: e.AddF(lhs=n.given(left), rhs=n.given(right))


def _unary(op: type[Op], element: E, **attributes: object) -> Callable[[Entry], Op]:
    return lambda n: op(source=n.given(tile(element, 8)), **attributes)


def _convert(op: type[Op], before: E, to: TileType, **attributes: object) -> Callable[[Entry], Op]:
    return lambda n: op(source=n.given(tile(before, 8)), to=to, **attributes)


def _load(**parts: object) -> Callable[[Entry], Op]:
    return lambda n: m.LoadView(view=n.view(E.F32, 8), index=(n.index(),), **parts)


def _mma(lhs: TileType, rhs: TileType, acc: TileType) -> Callable[[Entry], Op]:
    return lambda n: r.MmaF(lhs=n.given(lhs), rhs=n.given(rhs), acc=n.given(acc))


def _assume(type_: TileType, predicate: DivBy | Bounded) -> Callable[[Entry], Op]:
    return lambda n: c.Assume(value=n.given(type_), predicate=predicate)


def _rmw(element: E, mode: AtomicMode, **parts: object) -> Callable[[Entry], Op]:
    return lambda n: m.AtomicRmw(
        pointers=n.pointers(element, (8,)), arg=n.given(tile(element, 8)), mode=mode, **parts
    )


def _padded_inbounds(n: Entry) -> Op:
    view = n.view(E.F32, 8, padding=Padding.ZERO)
    return m.LoadView(view=view, index=(n.index(),), inbounds=(True,))


def _tensor_view(**parts: object) -> Callable[[Entry], Op]:
    def build(n: Entry) -> Op:
        given = {
            "base": n.param(scalar(PtrType(E.F16))),
            "dynamic_shape": (n.index(),),
            "dynamic_strides": (),
            "to": TensorViewType(E.F16, (None,), (1,)),
        }
        made = {k: v(n) if callable(v) else v for k, v in parts.items()}
        return m.MakeTensorView(**given | made)

    return build


def _partition(tile_: tuple[int, ...], dim_map: tuple[int, ...] = (0,), **parts: object):
    def build(n: Entry) -> Op:
        view = n.add(
            m.MakeTensorView(
                base=n.param(scalar(PtrType(E.I32))),
                dynamic_shape=(n.index(),),
                to=TensorViewType(E.I32, (None,), (1,)),
            )
        ).result
        type_ = replace(PartitionViewType(tile_, view.type, dim_map), **parts)
        return m.MakePartitionView(tensor_view=view, to=type_)

    return build


def _reduce(**parts: object) -> Callable[[Entry], Op]:
    """A sum over axis 0, but for what is given."""

    def build(n: Entry) -> Op:
        body = Block((Value(I32), Value(I32)))
        with n.build.inside(body):
            total = n.add(e.AddI(lhs=body.args[0], rhs=body.args[1])).result
            n.add(c.Yield(values=(total,)))
        given = {
            "sources": (n.given(tile(E.I32, 8, 4)),),
            "dim": 0,
            "identities": (IntIdentity(E.I32, 0),),
            "body": body,
        }
        made = {k: v(n) if callable(v) else v for k, v in parts.items()}
        return r.Reduce(**given | made)

    return build


def _impure_body(n: Entry) -> Block:
    body = Block((Value(I32), Value(I32)))
    with n.build.inside(body):
        n.add(m.LoadPtr(source=n.param(scalar(PtrType(E.I32)))))
        n.add(c.Yield(values=(body.args[0],)))
    return body


def _wide_body(_n: Entry) -> Block:
    body = Block((Value(scalar(E.I64)), Value(scalar(E.I64))))
    body.ops.append(c.Yield(values=(body.args[0],)))
    return body


def _for(end: Callable[[Block], Op], carried: TileType | None = None, counter: TileType = I32):
    def build(n: Entry) -> Op:
        init = () if carried is None else (n.given(carried),)
        body = Block((Value(counter), *(Value(value.type) for value in init)))
        body.ops.append(end(body))
        low, high, step = n.index(), n.index(), n.index()
        return c.For(lower_bound=low, upper_bound=high, step=step, init_values=init, body=body)

    return build


def _if(then: Op, types: tuple[TileType, ...] = ()) -> Callable[[Entry], Op]:
    return lambda n: c.If(
        condition=n.param(scalar(E.I1)),
        then_body=Block((), [then]),
        else_body=Block((), [c.Return()]),
        types=types,
    )


def _leave_for(n: Entry) -> Op:
    inner = _if(c.Break())(n)
    return _for(lambda body: body.ops.append(inner) or c.Continue())(n)


REFUSED = (
    # elements and shapes
    Refused("mixed types", "`lhs` and `rhs` must have one type", _add(_floats(8), _floats(4))),
    Refused("integer in float op", "`source` must be a tile of f16", _unary(e.Sin, E.I32)),
    Refused("tf32 has no arithmetic", "`source` must be a tile of f16", _unary(e.NegF, E.TF32)),
    Refused("float in integer op", "`source` must be a tile of i1", _unary(e.AbsI, E.F32)),
    Refused(
        "flush in f16", "`flush_to_zero` is for f32", _unary(e.Exp2, E.F16, flush_to_zero=True)
    ),
    Refused(
        "approx in f64",
        "rounding approx is for f32",
        _unary(e.Tanh, E.F64, rounding_mode=Rounding.APPROX),
    ),
    Refused(
        "rounding of a sum",
        "`rounding_mode` must be one of nearest_even, zero, negative_inf, positive_inf, but",
        lambda n: e.AddF(
            lhs=n.given(_floats(8)), rhs=n.given(_floats(8)), rounding_mode=Rounding.FULL
        ),
    ),
    Refused(
        "unsigned floor",
        "an unsigned quotient",
        lambda n: e.DivI(
            lhs=n.index(),
            rhs=n.index(),
            signedness=Signedness.UNSIGNED,
            rounding=Rounding.NEGATIVE_INF,
        ),
    ),
    Refused(
        "negation without unsigned wrap",
        "`overflow` must be one of none, nsw, nw, but is nuw",
        _unary(e.NegI, E.I32, overflow=Overflow.NUW),
    ),
    Refused(
        "choice by numbers",
        "`cond` must be a tile of i1",
        lambda n: e.Select(
            cond=n.given(tile(E.I8, 8)),
            val_if_true=n.given(_floats(8)),
            val_if_false=n.given(_floats(8)),
        ),
    ),
    # conversions
    Refused("shape changes", "`source` and `result` must have one shape",
            _convert(e.FToF, E.F32, tile(E.F16, 4))),
    Refused("bits change", "the result must be equal in bits",
            _convert(e.Bitcast, E.F32, tile(E.I64, 8))),
    Refused("tf32 has 19 bits", "the result must be equal in bits",
            _convert(e.Bitcast, E.TF32, tile(E.I32, 8))),
    Refused("not wider", "the result must be wider", _convert(e.ExtI, E.I32, tile(E.I32, 8))),
    Refused("not narrower", "the result must be narrower",
            _convert(e.TruncI, E.I8, tile(E.I16, 8))),
    Refused("no conversion", "the result has the type", _convert(e.FToF, E.F32, _floats(8))),
    Refused("rounding to f8", "`rounding_mode` must be one of nearest_even, but",
            _convert(e.FToF, E.F32, tile(E.F8E5M2, 8), rounding_mode=Rounding.ZERO)),
    Refused("rounding of a scale", "`rounding_mode` must be one of zero, positive_inf",
            _convert(e.FToF, E.F32, tile(E.F8E8M0FNU, 8))),
    Refused("rounding to f16", "`rounding_mode` must be one of nearest_even, zero, but",
            _convert(e.FToF, E.F32, tile(E.F16, 8), rounding_mode=Rounding.POSITIVE_INF)),
    Refused("integer to scale", "`result` must be a tile of f16",
            _convert(e.IToF, E.I32, tile(E.F8E8M0FNU, 8))),
    # shapes
    Refused("rank grows", "`source` and `result` must have one rank",
            lambda n: s.Broadcast(source=n.given(_floats(8)), to=_floats(8, 8))),
    Refused("extent repeated", "only axes of extent one",
            lambda n: s.Broadcast(source=n.given(_floats(2, 8)), to=_floats(4, 8))),
    Refused("elements appear", "the number of elements",
            lambda n: s.Reshape(source=n.given(_floats(8)), to=_floats(4))),
    Refused("axis twice", "`permutation` (0, 0) does not permute",
            lambda n: s.Permute(source=n.given(_floats(8, 8)), permutation=(0, 0))),
    Refused("rank 1 permuted", "a tile of rank below 2",
            lambda n: s.Permute(source=n.given(_floats(8)), permutation=(0,))),
    Refused("other axes differ", "the tiles must agree but on axis 0",
            lambda n: s.Cat(lhs=n.given(_floats(4, 8)), rhs=n.given(_floats(4, 4)), dim=0)),
    Refused("three joined to one", "every extent of a tile is a power of two",
            lambda n: s.Cat(lhs=n.given(_floats(8)), rhs=n.given(_floats(4)), dim=0)),
    Refused("too few indices", "2 indices are needed",
            lambda n: s.Extract(source=n.given(_floats(4, 8)), indices=(n.index(),),
                                to=_floats(2, 8))),
    Refused("part too large", "tile<16xf32> does not divide tile<8xf32>",
            lambda n: s.Extract(source=n.given(_floats(8)), indices=(n.index(),), to=_floats(16))),
    Refused("counting beyond", "i8 cannot count to 512", lambda n: s.Iota(to=tile(E.I8, 512))),
    Refused("counting on two axes", "the result must have one axis",
            lambda n: s.Iota(to=tile(E.I32, 2, 2))),
    Refused("constant of i4", "`result` must be a tile of i1",
            lambda n: s.Constant(value=1, to=tile(E.I4, 8))),
    # types
    Refused("not a power of two", "every extent of a tile is a power of two",
            lambda n: s.Constant(value=0.0, to=_floats(12))),
    Refused("too many elements", "tile<8192x4096xf32> has 33554432 elements",
            lambda n: s.Constant(value=0.0, to=_floats(8192, 4096))),
    Refused("half a byte", "numbers of 4 bits come in pairs",
            lambda n: s.Constant(value=0.0, to=tile(E.F4E2M1FN))),
    # memory
    Refused("one token", "two or more tokens",
            lambda n: m.JoinTokens(tokens=(n.add(m.MakeToken()).result,))),
    Refused("joined numbers", "`tokens` must be a token",
            lambda n: m.JoinTokens(tokens=(n.index(), n.index()))),
    Refused("extent missing", "1 dynamic extents are needed", _tensor_view(dynamic_shape=())),
    Refused("stride too many", "0 dynamic strides are needed",
            _tensor_view(dynamic_strides=lambda n: (n.index(),))),
    Refused("extents of two widths", "`dynamic_shape` and `dynamic_strides` must have one type",
            _tensor_view(to=TensorViewType(E.F16, (None,), (None,)),
                         dynamic_strides=lambda n: (n.param(scalar(E.I64)),))),
    Refused("other pointee", "`base` points to f16, but the view holds f32",
            _tensor_view(to=TensorViewType(E.F32, (None,), (1,)))),
    Refused("stride zero", "static extents and strides are above zero",
            _tensor_view(to=TensorViewType(E.F16, (None,), (0,)))),
    Refused("tile of three", "every extent of a tile", _partition((3,))),
    Refused("rank of the tile", "the tile of", _partition((8, 8), (0, 1))),
    Refused("dim_map", "`dim_map` of", _partition((8,), (1,))),
    Refused("nan in integers", "only zero can pad integers", _partition((8,), padding=Padding.NAN)),
    Refused("weak with scope", "a weak access has no `memory_scope`",
            _load(memory_scope=MemoryScope.SYS)),
    Refused("relaxed without scope", "a weak access has no `memory_scope`",
            _load(memory_ordering=MemoryOrder.RELAXED)),
    Refused("releasing load", "`memory_ordering` must be one of weak, relaxed, acquire",
            _load(memory_ordering=MemoryOrder.RELEASE, memory_scope=MemoryScope.SYS)),
    Refused("promises for one of none", "`inbounds` must say something of each of 1",
            _load(inbounds=(True, True))),
    Refused("inbounds and padding", "`inbounds` does not go with a padded view", _padded_inbounds,
            ours_only=True),
    Refused("patience", "a latency hint is 1 to 10, but this is 99",
            _load(hints=TargetHints.of(latency=99)), ours_only=True),
    Refused("indices of a view", "1 indices are needed",
            lambda n: m.LoadView(view=n.view(E.F32, 8), index=(n.index(), n.index()))),
    Refused("stored tile", "`tile` must be tile<8xf32>",
            lambda n: m.StoreView(tile=n.given(_floats(4)), view=n.view(E.F32, 8),
                                  index=(n.index(),))),
    Refused("mask of another shape", "`source` and `mask` must have one shape",
            lambda n: m.LoadPtr(source=n.pointers(E.F32, (8,)), mask=n.given(tile(E.I1, 4)))),
    Refused("value of another element", "`destination` points to f32, but `value`",
            lambda n: m.StorePtr(destination=n.pointers(E.F32, (8,)),
                                 value=n.given(tile(E.I32, 8)))),
    Refused("atomic sum of i8", "`add` cannot be done atomically on i8",
            _rmw(E.I8, AtomicMode.ADD)),
    Refused("atomic sum of integers as floats", "`addf` cannot be done atomically on i32",
            _rmw(E.I32, AtomicMode.ADDF)),
    Refused("weak atomic", "`memory_ordering` must be one of relaxed",
            _rmw(E.I32, AtomicMode.ADD, memory_ordering=MemoryOrder.WEAK)),
    Refused("swap of halves", "only numbers of 32 or 64 bits",
            lambda n: m.AtomicCas(pointers=n.pointers(E.F16), cmp=n.given(tile(E.F16)),
                                  val=n.given(tile(E.F16)))),
    # products and reductions
    Refused("bf16 summed in f16", "products of bf16 are summed in f32, not in f16",
            _mma(tile(E.BF16, 8, 8), tile(E.BF16, 8, 8), tile(E.F16, 8, 8))),
    Refused("inner extents", "tile<8x8xf16> times tile<4x8xf16>",
            _mma(tile(E.F16, 8, 8), tile(E.F16, 4, 8), tile(E.F32, 8, 8))),
    Refused("rank of a product", "the operands must all have rank 2",
            _mma(tile(E.F16, 8), tile(E.F16, 8), tile(E.F32, 8))),
    Refused("axis of a sum", "tile<8x4xi32> has no axis 2", _reduce(dim=2)),
    Refused("identities", "1 identities are needed", _reduce(identities=())),
    Refused("identity of i64", "the identity of tile<8x4xi32> is one of i64",
            _reduce(identities=(IntIdentity(E.I64, 0),))),
    Refused("body of i64", "the body must take (tile<i32>, tile<i32>)", _reduce(body=_wide_body)),
    Refused("load in a sum", "`load_ptr_tko` is not pure", _reduce(body=_impure_body)),
    # promises
    Refused("divisor 12", "the divisor must be a power of two", _assume(I32, DivBy(12))),
    Refused("float divisible", "divisibility is promised for integers",
            _assume(_floats(), DivBy(8))),
    Refused("bounds backwards", "no number lies between 5 and 1", _assume(I32, Bounded(5, 1))),
    Refused("bounds too wide", "the bounds 0 and 2147483648 do not fit i32",
            _assume(I32, Bounded(0, 2**31))),
    # regions
    Refused("counter of i64", "the body's first argument must be the counter",
            _for(lambda _: c.Continue(), counter=scalar(E.I64))),
    Refused("nothing handed on", "it hands on (), but the loop carries (tile<i32>)",
            _for(lambda _: c.Continue(), carried=I32)),
    Refused("for ends in return", "a block must end in `continue`", _for(lambda _: c.Return())),
    Refused("break in for", "it can only leave a `loop`", _leave_for),
    Refused("yield without values", "the then branch gives ()", _if(c.Yield(), (I32,))),
    Refused("returned values", "an entry gives no values",
            lambda n: _if(c.Return(values=(n.index(),)))(n)),
)  # fmt: skip
