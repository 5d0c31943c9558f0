"""Untied extents: axes of outputs and inputs that share an index but have independent extents.

The index of a block along an axis of an output ranges over the tiles of that axis. If the same
index addresses an axis of an input, the two extents should agree. Without a rule that ties them, an
output that is too small leaves out the end of the input, and an output that is a little too large
gets padding at its end. `Cut`, `load_like` and every `tw.require` about an extent tie an axis. If
an output is tied to one input and a second input is read at the same index, the second input is
untied: a smaller one is read as padding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.analysis.operations import Wrapped
from tilewright.analysis.terms import Known, Linear
from tilewright.check.launch import LaunchCheck, Precondition
from tilewright.frontend.signature.signature import RefParam, Signature, TensorParam
from tilewright.frontend.signature.specialization import Specialization
from tilewright.frontend.source.capture import SourceFunction
from tilewright.ir.attributes import Predicate, Signedness
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import Extent, LaunchTerm, TileCount
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.elementwise import AddI, CmpI, MulI
from tilewright.ir.ops.families import Conversion
from tilewright.ir.ops.internal import BlockIndex, BoundsCheck, LaunchValue, ReadAs, Walk
from tilewright.ir.ops.shape import Broadcast, Constant, Iota, Reshape
from tilewright.ir.rewrite import definitions

__all__ = ["untied_extents"]

Axis = tuple[str, int]  # of a parameter
_SAME_NUMBER = (Conversion, ReadAs, Reshape, Broadcast)


@dataclass(frozen=True)
class _ExtentRead:
    """An axis of an input, and the tile of a read along it."""

    param: RefParam
    axis: int
    tile: int
    is_plain: bool  # tiles are adjacent
    is_masked: bool = False  # an index out of bounds reads padding instead of failing

    @property
    def may_be_padded(self) -> bool:
        """Whether a read beyond the axis gives padding; reads of single elements are checked."""
        return self.is_masked or self.tile > 1


# By parameter and axis: the axis of an output at the same index, and the read of the input.
_Meetings = dict[str, dict[int, tuple[Axis, _ExtentRead]]]


def untied_extents(
    function: Function,
    source: SourceFunction,
    signature: Signature,
    specialization: Specialization,
    checks: tuple[LaunchCheck, ...],
) -> tuple[tuple[str, str], ...]:
    """The parameters with an untied axis, each with an annotation or requirement that ties it."""
    finder = _Finder(function, source, signature, specialization)
    tied = set(finder.required(checks))
    tied |= set(finder.tied_by_grid(tied))
    outputs: _Meetings = {}
    inputs: _Meetings = {}
    for axes, read in finder.meetings():
        loose = [at for at in axes if finder.extent(at) is None and at not in tied]
        for at in loose:
            found = outputs.setdefault(at[0], {})
            best = found.get(at[1])
            if best is None or not finder.is_cut_alike(*best):
                found[at[1]] = (at, read)
        cut = next((at for at in axes if finder.extent(at) is not None), None)
        is_settled = bool(loose) or not read.may_be_padded
        if cut is not None and not is_settled and not finder.is_tied(axes, read, tied):
            inputs.setdefault(read.param.name, {}).setdefault(read.axis, (cut, read))
    return tuple((name, finder.way_out(name, axes)) for name, axes in (outputs | inputs).items())


class _Finder:
    """Finds values that index an axis of an output, and reads of inputs by the same values."""

    def __init__(
        self,
        function: Function,
        source: SourceFunction,
        signature: Signature,
        specialization: Specialization,
    ) -> None:
        self._ops = tuple(function.walk())
        self._defined = definitions(function)
        self._signature = signature
        self._source = source
        names = (param.name for param in signature.tensors)
        self._specs = dict(zip(names, specialization.tensors, strict=True))

    def extent(self, at: Axis) -> int | str | None:
        """The declared extent of an output's axis."""
        param = self._signature.by_name[at[0]]
        assert isinstance(param, TensorParam)
        return param.extents[at[1]]

    # --- rules that tie an axis ---

    def required(self, checks: tuple[LaunchCheck, ...]) -> Iterator[Axis]:
        """The axes whose extents a precondition fixes, or compares with another term."""
        outputs = {param.name for param in self._signature.cut_outputs}
        for check in checks:
            terms = tuple(check.formula.terms()) if isinstance(check, Precondition) else ()
            for term in terms:
                if len(term.coefficients) <= 1 and -term not in terms:
                    continue
                known = tuple(_known_in(term))
                # A comparison of two outputs ties neither to an input.
                if len(known) == 1 or any(getattr(t, "param", None) not in outputs for t in known):
                    axes = (t for t in known if isinstance(t, Extent | TileCount))
                    yield from ((t.param, t.axis) for t in axes)

    def tied_by_grid(self, tied: set[Axis]) -> Iterator[Axis]:
        """The axes of tile one that share a grid axis with a tied axis."""
        specs = {param.name: self._specs[param.name] for param in self._signature.mut_outputs}
        axes = [
            [(name, axis) for axis in spec.grid_axes]
            for name, spec in specs.items()
            if not spec.is_prefix
        ]
        for together in zip(*axes, strict=False):
            if any(self.extent(at) is not None or at in tied for at in together):
                yield from ((name, axis) for name, axis in together if specs[name].tile[axis] == 1)

    def is_tied(self, axes: list[Axis], read: _ExtentRead, tied: set[Axis]) -> bool:
        """Whether the input shares a dim with an output, or the kernel requires its extent."""
        dim = read.param.extents[read.axis]
        home = self._signature.homes.get(dim) if isinstance(dim, str) else None
        is_required = (read.param.name, read.axis) in tied or home in tied
        return is_required or any(self.extent(at) == dim for at in axes)

    # --- indices of outputs ---

    def meetings(self) -> Iterator[tuple[list[Axis], _ExtentRead]]:
        """The reads of inputs, each with the axes of outputs that its index value addresses too."""
        places: dict[Value, list[Axis]] = {}
        for op in self._ops:
            for value, axis in self._places(op):
                places.setdefault(value, []).append(axis)
        for op in self._ops:
            for value, read in self._reads(op):
                found = [
                    (name, axis)
                    for name, axis in places.get(value, ())
                    if not isinstance(op, CmpI) or self._specs[name].tile[axis] == read.tile
                ]
                if found:
                    yield found, read

    def _places(self, op: Op) -> Iterator[tuple[Value, Axis]]:
        if isinstance(op, BlockIndex):
            yield from self._of_grid(op)
        elif isinstance(op, Walk):
            for name in op.outputs:
                tile = self._specs[name].tile
                axes = [axis for axis, extent in enumerate(tile) if extent is not None]
                if len(axes) == len(op.counts):  # no whole axis is walked in a range
                    for value, axis in zip(op.body.args, axes, strict=False):
                        yield value, (name, axis)
        elif isinstance(op, BoundsCheck) and op.site.of_piece:
            name, axis = op.site.subject, op.site.axis
            if self._specs[name].tile[axis] is None:  # its parts have tensor indices
                yield self._number(op.index), (name, axis)

    def _of_grid(self, op: BlockIndex) -> Iterator[tuple[Value, Axis]]:
        """The grid axes of all outputs with one piece for each block."""
        for param in self._signature.mut_outputs:
            spec = self._specs[param.name]
            if spec.is_prefix:
                continue
            axes = [axis for axis in spec.grid_axes if spec.tile[axis] is not None]
            for value, axis in zip(op.indices, axes, strict=False):
                if axis or spec.segments is None:
                    yield value, (param.name, axis)

    # --- reads of inputs ---

    def _reads(self, op: Op) -> Iterator[tuple[Value, _ExtentRead]]:
        if isinstance(op, BoundsCheck):
            site = op.site
            param = self._signature.by_name.get(site.subject)
            if isinstance(param, RefParam) and not site.of_piece and not site.of_tile:
                read = _ExtentRead(param, site.axis, site.tile, site.step is None)
                yield self._number(op.index), read
        elif isinstance(op, CmpI) and op.signedness is Signedness.UNSIGNED:
            # A gather compares its indices, of an element or of a tile, with an extent.
            limit = self._made_by(self._number(op.rhs))
            term = limit.term if isinstance(limit, LaunchValue) else None
            if op.comparison_predicate is Predicate.LESS_THAN and isinstance(term, Extent):
                param = self._signature.by_name.get(term.param)
                if isinstance(param, RefParam):
                    value, tile = self._first_and_tile(self._number(op.lhs))
                    yield value, _ExtentRead(param, term.axis, tile, is_plain=True, is_masked=True)

    def _first_and_tile(self, value: Value) -> tuple[Value, int]:
        """The index and tile of a gather: (i, B) for `i*B + arange(B)`, else single elements."""
        op = self._made_by(value)
        if isinstance(op, AddI):
            for side, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
                product = self._made_by(self._number(side))
                counted = isinstance(self._made_by(self._number(other)), Iota)
                if counted and isinstance(product, MulI):
                    return self._scaled(product)
        return value, 1

    def _scaled(self, product: MulI) -> tuple[Value, int]:
        for side, other in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
            factor = self._made_by(self._number(other))
            if isinstance(factor, Constant) and isinstance(factor.value, int):
                return self._number(side), factor.value
        return product.result, 1

    def _number(self, value: Value) -> Value:
        """The source of a value, before conversions, checks and broadcasts."""
        op = self._made_by(value)
        while isinstance(op, (*_SAME_NUMBER, BoundsCheck)):
            value = op.index if isinstance(op, BoundsCheck) else op.source
            op = self._made_by(value)
        return value

    def _made_by(self, value: Value) -> Op | None:
        definition = self._defined.get(value)
        return None if definition is None or definition.is_argument else definition.op

    # --- the way out ---

    def is_cut_alike(self, at: Axis, read: _ExtentRead) -> bool:
        """Whether both axes have the same tiles, so that one dim can name both extents."""
        own = self._specs[at[0]].tile[at[1]]
        return read.is_plain and own in (None, read.tile)

    def way_out(self, name: str, axes: Mapping[int, tuple[Axis, _ExtentRead]]) -> str:
        """The annotation that ties axes with equal tiles, and requirements that tie the others."""
        param = self._signature.by_name[name]
        assert isinstance(param, TensorParam)
        as_is = self._written_axes(param)
        written, texts = list(as_is), []
        for axis, (at, read) in axes.items():
            if not self.is_cut_alike(at, read):
                texts.append(self._requirement(at, read))
            elif isinstance(param, RefParam):
                written[axis] = _extent_text(self.extent(at))
            else:
                written[axis] = f"Cut[{_extent_text(read.param.dims[read.axis])}, {as_is[axis]}]"
        if written != as_is:
            kind = ", ".join((param.dtype.__name__, *written))
            texts.insert(0, f"`{name}: {param.kind}[{kind}]`")
        return " and ".join(texts)

    def _written_axes(self, param: TensorParam) -> list[str]:
        """The axes of an annotation as source text; for an alias, as the signature has them."""
        node = self._source.parameter(param.name).annotation
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.parse(node.value, mode="eval").body
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            axes = node.slice.elts[1:]
            if len(axes) == param.rank:
                return [ast.unparse(axis) for axis in axes]
        return ["tw.All" if dim is None else str(dim) for dim in param.dims]

    def _requirement(self, at: Axis, read: _ExtentRead) -> str:
        """The requirement that ties an output's extent to an input's with another tile."""
        name, axis = at
        tile = self._specs[name].tile[axis]
        own, other = f"{name}.shape[{axis}]", f"{read.param.name}.shape[{read.axis}]"
        if tile == 1 and read.is_plain:
            return f"`tw.require({own} == tw.cdiv({other}, {read.tile}))`"
        if read.tile == 1 and read.is_plain:
            return f"`tw.require({other} == tw.cdiv({own}, {tile}))`"
        return f"a `tw.require` that says how `{own}` follows from `{other}`"


def _known_in(term: Linear) -> Iterator[LaunchTerm]:
    """The launch terms with a coefficient in a linear term."""
    for atom in term.coefficients:
        if isinstance(atom, Wrapped):
            yield from _known_in(atom.value)
        elif isinstance(atom, Known):
            yield atom.term


def _extent_text(dim: int | str | None) -> str:
    """An extent as an annotation names it."""
    return f"Literal[{dim}]" if isinstance(dim, int) else str(dim)
