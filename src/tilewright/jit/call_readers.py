"""What a call is, read by one generated function for each kernel.

Two calls with the same key are the same launch as far as anything was decided before. There are two
kinds of keys. In one a tensor is its handle, by a number that is never used again; in the other it
is what the compiler and the launch checks know of it: dtype, shape, strides, alignment and device.
A scalar is its type and its value, or its type alone. Types are part of a key because True, 1 and
1.0 are equal; zeros, whose sign does not count in a comparison, are written out.

A reader takes the arguments as the kernel does, so that Python itself matches them to parameters.
It gives None for anything but tensors and partitions of ours, and raises `TypeError` for a call
that does not fit: then somebody else has to look.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tilewright.frontend.signature import (
    AccumParam,
    ConstParam,
    MappedParam,
    MutParam,
    PointerParam,
    RefParam,
    ScalarParam,
    Signature,
)
from tilewright.jit.plans import PreparedLaunch
from tilewright.jit.tables import Table
from tilewright.runtime.partition import Partition, PersistentPartition
from tilewright.runtime.ready import ReadyOp
from tilewright.runtime.surroundings import UNUSUAL
from tilewright.runtime.tensor import Tensor

__all__ = ["Call", "Known", "Readers", "make_readers"]


class Readers(NamedTuple):
    """The readers of a kernel; each takes its arguments."""

    quick: Callable[..., Any]  # the operation, if the call was prepared or planned
    same: Callable[..., Any]  # by the handles: a key, the tensors, all arguments
    like: Callable[..., Any]  # by what they are like: a key, and the `Call` as a plain tuple


# The tensors, the scalars, all arguments, and whether no output is in another tensor's storage.
Call = tuple[tuple[Tensor, ...], tuple[Any, ...], tuple[Any, ...], bool]


class _Read(NamedTuple):
    """How an argument is read, as Python text with its name filled in."""

    kind: str  # what must be true of it
    tensor: str = ""
    same: str = ""
    like: str = ""
    scalar: str = ""


_WHOLE = _Read("{0}.__class__ is _Tensor", "{0}", "{0}.serial", "{0}.facet")
_CUT = "{0}._tensor.{1}, {0}._tiling"
_WALKED = "{0}.partition._tensor.{1}, {0}.partition._tiling, {0}.max_blocks, {0}.group"
_VALUE = "{0}.__class__, {0} or _repr({0})"
_READS: dict[type, _Read] = {
    RefParam: _WHOLE,
    AccumParam: _WHOLE,
    PointerParam: _WHOLE,
    MutParam: _Read(
        "{0}.__class__ is _Partition and {0}._tiling.segments is None", "{0}._tensor",
        _CUT.format("{0}", "serial"), _CUT.format("{0}", "facet"),
    ),
    MappedParam: _Read(
        "{0}.__class__ is _PersistentPartition", "{0}.partition._tensor",
        _WALKED.format("{0}", "serial"), _WALKED.format("{0}", "facet"),
    ),
    ScalarParam: _Read("{0}.__class__ in _numbers", "", _VALUE, "{0}.__class__", "{0}"),
    ConstParam: _Read("{0}.__class__ in _constants", "", _VALUE, _VALUE),
}  # fmt: skip
# Types whose values can be told apart by their text; a class is told apart by itself.
_NUMBERS = frozenset({bool, int, float, *np.sctypeDict.values()})
# What was prepared is found first, what was planned then; anything else is for others to look at.
_QUICK = """_key = {same}
        _found = _table.get(_key)
        if _found.__class__ is _Prepared:
            if not _unusual.get() and _found.is_current():
                return _Operation().build(_found, {tensors}, {result}, 3)
            return None
        _found = _plans.get((None, {like}))
        if _found is not None:
            return _plan(_found, _key, ({tensors}, {scalars}, {result}, {apart}))"""
_NAMES: dict[str, Any] = {
    "_Operation": ReadyOp,
    "_Prepared": PreparedLaunch,
    "_unusual": UNUSUAL,
    "_Tensor": Tensor,
    "_Partition": Partition,
    "_PersistentPartition": PersistentPartition,
    "_constants": _NUMBERS | {type},
    "_numbers": _NUMBERS,
    "_repr": repr,
}
_OWN_NAMES = frozenset({*_NAMES, "_table", "_plans", "_plan", "_key", "_found"})


class Known(NamedTuple):
    """Where the quick reader looks."""

    prepared: Table[Any]  # by the handles
    planned: Table[Any]  # by the grid that was given, and by what the handles are like
    plan: Callable[..., Any]  # makes an operation of what was planned


def make_readers(signature: Signature, call: inspect.Signature, known: Known) -> Readers | None:
    """The readers of a kernel; None if a parameter is of a kind that they do not know."""
    if any(type(param) not in _READS for param in signature.params):
        return None
    if not _OWN_NAMES.isdisjoint(call.parameters):
        return None
    reads = {param.name: _READS[type(param)] for param in signature.params}
    kinds = " and ".join(read.kind.format(name) for name, read in reads.items())
    listed = [param.name for param in signature.tensors]  # as a launch lists them
    listed += [param.name for param in signature.pointers]
    tensors = _tuple(reads[name].tensor.format(name) for name in listed)
    scalars = _tuple(reads[param.name].scalar.format(param.name) for param in signature.scalars)
    result = _tuple(call.parameters)
    same = _tuple(read.same.format(name) for name, read in reads.items())
    like = _tuple(read.like.format(name) for name, read in reads.items())
    apart = _all_apart(signature, listed, [reads[name].tensor.format(name) for name in listed])
    names = {"_table": known.prepared, "_plans": known.planned, "_plan": known.plan}
    compile_ = partial(_compile, call, kinds, names)
    texts = {"same": same, "like": like, "tensors": tensors, "scalars": scalars, "result": result}
    return Readers(
        compile_(_QUICK.format(**texts, apart=apart)),
        compile_(f"return ({same}, {tensors}, {result})"),
        compile_(f"return ({like}, ({tensors}, {scalars}, {result}, {apart}))"),
    )


def _all_apart(signature: Signature, listed: list[str], tensors: list[str]) -> str:
    """Whether no output is in the storage of another tensor."""
    written = {param.name for param in signature.outputs}
    written |= {param.name for param in signature.pointers}
    numbers = [number for number, name in enumerate(listed) if name in written]
    pairs = {
        (min(one, other), max(one, other))
        for one in numbers
        for other in range(len(listed))
        if one != other
    }
    texts = (f"{tensors[a]}.storage is not {tensors[b]}.storage" for a, b in sorted(pairs))
    return " and ".join(texts) or "True"


def _tuple(parts: Any) -> str:
    return f"({''.join(f'{part}, ' for part in parts)})"


def _compile(
    call: inspect.Signature, kinds: str, names: dict[str, Any], body: str
) -> Callable[..., Any]:
    """A function with the parameters of the kernel; its defaults are objects, not text."""
    plain = [
        p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else None)
        for p in call.parameters.values()
    ]
    header = inspect.Signature(plain)
    text = f"def read{header}:\n    if {kinds or True}:\n        {body}\n"
    known = _NAMES | names
    exec(compile(text, "<how a call is read>", "exec"), known)
    read: Any = known["read"]
    defaults = {p.name: p.default for p in call.parameters.values() if p.default is not p.empty}
    keywords = {p.name for p in call.parameters.values() if p.kind is p.KEYWORD_ONLY}
    read.__defaults__ = tuple(value for name, value in defaults.items() if name not in keywords)
    read.__kwdefaults__ = {name: value for name, value in defaults.items() if name in keywords}
    made: Callable[..., Any] = read
    return made
