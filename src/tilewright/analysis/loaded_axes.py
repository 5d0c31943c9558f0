"""Reaches of loads: along which axes a load may leave its tensor, and when it does.

The elements along an axis begin at a term of the launch and of the loops around: `step*index` for a
tile, `step*index + start` for a shifted window, any index tile for a gather. Padding stands before
the axis where that is below zero, and behind it where its end lies beyond the extent; a mask has
padding wherever it is false. The launch evaluates these bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from tilewright.analysis.arithmetic import greatest, least
from tilewright.analysis.dataflow import Dataflow
from tilewright.analysis.element_terms import ElementTerms
from tilewright.analysis.formulas import compare
from tilewright.analysis.padding_facts import Reach, ReachBound, Side
from tilewright.analysis.terms import Linear, Origin, number
from tilewright.analysis.variation import Variation, shape_of, spread_axes
from tilewright.dtypes import Element
from tilewright.ir.attributes import Predicate, Signedness
from tilewright.ir.launch_terms import BaseAddress, PointerArgument
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.elementwise import AndI, CmpI
from tilewright.ir.ops.families import Conversion
from tilewright.ir.ops.internal import BoundsCheck, LaunchValue
from tilewright.ir.ops.memory import (
    LoadPtr,
    LoadView,
    MakePartitionView,
    MakeTensorView,
    Offset,
)
from tilewright.ir.ops.shape import Broadcast, Constant, Reshape
from tilewright.ir.ops.views import MakeStridedView
from tilewright.ir.rewrite import Definition
from tilewright.ir.types import PartitionViewType, StridedViewType, scalar

__all__ = ["LoadedAxes"]

_Placed = tuple[frozenset[int], Reach]  # a reach, and the axes of the tile that it lies along


class LoadedAxes:
    """The reaches of the loads of one function; each load is looked at once."""

    def __init__(
        self, made: Mapping[Value, Definition], flow: Dataflow, variation: Variation
    ) -> None:
        self._made = made
        self._flow = flow
        self.variation = variation
        self._elements = ElementTerms(made, flow)
        self._found: dict[Op, tuple[_Placed, ...]] = {}
        self._truths: dict[Value, Linear] = {}
        self._ranks = {
            param: tensor.to.rank
            for tensor in {definition.op for definition in made.values()}
            if isinstance(tensor, MakeTensorView) and (param := self._param(tensor.base))
        }
        has_segments = not all(param.isidentifier() for param in self._ranks)
        self._mask = "a mask or the end of a segment" if has_segments else "a mask"

    def of(self, op: LoadView | LoadPtr) -> tuple[_Placed, ...]:
        """Every reach of a load."""
        found = self._found.get(op)
        if found is None:
            reaches = self._cut(op) if isinstance(op, LoadView) else self._gathered(op)
            found = self._found[op] = tuple(reaches)
        return found

    def premises(self, op: LoadView | LoadPtr) -> frozenset[Linear]:
        """Facts, evaluable at launch, under which a load is reached."""
        scope = self._flow.loads.get(op)
        facts = () if scope is None else scope.facts
        return frozenset(fact for fact in facts if fact.is_evaluable)

    # --- tiles and windows ---

    def _cut(self, op: LoadView) -> Iterator[_Placed]:
        type_, view = op.view.type, self._made_by(op.view)
        if not isinstance(type_, PartitionViewType | StridedViewType) or type_.padding is None:
            return
        assert isinstance(view, MakePartitionView | MakeStridedView)
        tensor = self._made_by(view.tensor_view)
        param = self._param(tensor.base) if isinstance(tensor, MakeTensorView) else None
        if not isinstance(tensor, MakeTensorView) or param is None:
            return
        steps = type_.traversal_strides if isinstance(type_, StridedViewType) else type_.tile
        for axis, (size, step) in enumerate(zip(type_.tile, steps, strict=True)):
            if size > 1:  # a single element lies inside, since its index does
                along = type_.dim_map[axis]
                extent = self._extent(tensor, along)
                index = self._index(op.index[axis])
                if index is None:
                    continue
                begin = index.times(step)
                beyond = f"which tiles of {size} do not divide"
                if step != size:
                    beyond = f"beyond which a window of {size}, one every {step}, reaches"
                behind = ReachBound(extent - begin - size, Side.BEHIND, beyond)
                yield frozenset((axis,)), Reach((behind,), param, along, extent, size)

    def _extent(self, tensor: MakeTensorView, axis: int) -> Linear:
        shape = tensor.to.shape
        fixed = shape[axis]
        if fixed is not None:
            return number(fixed)
        dynamic = sum(extent is None for extent in shape[:axis])
        return self._flow.term(tensor.dynamic_shape[dynamic])

    def _index(self, value: Value) -> Linear | None:
        """An index as the load has it: one that stays to be checked in the kernel is clamped.

        None is a counter of a loop whose range the launch does not know: it may leave out the last
        tile on purpose.
        """
        made = self._made_by(value)
        while isinstance(made, Conversion):
            value = made.source
            made = self._made_by(value)
        if not isinstance(made, BoundsCheck):
            return self._flow.term(value)
        obligation = self._flow.obligations.get(made)
        if obligation is None:
            return self._flow.term(value)
        index = obligation.subject
        if index.is_evaluable:
            return index
        if any(variable.origin.is_attained for variable in index.variables()):
            return None
        return greatest((number(0), least((index, self._flow.term(made.count) - 1))))

    # --- elements ---

    def _gathered(self, op: LoadPtr) -> Iterator[_Placed]:
        param = self._param(op.source)
        # Hidden arguments are read by helpers of the front end, where all padding is neutral.
        if op.mask is None or param is None or not param.isidentifier():
            return
        places = {axis: (axis,) for axis in range(len(shape_of(op.result)))}
        conjuncts = [*self._conjuncts(op.mask, places)]
        reaches = [*self._insides([value for value, _ in conjuncts], param)]
        known = {bound for reach in reaches if reach is not None for bound in reach.bounds}
        masked: set[int] = set()
        for (value, axes), inside in zip(conjuncts, reaches, strict=True):
            reach = inside
            if reach is None:
                bounds = _open(one for one in self._masked(value, param) if one not in known)
                reach = Reach(bounds, param, None, None)
                masked |= axes
            # Where the launch does not know the indices, a mask along the axis says enough.
            is_told = inside is not None and not _is_evaluable(inside) and axes <= masked
            if axes and reach.bounds and not is_told:
                yield axes, reach

    def _insides(self, conditions: list[Value], param: str) -> Iterator[Reach | None]:
        """The reach of each condition that compares an index with its extent.

        Those are the last of a gather's conditions, one for each axis of the tensor.
        """
        rank = self._ranks.get(param, 0)
        for place, condition in enumerate(conditions, rank - len(conditions)):
            made = self._made_by(condition)
            is_inside = place >= 0 and isinstance(made, CmpI) and _is_inside(made)
            if is_inside and isinstance(made, CmpI):
                yield self._inside(made, param, place)
            else:
                yield None

    def _conjuncts(
        self, mask: Value, places: Mapping[int, tuple[int, ...]]
    ) -> Iterator[tuple[Value, frozenset[int]]]:
        """The conditions of a mask, each with the axes of the load along which it differs."""
        made = self._made_by(mask)
        if isinstance(made, Broadcast):
            yield from self._conjuncts(made.source, places)
        elif isinstance(made, Reshape):
            moves = spread_axes(shape_of(made.source), shape_of(mask))
            inner = {
                axis: tuple(chain.from_iterable(places.get(one, ()) for one in moved))
                for axis, moved in moves.items()
            }
            yield from self._conjuncts(made.source, inner)
        elif isinstance(made, AndI):
            yield from self._conjuncts(made.lhs, places)
            yield from self._conjuncts(made.rhs, places)
        elif not (isinstance(made, Constant) and made.value):
            varying = self.variation.of(mask).axes
            yield mask, frozenset(chain.from_iterable(places.get(one, ()) for one in varying))

    def _inside(self, made: CmpI, param: str, axis: int) -> Reach:
        """The reach of an index tile along an axis: neighbours, or any elements."""
        element, extent = self._elements.of(made.lhs), self._elements.of(made.rhs)
        position = self._elements.position(element)
        if position is None or position[1] != 1:
            beyond = "outside of which elements are gathered"
            goals = (element, extent - 1 - element)
            return Reach(
                _open(ReachBound(g, Side.ANYWHERE, beyond) for g in goals), param, axis, extent
            )
        variable, _ = position
        size, begin = variable.range.high + 1, element.without(variable)
        bounds = (
            ReachBound(begin, Side.FRONT, f"before which tiles of {size} begin"),
            ReachBound(extent - begin - size, Side.BEHIND, f"beyond which tiles of {size} reach"),
        )
        return Reach(_open(bounds), param, axis, extent, size)

    def _masked(self, condition: Value, param: str) -> Iterator[ReachBound]:
        """The bounds of a condition: a comparison of integers, or a truth that is not known."""
        made, reason = self._made_by(condition), f"{self._mask} leaves elements of `{param}` out"
        goals: tuple[Linear, ...] = ()
        if isinstance(made, CmpI):
            terms = (self._elements.of(value) for value in (made.lhs, made.rhs))
            goals = compare(made.comparison_predicate, *terms).facts()
        for goal in goals:
            position = self._elements.position(goal)
            if position is None:
                yield ReachBound(goal, Side.ANYWHERE, reason)
            else:
                variable, share = position
                worst = variable.range.high if share < 0 else 0
                side = Side.BEHIND if share < 0 else Side.FRONT
                yield ReachBound(goal.without(variable) + share * worst, side, reason)
        if not goals:
            yield ReachBound(self._truth(condition) - 1, Side.ANYWHERE, reason)

    def _truth(self, condition: Value) -> Linear:
        """A term of its own for a truth value: 0 or 1."""
        if condition not in self._truths:
            bit = Value(scalar(Element.I1), None, "")
            bounds = (number(0),), (number(1),)
            self._truths[condition] = Linear.of(self._flow.fresh(bit, Origin.COMPUTED, *bounds))
        return self._truths[condition]

    # --- definitions ---

    def _param(self, pointer: Value) -> str | None:
        """The parameter that a pointer belongs to."""
        made = self._made_by(pointer)
        while isinstance(made, Broadcast | Reshape | Offset):
            made = self._made_by(made.ptr if isinstance(made, Offset) else made.source)
        term = made.term if isinstance(made, LaunchValue) else None
        return term.param if isinstance(term, BaseAddress | PointerArgument) else None

    def _made_by(self, value: Value) -> Op | None:
        definition = self._made.get(value)
        return None if definition is None or definition.is_argument else definition.op


def _is_evaluable(reach: Reach) -> bool:
    return all(bound.goal.is_evaluable for bound in reach.bounds)


def _open(bounds: Iterable[ReachBound]) -> tuple[ReachBound, ...]:
    """The bounds that do not hold at every launch."""
    return tuple(bound for bound in bounds if bound.goal.range.low < 0)


def _is_inside(op: CmpI) -> bool:
    """Whether it is the comparison of a gather's index: read as unsigned, to exclude negatives."""
    is_less = op.comparison_predicate is Predicate.LESS_THAN
    return is_less and op.signedness is Signedness.UNSIGNED
