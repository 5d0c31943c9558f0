"""Reductions in which padding takes part: found in the kernel, and told of where a launch has some.

The last tile along an axis that its tile does not divide is padded, by default with 0. A sum does
not notice; a maximum of negative numbers does. What is found here is a tile that comes straight
from a load (converted to another dtype at most) and is reduced by something that 0 is not the
identity of. Whether there is padding at all is known at launch: only then is it a matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.ir.attributes import FloatIdentity, IntIdentity, Predicate
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import Extent, LaunchTerm
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.elementwise import CmpF, Select
from tilewright.ir.ops.families import Conversion
from tilewright.ir.ops.internal import LaunchValue
from tilewright.ir.ops.memory import LoadView, MakePartitionView, MakeTensorView
from tilewright.ir.ops.reduction import Reduce, Scan
from tilewright.ir.ops.shape import Reshape
from tilewright.ir.rewrite import Definition, definitions
from tilewright.ir.types import Padding, PartitionViewType, TileType
from tilewright.source import Location

__all__ = ["PaddedReduction", "padded_reductions"]


@dataclass(frozen=True)
class PaddedReduction:
    """A reduction along an axis of a tensor whose padding it would notice."""

    location: Location
    extent: Extent
    tile: int
    padding: str  # what would not be noticed, as an argument of `partition`; empty: nothing

    def is_noticed(self, environment: Mapping[LaunchTerm, int]) -> bool:
        """Whether a launch with these numbers has padding there."""
        return environment[self.extent] % self.tile != 0

    def describe(self, environment: Mapping[LaunchTerm, int]) -> str:
        """What happens, why, and the way out, for people."""
        name, axis, number = self.extent.param, self.extent.axis, environment[self.extent]
        load = f"load with `padding={self.padding}`, or mask" if self.padding else "mask"
        return (
            f"axis {axis} of `{name}` has {number} elements, which tiles of {self.tile} do not "
            f"divide, and the 0 that the last tile is padded with takes part in this reduction: "
            f"{load} what lies outside with tw.where"
        )


def padded_reductions(function: Function) -> tuple[PaddedReduction, ...]:
    """Every reduction of a function that would notice padding; loads are as the front end made."""
    found = definitions(function)
    return tuple(
        dict.fromkeys(
            note
            for op in function.walk()
            if isinstance(op, (Reduce, Scan)) and op.loc is not None
            for note in _noticing(op, op.loc, found)
        )
    )


def _noticing(
    op: Reduce | Scan, location: Location, found: Mapping[Value, Definition]
) -> Iterator[PaddedReduction]:
    if isinstance(op, Scan) and not op.reverse:
        return  # padding lies behind all elements, and is combined with none of them
    for source, identity in zip(op.sources, op.identities, strict=True):
        origin = None if _is_zero(identity) else _origin(source, op.dim, found)
        if origin is not None:
            yield PaddedReduction(location, *origin, _as_padding(identity))


def _is_zero(identity: FloatIdentity | IntIdentity) -> bool:
    return identity.value == 0


def _as_padding(identity: FloatIdentity | IntIdentity) -> str:
    if isinstance(identity, FloatIdentity) and math.isinf(identity.value):
        return f"{identity.value}"
    return ""


def _origin(
    value: Value, axis: int, found: Mapping[Value, Definition]
) -> tuple[Extent, int] | None:
    """The tensor's axis behind one of a tile that is as it was loaded, and the tile's extent."""
    op = _made_by(value, found)
    if isinstance(op, Conversion):
        return _origin(op.source, axis, found)
    if isinstance(op, Select) and _is_nan_test(op, found):
        return _origin(op.val_if_false, axis, found)
    if isinstance(op, Reshape):  # of which only leading axes of one element may be gone
        assert isinstance(op.source.type, TileType)
        before, after = op.source.type.shape, op.to.shape
        gone = len(before) - len(after)
        is_same = gone > 0 and before == (*(1,) * gone, *after)
        return _origin(op.source, axis + gone, found) if is_same else None
    if isinstance(op, Reduce) and len(op.sources) == 1:
        return _origin(op.sources[0], axis + (axis >= op.dim), found)
    if isinstance(op, LoadView):
        return _loaded_axis(op, axis, found)
    return None


def _made_by(value: Value, found: Mapping[Value, Definition]) -> Op | None:
    definition = found.get(value)
    return None if definition is None or definition.is_argument else definition.op


def _is_nan_test(op: Select, found: Mapping[Value, Definition]) -> bool:
    """Whether only NaN is replaced: the search for a place does that, and it is no mask."""
    test = _made_by(op.cond, found)
    return (
        isinstance(test, CmpF)
        and test.lhs is test.rhs is op.val_if_false
        and test.comparison_predicate is Predicate.NOT_EQUAL
    )


def _loaded_axis(
    op: LoadView, axis: int, found: Mapping[Value, Definition]
) -> tuple[Extent, int] | None:
    cut, type_ = _made_by(op.view, found), op.view.type
    if not isinstance(type_, PartitionViewType) or type_.padding is not Padding.ZERO:
        return None
    tensor = _made_by(cut.tensor_view, found) if isinstance(cut, MakePartitionView) else None
    if not isinstance(tensor, MakeTensorView):
        return None
    along, shape = type_.dim_map[axis], tensor.to.shape
    if shape[along] is not None:
        return None  # fixed: the author sees both numbers
    place = sum(extent is None for extent in shape[:along])
    number = _made_by(tensor.dynamic_shape[place], found)
    if isinstance(number, LaunchValue) and isinstance(number.term, Extent):
        return number.term, type_.tile[axis]
    return None
