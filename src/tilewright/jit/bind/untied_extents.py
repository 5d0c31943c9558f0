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
from tilewright.frontend.signature.signature import (
    MappedParam,
    MutParam,
    RefParam,
    Signature,
    TensorParam,
)
from tilewright.frontend.signature.specialization import Specialization, TensorSpecialization
from tilewright.frontend.source.capture import SourceFunction
from tilewright.ir.attributes import Predicate, Signedness
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import Extent, LaunchTerm, TileCount
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.elementwise import AddI, CmpI, MulI
from tilewright.ir.ops.families import Conversion
from tilewright.ir.ops.internal import BlockIndex, BoundsCheck, LaunchValue, ReadAs, Walk
from tilewright.ir.ops.shape import Broadcast, Constant, Iota, Reshape
from tilewright.ir.rewrite import Definition, definitions

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

    @property
    def extent(self) -> str:
        """The extent as an annotation names it."""
        dim = self.param.dims[self.axis]
        return f"Literal[{dim}]" if isinstance(dim, int) else str(dim)


def untied_extents(
    function: Function,
    source: SourceFunction,
    signature: Signature,
    specialization: Specialization,
    checks: tuple[LaunchCheck, ...],
) -> tuple[tuple[str, str], ...]:
    """The parameters with an untied axis, each with an annotation or requirement that ties it."""
    specs = dict(zip((p.name for p in signature.tensors), specialization.tensors, strict=True))
    tied = set(_required(signature, checks))
    tied |= set(_tied_by_grid(signature, specs, tied))
    finder = _Finder(definitions(function), signature, specs)
    outputs: dict[str, dict[int, _ExtentRead]] = {}
    inputs: dict[str, dict[int, tuple[Axis, _ExtentRead]]] = {}
    for axes, read in finder.meetings(function):
        loose = [(name, axis) for name, axis in axes if _is_loose(signature, tied, name, axis)]
        for name, axis in loose:
            best = outputs.setdefault(name, {}).setdefault(axis, read)
            if not _is_cut_alike(specs[name], axis, best):
                outputs[name][axis] = read
        cut = next((at for at in axes if _extent_of(signature, at) is not None), None)
        is_settled = bool(loose) or not read.may_be_padded
        if cut is not None and not is_settled and not _is_tied(signature, tied, axes, read):
            inputs.setdefault(read.param.name, {}).setdefault(read.axis, (cut, read))
    return (
        *((name, _way_out(source, signature, specs[name], name, axes))
          for name, axes in outputs.items()),
        *((name, _way_out_of_input(source, signature, specs, name, axes))
          for name, axes in inputs.items()),
    )  # fmt: skip


def _extent_of(signature: Signature, at: Axis) -> int | str | None:
    """The declared extent of an output's axis."""
    param = signature.by_name[at[0]]
    assert isinstance(param, TensorParam)
    return param.extents[at[1]]


def _is_loose(signature: Signature, tied: set[Axis], name: str, axis: int) -> bool:
    return _extent_of(signature, (name, axis)) is None and (name, axis) not in tied


def _is_tied(signature: Signature, tied: set[Axis], axes: list[Axis], read: _ExtentRead) -> bool:
    """Whether the input shares a dim with an output's axis, or the kernel requires its extent."""
    dim = read.param.extents[read.axis]
    home = signature.homes.get(dim) if isinstance(dim, str) else None
    own = (read.param.name, read.axis)
    is_required = own in tied or (home is not None and home in tied)
    return is_required or any(_extent_of(signature, at) == dim for at in axes)


def _required(signature: Signature, checks: tuple[LaunchCheck, ...]) -> Iterator[Axis]:
    """The axes whose extents a precondition fixes, or compares with another term."""
    outputs = {param.name for param in signature.cut_outputs}
    for check in checks:
        if isinstance(check, Precondition):
            terms = tuple(check.formula.terms())
            for term in terms:
                if len(term.coefficients) > 1 or -term in terms:
                    yield from _settled(tuple(_known_in(term)), outputs)


def _settled(known: tuple[LaunchTerm, ...], outputs: set[str]) -> Iterator[Axis]:
    """The axes that a comparison ties; a comparison of two outputs ties neither to an input."""
    if len(known) == 1 or any(getattr(term, "param", None) not in outputs for term in known):
        for term in known:
            if isinstance(term, Extent | TileCount):
                yield term.param, term.axis


def _known_in(term: Linear) -> Iterator[LaunchTerm]:
    """The launch terms with a coefficient in a linear term."""
    for atom in term.coefficients:
        if isinstance(atom, Wrapped):
            yield from _known_in(atom.value)
        elif isinstance(atom, Known):
            yield atom.term


def _tied_by_grid(
    signature: Signature, specs: Mapping[str, TensorSpecialization], tied: set[Axis]
) -> Iterator[Axis]:
    """The axes of tile one that share a grid axis with a tied axis."""
    exact = [param for param in signature.mut_outputs if not specs[param.name].is_prefix]
    axes = [[(param, axis) for axis in specs[param.name].grid_axes] for param in exact]
    for together in zip(*axes, strict=False):
        if any(p.extents[axis] is not None or (p.name, axis) in tied for p, axis in together):
            for param, axis in together:
                if specs[param.name].tile[axis] == 1:
                    yield param.name, axis


class _Finder:
    """Finds values that index an axis of an output, and reads of inputs by the same values."""

    def __init__(
        self,
        defined: Mapping[Value, Definition],
        signature: Signature,
        specs: Mapping[str, TensorSpecialization],
    ) -> None:
        self._defined = defined
        self._signature = signature
        self._specs = specs

    def meetings(self, function: Function) -> Iterator[tuple[list[Axis], _ExtentRead]]:
        """The reads of inputs, each with the axes of outputs that its index value addresses too."""
        ops = tuple(function.walk())
        places: dict[Value, list[Axis]] = {}
        for op in ops:
            for value, axis in self._places(op):
                places.setdefault(value, []).append(axis)
        for op in ops:
            for value, read in self._reads(op):
                found = [
                    (name, axis)
                    for name, axis in places.get(value, ())
                    if not isinstance(op, CmpI) or self._specs[name].tile[axis] == read.tile
                ]
                if found:
                    yield found, read

    # --- indices of outputs ---

    def _places(self, op: Op) -> Iterator[tuple[Value, Axis]]:
        if isinstance(op, BlockIndex):
            yield from self._of_grid(op)
        elif isinstance(op, Walk):
            yield from self._of_walk(op)
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

    def _of_walk(self, op: Walk) -> Iterator[tuple[Value, Axis]]:
        for name in op.outputs:
            tile = self._specs[name].tile
            axes = [axis for axis, extent in enumerate(tile) if extent is not None]
            if len(axes) == len(op.counts):  # no whole axis is walked in a range
                for value, axis in zip(op.body.args, axes, strict=False):
                    yield value, (name, axis)

    # --- reads of inputs ---

    def _reads(self, op: Op) -> Iterator[tuple[Value, _ExtentRead]]:
        if isinstance(op, BoundsCheck) and not op.site.of_piece:
            param = self._signature.by_name.get(op.site.subject)
            if isinstance(param, RefParam) and not op.site.of_tile:
                site = op.site
                read = _ExtentRead(param, site.axis, site.tile, site.step is None)
                yield self._number(op.index), read
        elif isinstance(op, CmpI) and op.signedness is Signedness.UNSIGNED:
            yield from self._gathered(op)

    def _gathered(self, op: CmpI) -> Iterator[tuple[Value, _ExtentRead]]:
        """The read of a gather, which compares its indices with an extent: an element or a tile."""
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

    # --- values ---

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


# --- the way out ----------------------------------------------------------------------------------


def _is_cut_alike(spec: TensorSpecialization, axis: int, read: _ExtentRead) -> bool:
    """Whether both axes have the same tiles, so that one dim can name both extents."""
    own = spec.tile[axis]
    return read.is_plain and (own is None or own == read.tile)


def _way_out(
    source: SourceFunction,
    signature: Signature,
    spec: TensorSpecialization,
    name: str,
    axes: Mapping[int, _ExtentRead],
) -> str:
    cut = {axis: read for axis, read in axes.items() if _is_cut_alike(spec, axis, read)}
    texts = [f"`{_annotation(source, signature, name, cut)}`"] if cut else []
    for axis, read in axes.items():
        if axis not in cut:
            texts.append(_requirement(name, axis, spec.tile[axis], read))
    return " and ".join(texts)


def _annotation(
    source: SourceFunction, signature: Signature, name: str, cut: Mapping[int, _ExtentRead]
) -> str:
    """The annotation of an output, with the missing `Cut`s added."""
    param = signature.by_name[name]
    assert isinstance(param, (MutParam, MappedParam))
    written = _written_axes(source, param)
    axes = [
        f"Cut[{cut[axis].extent}, {text}]" if axis in cut else text
        for axis, text in enumerate(written)
    ]
    return f"{name}: {param.kind}[{', '.join((param.dtype.__name__, *axes))}]"


def _way_out_of_input(
    source: SourceFunction,
    signature: Signature,
    specs: Mapping[str, TensorSpecialization],
    name: str,
    axes: Mapping[int, tuple[Axis, _ExtentRead]],
) -> str:
    """The annotation of an input with the dims of the outputs, or a requirement."""
    param = signature.by_name[name]
    assert isinstance(param, RefParam)
    written, texts = _written_axes(source, param), []
    for axis, ((output, at), read) in axes.items():
        if _is_cut_alike(specs[output], at, read):
            dim = _extent_of(signature, (output, at))
            written[axis] = f"Literal[{dim}]" if isinstance(dim, int) else str(dim)
        else:
            texts.append(_requirement(output, at, specs[output].tile[at], read))
    if written != _written_axes(source, param):
        texts.insert(0, f"`{name}: Ref[{', '.join((param.dtype.__name__, *written))}]`")
    return " and ".join(texts)


def _written_axes(source: SourceFunction, param: TensorParam) -> list[str]:
    """The axes of an annotation as source text; for an alias, as the signature has them."""
    arguments = source.node.args
    node = next(
        argument.annotation
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        if argument.arg == param.name
    )
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        node = ast.parse(node.value, mode="eval").body
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        axes = node.slice.elts[1:]
        if len(axes) == param.rank:
            return [ast.unparse(axis) for axis in axes]
    return ["tw.All" if dim is None else str(dim) for dim in param.dims]


def _requirement(name: str, axis: int, tile: int | None, read: _ExtentRead) -> str:
    """The requirement that ties an output's extent to an input's with another tile."""
    own, other = f"{name}.shape[{axis}]", f"{read.param.name}.shape[{read.axis}]"
    if tile == 1 and read.is_plain:
        return f"`tw.require({own} == tw.cdiv({other}, {read.tile}))`"
    if read.tile == 1 and read.is_plain:
        return f"`tw.require({other} == tw.cdiv({own}, {tile}))`"
    return f"a `tw.require` that says how `{own}` follows from `{other}`"
