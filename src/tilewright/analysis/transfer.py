"""Transfer functions of scalar ops, on terms and conditions.

A rule gives a term that equals the result modulo the width of its type; `Dataflow.define` then
wraps it to the type. Sums and products are built from operands without their wraps, since only the
low bits count there; all other ops take operands as the machine reads them, signed or unsigned.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.analysis.arithmetic import (
    greatest,
    held,
    known,
    least,
    nonzero,
    product,
    quotient,
    remainder,
    unheld,
)
from tilewright.analysis.dataflow import Dataflow, Rule, machine_type, not_followed
from tilewright.analysis.formulas import FALSE, OPAQUE, TRUE, all_of, any_of, compare
from tilewright.analysis.intervals import Interval, MachineType
from tilewright.analysis.obligations import (
    bounds_check,
    divisor_check,
    not_empty,
    require,
    step_check,
)
from tilewright.analysis.terms import Linear, Origin, number
from tilewright.ir.attributes import Bounded, Rounding, Signedness
from tilewright.ir.launch_terms import Blocks
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.control import Assume, GetNumTileBlocks, GetTileBlockId
from tilewright.ir.ops.elementwise import (
    AbsI,
    AddI,
    AndI,
    CmpI,
    DivI,
    ExtI,
    MaxI,
    MinI,
    MulI,
    NegI,
    OrI,
    RemI,
    ShLI,
    ShRI,
    SubI,
    TruncI,
    XOrI,
)
from tilewright.ir.ops.families import Binary, SignedBinary
from tilewright.ir.ops.internal import (
    Assumption,
    BlockIndex,
    BoundsCheck,
    CeilDiv,
    DivisorCheck,
    FloorDiv,
    FloorMod,
    LaunchValue,
    NotEmpty,
    PartIndex,
    ReadAs,
    Require,
    StepCheck,
)
from tilewright.ir.ops.memory import LoadPtr, LoadView
from tilewright.ir.ops.shape import Broadcast, Constant, Reshape

__all__ = ["SCALAR_RULES"]

_FACTORS = 64  # pairs of atoms of the largest product that is multiplied out
_Terms = Callable[[Linear, Linear], Linear]


def _type(value: Value) -> MachineType:
    type_ = machine_type(value)
    assert type_ is not None
    return type_


def _read(flow: Dataflow, value: Value, signed: bool) -> Linear:
    """A value as an op reads its bits."""
    type_ = _type(value)
    term = flow.term(value)
    return term if type_.signed == signed else held(term, MachineType(type_.bits, signed))


def _signed(op: SignedBinary | CmpI | ExtI) -> bool:
    return op.signedness is Signedness.SIGNED


def _scalars_only(rule: Rule) -> Rule:
    """A transfer function that ignores tiles."""

    def apply(flow: Dataflow, op: Op) -> None:
        if machine_type(op.results[0]) is not None:
            rule(flow, op)
        elif any(flow.is_from_memory(value) for value in op.operands):
            flow.mark_from_memory(op.results[0])

    return apply


# --- values that need no computation -------------------------------------------------------------


def _any_constant(flow: Dataflow, op: Constant) -> None:
    if machine_type(op.result) is not None:
        _constant(flow, op)
    elif isinstance(op.value, int):
        flow.splats[op.result] = number(op.value)


def _spread(flow: Dataflow, op: Broadcast | Reshape) -> None:
    """A tile that repeats the elements of a smaller one, or a scalar."""
    source = op.source
    if machine_type(op.result) is not None:
        not_followed(flow, op)
    elif machine_type(source) is not None:
        flow.splats[op.result] = flow.term(source)
    elif source in flow.splats:
        flow.splats[op.result] = flow.splats[source]
    if flow.is_from_memory(source):
        flow.mark_from_memory(op.result)


def _constant(flow: Dataflow, op: Constant) -> None:
    type_ = _type(op.result)
    value = int(op.value)
    flow.define(op.result, number(value))
    if type_.bits == 1:
        flow.formulas[op.result] = TRUE if value else FALSE


def _launch_value(flow: Dataflow, op: LaunchValue) -> None:
    flow.define(op.result, known(op.known_as or op.term, _type(op.result)))


def _block_index(flow: Dataflow, op: BlockIndex) -> None:
    counts = tuple(flow.term(value) for value in op.counts)
    _define_place(flow, counts, op.indices)


def _block_id(flow: Dataflow, op: GetTileBlockId) -> None:
    _define_place(flow, (known(Blocks()),), (op.x,))
    for value in (op.y, op.z):
        flow.define_fresh(value, Origin.COMPUTED, (number(0),))


def _num_blocks(flow: Dataflow, op: GetNumTileBlocks) -> None:
    flow.define(op.x, known(Blocks()))
    for value in (op.y, op.z):
        flow.define_fresh(value, Origin.COMPUTED, (number(1),))


def _define_place(flow: Dataflow, counts: tuple[Linear, ...], indices: tuple[Value, ...]) -> None:
    """Define a block's place in the grid: a block that runs is in a non-empty grid."""
    place = flow.blocks.get(counts)
    if place is None:
        zero = (number(0),)
        place = flow.blocks[counts] = tuple(
            flow.fresh(value, Origin.BLOCK, zero, (count - 1,))
            for value, count in zip(indices, counts, strict=True)
        )
        flow.root.add(*(count - 1 for count in counts))
    for value, variable in zip(indices, place, strict=True):
        flow.terms[value] = Linear.of(variable)


# --- arithmetic ----------------------------------------------------------------------------------


def _ring(compute: _Terms) -> Rule:
    def apply(flow: Dataflow, op: Binary) -> None:
        bits = _type(op.result).bits
        left, right = (unheld(flow.term(value), bits) for value in (op.lhs, op.rhs))
        flow.define(op.result, compute(left, right))

    return apply


def _multiply(flow: Dataflow, op: MulI) -> None:
    type_ = _type(op.result)
    left, right = (unheld(flow.term(value), type_.bits) for value in (op.lhs, op.rhs))
    if len(left.coefficients) * len(right.coefficients) <= _FACTORS:
        flow.define(op.result, product(left, right))
    else:
        flow.define_range(op.result, type_.hold(left.range * right.range))


def _negate(flow: Dataflow, op: NegI) -> None:
    flow.define(op.result, -unheld(flow.term(op.source), _type(op.result).bits))


def _magnitude(flow: Dataflow, op: AbsI) -> None:
    term = _read(flow, op.source, signed=True)
    flow.define(op.result, greatest((term, -term)))


def _signed_binary(compute: _Terms) -> Rule:
    def apply(flow: Dataflow, op: SignedBinary) -> None:
        left, right = (_read(flow, value, _signed(op)) for value in (op.lhs, op.rhs))
        flow.define(op.result, compute(left, right))

    return apply


def _divided(compute: _Terms) -> Rule:
    def apply(flow: Dataflow, op: CeilDiv | FloorDiv | FloorMod) -> None:
        signed = _type(op.lhs).signed
        left, right = (_read(flow, value, signed) for value in (op.lhs, op.rhs))
        flow.define(op.result, compute(left, nonzero(right)))

    return apply


def _divide(flow: Dataflow, op: DivI) -> None:
    left, right = (_read(flow, value, _signed(op)) for value in (op.lhs, op.rhs))
    if not _is_never_zero(right):
        flow.define_fresh(op.result, Origin.COMPUTED)
    elif op.rounding is Rounding.NEGATIVE_INF:
        flow.define(op.result, quotient(left, right))
    elif op.rounding is Rounding.POSITIVE_INF:
        flow.define(op.result, _quotient_up(left, right))
    elif flow.scope.proves(left) and right.range.low > 0:
        flow.define(op.result, quotient(left, right))
    else:
        flow.define_fresh(op.result, Origin.COMPUTED)


def _quotient_up(left: Linear, right: Linear) -> Linear:
    return -quotient(-left, right)


def _truncated_remainder(flow: Dataflow, op: RemI) -> None:
    left, right = (_read(flow, value, _signed(op)) for value in (op.lhs, op.rhs))
    if right.range.low > 0 and flow.scope.proves(left):
        flow.define(op.result, remainder(left, right))
    else:
        flow.define_fresh(op.result, Origin.COMPUTED)


def _is_never_zero(term: Linear) -> bool:
    return term.range.low > 0 or term.range.high < 0


def _shift_up(flow: Dataflow, op: ShLI) -> None:
    bits = _type(op.result).bits
    shift = flow.term(op.rhs)
    if shift.is_constant and 0 <= shift.constant < bits:
        flow.define(op.result, unheld(flow.term(op.lhs), bits).times(1 << shift.constant))
    else:
        flow.define_fresh(op.result, Origin.COMPUTED)


def _shift_down(flow: Dataflow, op: ShRI) -> None:
    shift = flow.term(op.rhs)
    if shift.is_constant and 0 <= shift.constant < _type(op.result).bits:
        left = _read(flow, op.lhs, _signed(op))
        flow.define(op.result, quotient(left, number(1 << shift.constant)))
    else:
        flow.define_fresh(op.result, Origin.COMPUTED)


# --- bits and truth ------------------------------------------------------------------------------


def _and(flow: Dataflow, op: AndI) -> None:
    type_ = _type(op.result)
    if type_.bits == 1:
        flow.formulas[op.result] = all_of(flow.formula(op.lhs), flow.formula(op.rhs))
        return
    terms = [flow.term(op.lhs), flow.term(op.rhs)]
    for mask, other in (terms, terms[::-1]):
        if mask.is_constant and mask.constant >= 0 and (mask.constant + 1).bit_count() == 1:
            flow.define(op.result, remainder(unheld(other, type_.bits), number(mask.constant + 1)))
            return
    # An operand whose sign bit is clear under either reading bounds the result.
    plain = Interval(0, type_.interval.high)
    uppers = [term for term in terms if plain.contains(term.range)]
    flow.define_fresh(op.result, Origin.COMPUTED, [number(0)] if uppers else [], uppers)


def _or(flow: Dataflow, op: OrI) -> None:
    if _type(op.result).bits == 1:
        flow.formulas[op.result] = any_of(flow.formula(op.lhs), flow.formula(op.rhs))
    else:
        _mix_bits(flow, op)


def _exclusive_or(flow: Dataflow, op: XOrI) -> None:
    if _type(op.result).bits > 1:
        _mix_bits(flow, op)
        return
    left, right = flow.formula(op.lhs), flow.formula(op.rhs)
    if TRUE in (left, right):
        flow.formulas[op.result] = (right if left == TRUE else left).negated()
    else:
        flow.formulas[op.result] = OPAQUE


def _mix_bits(flow: Dataflow, op: OrI | XOrI) -> None:
    """No bit is set above the highest bit of two non-negative numbers."""
    ranges = [flow.term(value).range for value in (op.lhs, op.rhs)]
    limit = (1 << max(found.high for found in ranges).bit_length()) - 1
    if min(found.low for found in ranges) < 0 or limit > _type(op.result).interval.high:
        flow.define_fresh(op.result, Origin.COMPUTED)
    else:
        flow.define_fresh(op.result, Origin.COMPUTED, (number(0),), (number(limit),))


def _compare(flow: Dataflow, op: CmpI) -> None:
    if machine_type(op.lhs) is not None:
        left, right = (_read(flow, value, _signed(op)) for value in (op.lhs, op.rhs))
        flow.formulas[op.result] = compare(op.comparison_predicate, left, right)


# --- conversion ----------------------------------------------------------------------------------


def _widen(flow: Dataflow, op: ExtI) -> None:
    if _type(op.source).bits == 1:
        bit = (number(0), number(1)) if not _signed(op) else (number(-1), number(0))
        flow.define_fresh(op.result, Origin.COMPUTED, bit[:1], bit[1:])
    else:
        flow.define(op.result, _read(flow, op.source, _signed(op)))


def _cut(flow: Dataflow, op: TruncI | ReadAs) -> None:
    bits = _type(op.result).bits
    flow.define(op.result, unheld(flow.term(op.source), bits))


def _promise(flow: Dataflow, op: Assume) -> None:
    term = flow.term(op.value)
    flow.define(op.result, term)
    if isinstance(op.predicate, Bounded):
        lower, upper = op.predicate.lower, op.predicate.upper
        flow.narrow(() if lower is None else (term - lower,))
        flow.narrow(() if upper is None else (-term + upper,))


def _assumption(flow: Dataflow, op: Assumption) -> None:
    """A promise is a fact from here on; it proves no earlier check."""
    flow.narrow(flow.formula(op.condition).facts())


# --- loads and checks ----------------------------------------------------------------------------


def _load(flow: Dataflow, op: LoadView | LoadPtr) -> None:
    flow.loads[op] = flow.scope
    not_followed(flow, op)


def _part_index(flow: Dataflow, op: PartIndex) -> None:
    flow.define(op.result, flow.term(op.piece).times(op.parts) + flow.term(op.own))


# Transfer functions of scalar ops.
SCALAR_RULES: dict[type[Op], Rule] = {
    AbsI: _scalars_only(_magnitude),
    AddI: _scalars_only(_ring(lambda a, b: a + b)),
    AndI: _scalars_only(_and),
    Assume: _scalars_only(_promise),
    Assumption: _assumption,
    BlockIndex: _block_index,
    BoundsCheck: bounds_check,
    Broadcast: _spread,
    CeilDiv: _scalars_only(_divided(_quotient_up)),
    CmpI: _scalars_only(_compare),
    Constant: _any_constant,
    DivI: _scalars_only(_divide),
    DivisorCheck: divisor_check,
    ExtI: _scalars_only(_widen),
    FloorDiv: _scalars_only(_divided(quotient)),
    FloorMod: _scalars_only(_divided(remainder)),
    GetNumTileBlocks: _num_blocks,
    GetTileBlockId: _block_id,
    LaunchValue: _scalars_only(_launch_value),
    LoadPtr: _load,
    LoadView: _load,
    MaxI: _scalars_only(_signed_binary(lambda a, b: greatest((a, b)))),
    MinI: _scalars_only(_signed_binary(lambda a, b: least((a, b)))),
    MulI: _scalars_only(_multiply),
    NegI: _scalars_only(_negate),
    OrI: _scalars_only(_or),
    PartIndex: _part_index,
    ReadAs: _scalars_only(_cut),
    RemI: _scalars_only(_truncated_remainder),
    NotEmpty: not_empty,
    Require: require,
    StepCheck: step_check,
    Reshape: _spread,
    ShLI: _scalars_only(_shift_up),
    ShRI: _scalars_only(_shift_down),
    SubI: _scalars_only(_ring(lambda a, b: a - b)),
    TruncI: _scalars_only(_cut),
    XOrI: _scalars_only(_exclusive_or),
}
