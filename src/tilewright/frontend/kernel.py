"""The front end's entry: a captured kernel and a specialisation in, unchecked IR out."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from typing import Any

from tilewright.diagnostics import Rejected, compile_error
from tilewright.dtypes import DType, Element, i32
from tilewright.frontend.control.frames import Frame
from tilewright.frontend.control.sequences import statements
from tilewright.frontend.control.statements import STATEMENTS
from tilewright.frontend.expressions.expressions import EXPRESSIONS
from tilewright.frontend.lowering import Abandoned, Lowering, Rules
from tilewright.frontend.memory.grid import make_grid, piece_index
from tilewright.frontend.memory.segment_pieces import segmented_piece
from tilewright.frontend.operands.operands import (
    AccumOperand,
    DTypeOperand,
    MappedOperand,
    Operand,
    PieceOperand,
    PointerOperand,
    RecordOperand,
    RefOperand,
    Static,
    TileOperand,
    TupleOperand,
)
from tilewright.frontend.operands.tiles import check_dtype
from tilewright.frontend.signature.extents import fixed_extent
from tilewright.frontend.signature.signature import (
    AccumParam,
    GroupParam,
    MappedParam,
    MutParam,
    RefParam,
    ScalarParam,
    Signature,
    TensorParam,
)
from tilewright.frontend.signature.specialization import (
    NamedConstant,
    Specialization,
    TensorSpecialization,
    describe,
    offsets_name,
)
from tilewright.frontend.source.capture import SourceFunction
from tilewright.frontend.source.captured_values import captured
from tilewright.frontend.source.captures import Captures
from tilewright.frontend.source.refusals import REFUSALS
from tilewright.ir.function import Function
from tilewright.ir.inspections import Observer
from tilewright.ir.launch_terms import (
    BaseAddress,
    Extent,
    PointerArgument,
    ScalarArgument,
    Stride,
)
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import Return
from tilewright.ir.ops.elementwise import ExtI
from tilewright.ir.ops.internal import LaunchValue
from tilewright.ir.ops.memory import MakeTensorView
from tilewright.ir.types import PtrType, TensorViewType, scalar

__all__ = ["lower_kernel"]

_RULES = Rules(STATEMENTS, EXPRESSIONS, REFUSALS)


def lower_kernel(
    source: SourceFunction,
    signature: Signature,
    specialization: Specialization,
    observer: Observer | None = None,
) -> tuple[Function, Captures]:
    """Lower a kernel for one specialisation; raises `CompileError` with all problems found.

    Returns the captured values as well: the function is valid while they are current. An observer
    sees every tile that gets a name.
    """
    lo = Lowering(signature, specialization, _RULES, Frame(source, {}), observer=observer)
    node = source.node
    try:
        lo.frame.scope.update(_parameters(lo, node))
    except Rejected as rejected:
        raise compile_error([rejected.problem], describe(signature, specialization)) from None
    try:
        statements(lo, node.body)
    except Abandoned as abandoned:
        lo.problems.append(abandoned.problem)
    if lo.problems:
        raise compile_error(lo.problems, describe(signature, specialization))
    if lo.frame.left is None:
        lo.body.ops.append(Return())
    body = Block((), [*lo.prologue.ops, *lo.body.ops])
    return Function(signature.kernel, body, specialization.hints.hints()), lo.captures


def _constant(lo: Lowering, node: ast.FunctionDef, name: str, value: Any) -> Operand:
    """A compile-time value of the specialisation."""
    if isinstance(value, NamedConstant):
        lo.captures.constant(lo.frame.source.plain(), name, value.value)
        return captured(lo, _annotation(node, name), name, value.value)
    plain = float(value) if isinstance(value, float) else value
    return DTypeOperand(value) if isinstance(value, type) else Static(plain)


def _parameters(lo: Lowering, node: ast.FunctionDef) -> dict[str, Operand]:
    """Operands of the names in the signature: parameters and dims."""
    signature, specialization = lo.signature, lo.specialization
    scope: dict[str, Operand] = {}
    for name, value in specialization.constants:
        scope[name] = _constant(lo, node, name, value)
    with lo.builder.inside(lo.prologue):
        lo.grid = make_grid(lo)
    for param, spec in zip(signature.tensors, specialization.tensors, strict=True):
        with lo.builder.inside(lo.prologue):
            check_dtype(lo, _annotation(node, param.name), spec.dtype)
            scope[param.name] = _tensor(lo, param, spec)
    dtypes = iter(specialization.scalars)
    scope.update((param.name, _numbers(lo, param, dtypes)) for param in signature.numbers)
    for name, placeholder in signature.placeholders.items():
        scope.setdefault(name, DTypeOperand(lo.placeholders[placeholder]))
    for pointer, pointed in zip(signature.pointers, specialization.pointers, strict=True):
        check_dtype(lo, _annotation(node, pointer.name), pointed.dtype)
        address = LaunchValue(
            term=PointerArgument(pointer.name), to=scalar(PtrType(pointed.dtype.element))
        )
        with lo.builder.inside(lo.prologue):
            value = lo.builder.add(address).result
        value.hint = pointer.name
        scope[pointer.name] = PointerOperand(value, pointed.dtype)
    for dim, (param_name, axis) in signature.homes.items():
        value = lo.launch_value(Extent(param_name, axis))
        value.hint = dim
        scope.setdefault(dim, TileOperand(value, i32))
    return scope


def _numbers(
    lo: Lowering, param: ScalarParam | GroupParam, dtypes: Iterator[type[DType]]
) -> Operand:
    """A scalar, or a group of them; `dtypes` are those of the numbers, in order."""
    if isinstance(param, ScalarParam):
        dtype = next(dtypes)
        value = lo.launch_value(ScalarArgument(param.name), dtype.element)
        value.dtype, value.hint = dtype, param.name
        return TileOperand(value, dtype)
    items = tuple(_numbers(lo, member, dtypes) for member in param.members)
    if dataclasses.is_dataclass(param.kind):
        return RecordOperand(items, param.kind)
    return TupleOperand(items, None if param.kind is tuple else param.kind)


def _annotation(node: ast.FunctionDef, name: str) -> ast.AST:
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    return next(argument for argument in arguments if argument.arg == name)


def _tensor(lo: Lowering, param: TensorParam, spec: TensorSpecialization) -> Operand:
    view = _tensor_view(lo, param, spec)
    if isinstance(param, RefParam):
        return RefOperand(param.name, spec, view, param.rank)
    if isinstance(param, AccumParam):
        return AccumOperand(param.name, spec, view, param.rank)
    if isinstance(param, MappedParam):
        return MappedOperand(param.name, spec, view, param.rank)
    assert isinstance(param, MutParam)
    piece = PieceOperand(param.name, spec, view, param.rank, piece_index(lo, spec))
    if spec.segments is None:
        return piece
    offsets = RefParam(offsets_name(param.name), spec.segments.dtype, (offsets_name("rows"),))
    offsets_view = _tensor_view(lo, offsets, spec.segments)
    return segmented_piece(lo, piece, RefOperand(offsets.name, spec.segments, offsets_view, 1))


def _tensor_view(lo: Lowering, param: TensorParam, spec: TensorSpecialization) -> Value:
    """The whole tensor, with fixed extents and unit strides in its type."""
    shape = tuple(fixed_extent(lo, param, axis) for axis in range(param.rank))
    strides = tuple(1 if unit else None for unit in spec.unit_strides)
    element = Element.I64 if spec.wide else Element.I32
    pointer = LaunchValue(term=BaseAddress(param.name), to=scalar(PtrType(spec.dtype.element)))
    view = MakeTensorView(
        base=lo.builder.add(pointer).result,
        dynamic_shape=tuple(
            _extent(lo, param, axis, spec.wide)
            for axis, extent in enumerate(shape)
            if extent is None
        ),
        dynamic_strides=tuple(
            lo.launch_value(Stride(param.name, axis), element)
            for axis, stride in enumerate(strides)
            if stride is None
        ),
        to=TensorViewType(spec.dtype.element, shape, strides),
    )
    return lo.builder.add(view).result


def _extent(lo: Lowering, param: TensorParam, axis: int, wide: bool) -> Value:
    extent = lo.launch_value(Extent(param.name, axis))
    if not wide:
        return extent
    return lo.builder.add(ExtI(source=extent, to=scalar(Element.I64))).result
