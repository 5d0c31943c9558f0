"""Which kernels are assembled for which target, and in which form, so that little work shows much.

A *feature* is an op with its flags and attributes and the types of what flows in and out, numbers
left out (other than 0 and 1, which name axes and unit strides): what an assembler can have or lack
on an architecture. How large a tile is, or a constant, is none. Of the forms in which a kernel was
compiled `form_to_assemble` takes the one with most features for its work. `plan` takes for each
target few kernels that have every feature between them, and deals others out, one target each, by
where they stand: the same kernel goes to the same target in every run. One in `ASSEMBLY_EVERY` of
them is dealt out; `make assembly ASSEMBLY_EVERY=1` takes all.
"""

import dataclasses
import functools
import heapq
import math
import os
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from enum import Enum

from tilewright.ir.attributes import DenseElements
from tilewright.ir.function import Function
from tilewright.ir.op import FieldKind, Op
from tilewright.ir.types import TileType, Type, elements_of

__all__ = ["Functions", "features", "form_to_assemble", "is_dealt_out", "plan"]

# The entries of one kernel: itself and, maybe, what audits its indices.
Functions = tuple[Function, ...]

# The share of kernels that are assembled though their features occur elsewhere.
_EVERY = int(os.environ.get("ASSEMBLY_EVERY", "4"))
# About how long an assembler takes: seconds for a kernel, for each op, for each element of a tile.
_KERNEL, _OP, _ELEMENT = 0.03, 1e-3, 2e-6


def features(functions: Functions) -> frozenset[Hashable]:
    """What a kernel asks of an assembler."""
    found: set[Hashable] = set()
    for function in functions:
        found.add(_outline(function.hints))
        found.update(_outline_of_type(param.type) for param in function.params)
        for op in function.walk():
            found.update(_features(op))
    return frozenset(found)


def form_to_assemble(forms: Iterable[Functions]) -> Functions:
    """Of all forms of one kernel the one that shows most for the time it takes."""
    return max(forms, key=lambda form: len(features(form)) / _work(form))


def plan(
    kernels: Mapping[str, Functions], targets: tuple[str, ...], is_for: Callable[[str, str], bool]
) -> dict[str, list[str]]:
    """The kernels to assemble for each target; `is_for` says of which it has all that they use."""
    seen = {place: features(functions) for place, functions in kernels.items()}
    work = {place: _work(functions) for place, functions in kernels.items()}
    able = {target: [place for place in kernels if is_for(place, target)] for target in targets}
    chosen = {
        target: _covering({place: seen[place] for place in places}, work)
        for target, places in able.items()
    }
    taken = set().union(*chosen.values())
    for place in filter(is_dealt_out, kernels.keys() - taken):
        takers = [target for target in targets if place in able[target]]
        chosen[takers[zlib.crc32(place.encode()) % len(takers)]].add(place)
    return {target: sorted(places) for target, places in chosen.items()}


def is_dealt_out(place: str) -> bool:
    """Whether a kernel is assembled for some target in any case."""
    return zlib.crc32(place[::-1].encode()) % _EVERY == 0


def _covering(seen: Mapping[str, frozenset[Hashable]], work: Mapping[str, float]) -> set[str]:
    """Kernels that together have every feature: always the one with most new ones for its work."""
    left, chosen = set().union(*seen.values()), set[str]()
    waiting = [(-len(found) / work[place], place) for place, found in seen.items()]
    heapq.heapify(waiting)
    while left:
        _, place = heapq.heappop(waiting)
        worth = -len(seen[place] & left) / work[place]
        if waiting and worth > waiting[0][0]:  # what it had is taken by now: it waits again
            heapq.heappush(waiting, (worth, place))
        else:
            chosen.add(place)
            left -= seen[place]
    return chosen


def _work(functions: Functions) -> float:
    return _KERNEL + sum(_OP + _ELEMENT * _elements(op) for one in functions for op in one.walk())


def _elements(op: Op) -> int:
    types = (value.type for value in op.results)
    return sum(math.prod(type_.shape) for type_ in types if isinstance(type_, TileType))


def _features(op: Op) -> Iterator[Hashable]:
    """The op over its kinds of operands and results, and each of its types by itself."""
    values = (*op.operands, *op.results)
    yield type(op), frozenset(_kind(value.type) for value in values), tuple(_attributes(op))
    for value in values:
        yield _outline_of_type(value.type)


@functools.cache
def _kind(type_: Type) -> Hashable:
    return type(type_), elements_of(type_), getattr(type_, "rank", None)


def _attributes(op: Op) -> Iterator[Hashable]:
    for field in op.fields:
        is_written = field.kind in (FieldKind.ATTR, FieldKind.FLAG)
        if is_written and field.from_types is None:
            yield _outline(getattr(op, field.name))


@functools.cache
def _outline_of_type(type_: Type) -> Hashable:
    return _outline(type_)


def _outline(part: object) -> Hashable:
    """A type or an attribute, numbers and text left out."""
    match part:
        case bool() | Enum() | None | 0 | 1:
            return part
        case tuple():
            return tuple(map(_outline, part))
        case DenseElements():
            return _outline_of_type(part.type)
        case _ if dataclasses.is_dataclass(part):
            parts = (_outline(getattr(part, field.name)) for field in dataclasses.fields(part))
            return type(part), *parts
    return type(part)
