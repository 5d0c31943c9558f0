"""Call readers: generated functions that turn the arguments of a call into its keys.

Calls with equal keys have the same plan, or the same bound launch. The *address key* has the serial
number of each tensor, which stands for its address and spec, and the value of each scalar; it finds
bound launches. The *spec key* has the spec of each tensor (dtype, shape, strides, alignment,
device) and the type of each scalar; it finds plans. The type of a scalar is part of both keys,
because True, 1 and 1.0 are equal, and a zero is written as text, because 0.0 and -0.0 are equal.

A reader has the parameters of the kernel, so that Python matches arguments to them. It returns None
for arguments other than tensors and partitions of this package, and raises `TypeError` for a call
that does not match; the cold path then binds the call. The kernel's own `__call__` is generated too
and inlines the look-up, because one Python call costs as much as ten steps of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from enum import Enum, EnumType
from itertools import takewhile
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from tilewright.frontend.signature.signature import (
    AccumParam,
    ConstParam,
    MappedParam,
    MutParam,
    Param,
    PointerParam,
    RefParam,
    ScalarParam,
    Signature,
)
from tilewright.jit.bind.binding import Inferred, inferable
from tilewright.jit.plans.plan import BoundLaunch
from tilewright.jit.plans.tables import BoundedTable
from tilewright.lang.builtin import Builtin
from tilewright.runtime.devices.context import INTERCEPTED
from tilewright.runtime.interop.passed import find_wrapper
from tilewright.runtime.memory.partition import HostPartition, PersistentPartition
from tilewright.runtime.memory.tensor import Tensor, make_use
from tilewright.runtime.ops.launch import LaunchOp
from tilewright.runtime.text_functions import define

__all__ = ["FIRST_HIT", "MANY", "Call", "CallTables", "FirstHit", "Readers", "make_readers"]


class Readers(NamedTuple):
    """The readers of a kernel, each with the kernel's parameters."""

    call: Callable[..., Any] | None  # `__call__`; None if the kernel has no readers
    same: Callable[..., Any]  # gives the address key, the tensors, and all arguments
    like: Callable[..., Any]  # gives the spec key, and the `Call` as a plain tuple


# The tensors, the scalars, all arguments, whether each output has a timeline of its own, and the
# torch tensors behind wrappers.
Call = tuple[tuple[Tensor, ...], tuple[Any, ...], tuple[Any, ...], bool, tuple[Any, ...]]


class _ArgumentText(NamedTuple):
    """Expressions that read an argument, with a field for its name."""

    kind: str  # a condition on its type
    also: str = "True"  # a further condition, which holds for every cached launch
    tensor: str = ""
    same: str = ""
    like: str = ""
    scalar: str = ""
    array: str = "None"  # the torch tensor of a partition


_WHOLE = _ArgumentText("{0}.__class__ is _Tensor", "True", "{0}", "{0}.serial", "{0}.spec")
_CUT = "{0}._tensor.{1}, {0}._tiling"
_WALKED = "{0}.partition._tensor.{1}, {0}.partition._tiling, {0}.max_blocks, {0}.group"
_VALUE = "{0}.__class__, {0} or _repr({0})"
_READS: dict[type, _ArgumentText] = {
    RefParam: _WHOLE,
    AccumParam: _WHOLE,
    PointerParam: _WHOLE,
    MutParam: _ArgumentText(
        "{0}.__class__ is _HostPartition", "{0}._tiling.segments is None", "{0}._tensor",
        _CUT.format("{0}", "serial"), _CUT.format("{0}", "spec"), array="{0}._array",
    ),
    MappedParam: _ArgumentText(
        "{0}.__class__ is _PersistentPartition", "True", "{0}.partition._tensor",
        _WALKED.format("{0}", "serial"), _WALKED.format("{0}", "spec"),
        array="{0}.partition._array",
    ),
    ScalarParam: _ArgumentText(
        "{0}.__class__ in _numbers", "True", "", _VALUE, "{0}.__class__", "{0}"
    ),
    ConstParam: _ArgumentText("{0}.__class__ in _constants", "True", "", _VALUE, _VALUE),
}  # fmt: skip
# A constant that is no float has one zero, so it needs no text.
_COUNT = _READS[ConstParam]._replace(same="{0}.__class__, {0}", like="{0}.__class__, {0}")
# A member of an enumeration, by its metaclass.
_MEMBER = _COUNT._replace(kind="{0}.__class__.__class__ is _EnumType")
# Scalar types, whose values are distinguished by their type and text.
_NUMBERS = frozenset(
    {bool, int, float, np.bool_}
    | {one for one in np.sctypeDict.values() if issubclass(one, (np.integer, np.floating))}
) - {np.timedelta64}
# Look-up: first a bound launch, then a plan; a miss takes the cold path.
_FIND = """
        _key = {same}
        _found = _table.get(_key)
        if _found.__class__ is _Bound:
            _captures = _found.captures
            if not _intercepted.values and (_captures is None or _captures.are_current()):
                return _Operation().build(_found, {tensors}, {uses}, {result}, {arrays})
        else:
            _planned = _plans.get((None, {like}))
            if _planned is not None:
                if _found is None and _planned.is_plain and {apart} and not _intercepted.values:
                    _young[_key] = _FIRST_HIT
                    if _len(_young) > _MANY:
                        _age()
                    return _Operation().build(_planned, {tensors}, {uses}, {result}, {arrays})
                _found = _plan(
                    _planned, _key, ({tensors}, {scalars}, {result}, {apart}, {arrays})
                )
                if _found is not None:
                    return _found
"""
_CALL = """def __call__(_kernel, {parameters}):
    if {kinds} and not _rest and not _more:{find}{otherwise}
    return _kernel.launch(None, _given({named}, _rest), _named({keywords}, _more))
"""
# An argument that is no `Tensor` may be a torch tensor, which has a wrapper.
_WRAPPED = """
        {handle} = {array} if {array}.__class__ is _Tensor else _wrapper({array})"""
_OTHERWISE = """
    elif not _rest and not _more:{handles}
        if {kinds}:{find}
"""
_READ = """def read{parameters}:
    if {kinds}:
        return {given}
"""


class _Missing:
    """The type of the placeholder for a missing argument."""


_MISSING = _Missing()


def _given(named: tuple[Any, ...], rest: tuple[Any, ...]) -> tuple[Any, ...]:
    """The positional arguments of the call."""
    return (*takewhile(lambda one: one is not _MISSING, named), *rest)


def _named(keywords: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of the call, with defaults."""
    return {name: one for name, one in keywords.items() if one is not _MISSING} | more


class FirstHit:
    """The marker of an address key that was launched once, by a plan; its second hit is bound."""


# The only instance.
FIRST_HIT = FirstHit()
# Bound launches of a kernel, in each of two generations.
MANY = 2048
_NAMES: dict[str, Any] = {
    "_Operation": LaunchOp,
    "_Bound": BoundLaunch,
    "_Tensor": Tensor,
    "_given": _given,
    "_named": _named,
    "_use": make_use,
    "_wrapper": find_wrapper,
    "_intercepted": INTERCEPTED,
    "_MANY": MANY,
    "_FIRST_HIT": FIRST_HIT,
    "_HostPartition": HostPartition,
    "_PersistentPartition": PersistentPartition,
    "_constants": _NUMBERS | {type, str, FunctionType, Builtin, Inferred},
    "_Inferred": Inferred,
    "_EnumType": EnumType,
    "_numbers": _NUMBERS,
    "_len": len,
    "_repr": repr,
}
_OWN_NAMES = frozenset(
    {
        *_NAMES,
        "_table",
        "_young",
        "_age",
        "_plans",
        "_plan",
        "_key",
        "_found",
        "_planned",
    }
    | {"_kernel", "_rest", "_more"}
)


class CallTables(NamedTuple):
    """The tables in which a call is looked up."""

    bound: BoundedTable[Any]  # by address key
    plans: BoundedTable[Any]  # by the given grid and the spec key
    plan: Callable[..., Any]  # builds an operation from a plan


def _read_of(param: Param) -> _ArgumentText:
    if isinstance(param, ConstParam) and issubclass(param.type, Enum):
        return _MEMBER
    is_count = isinstance(param, ConstParam) and param.type is not float
    return _COUNT if is_count else _READS[type(param)]


def make_readers(
    signature: Signature, call: inspect.Signature, known: CallTables
) -> Readers | None:
    """Generate the readers of a kernel; None if a parameter has an unsupported kind or name."""
    if any(type(param) not in _READS for param in signature.params):
        return None
    if not _OWN_NAMES.isdisjoint(call.parameters):
        return None
    reads = {param.name: _read_of(param) for param in signature.params}
    texts = _texts(signature, call, reads, {})
    whole = _all((texts["kinds"], *(read.also.format(name) for name, read in reads.items())))
    given = "{tensors}, {scalars}, {result}, {apart}, {arrays}"
    return Readers(
        _compile_call(call, known, texts | {"otherwise": _otherwise(signature, call, reads)}),
        _compile_reader(call, whole, "({same}, {tensors}, {result})".format(**texts)),
        _compile_reader(call, whole, f"({{like}}, ({given}))".format(**texts)),
    )


def _texts(
    signature: Signature,
    call: inspect.Signature,
    reads: dict[str, _ArgumentText],
    handles: dict[str, str],
) -> dict[str, str]:
    """The expressions of a call's parts; `handles` has other names for some arguments."""
    pairs = {name: (handles.get(name, name), read) for name, read in reads.items()}
    listed = [param.name for param in signature.tensors]  # in the order of a launch
    listed += [param.name for param in signature.pointers]
    tensors = [pairs[name][1].tensor.format(pairs[name][0]) for name in listed]
    scalars = (reads[param.name].scalar.format(param.name) for param in signature.scalars)
    found = {
        "kinds": _all(read.kind.format(name) for name, read in pairs.values()),
        "same": _tuple(read.same.format(name) for name, read in pairs.values()),
        "like": _tuple(read.like.format(name) for name, read in pairs.values()),
        "tensors": _tuple(tensors),
        "uses": _tuple(_uses(signature, listed, tensors)),
        "arrays": _tuple(_arrays(pairs, handles, listed)),
        "scalars": _tuple(scalars),
        "result": _tuple(_results(signature, call, pairs)),
        "apart": _all_apart(signature, listed, tensors),
    }
    return found | {"find": _FIND.format(**found)}


def _results(
    signature: Signature, call: inspect.Signature, pairs: dict[str, tuple[str, _ArgumentText]]
) -> Iterable[str]:
    """The results of an operation: the arguments, with inferred constants as numbers."""
    known = inferable(signature, call)
    for name in call.parameters:
        if name in known:
            param, axis = known[name]
            handle, read = pairs[param]
            extent = f"{read.tensor.format(handle)}.shape[{axis}]"
            yield f"({extent} if {name}.__class__ is _Inferred else {name})"
        else:
            yield name


def _otherwise(
    signature: Signature, call: inspect.Signature, reads: dict[str, _ArgumentText]
) -> str:
    """The look-up with wrappers in place of torch tensors."""
    handles = {name: f"_of_{name}" for name, read in reads.items() if read is _WHOLE}
    if not handles or not set(handles.values()).isdisjoint(call.parameters):
        return ""
    texts = _texts(signature, call, reads, handles)
    find = texts["find"].replace("\n    ", "\n        ")
    lines = "".join(_WRAPPED.format(array=name, handle=handle) for name, handle in handles.items())
    return _OTHERWISE.format(handles=lines, kinds=texts["kinds"], find=find)


def _written(signature: Signature) -> set[str]:
    return {param.name for param in signature.outputs} | {p.name for p in signature.pointers}


def _uses(signature: Signature, listed: list[str], tensors: list[str]) -> Iterable[str]:
    """The use of each tensor, which is made on demand."""
    written = _written(signature)
    for name, tensor in zip(listed, tensors, strict=True):
        slot = "_writing" if name in written else "_reading"
        yield f"{tensor}.{slot} or _use({tensor}, {name in written})"


def _arrays(
    pairs: dict[str, tuple[str, _ArgumentText]], handles: dict[str, str], listed: list[str]
) -> Iterable[str]:
    """The torch tensor behind each wrapper; None for other tensors."""
    for name in listed:
        if name in handles:
            yield f"None if {name}.__class__ is _Tensor else {name}"
        else:
            yield pairs[name][1].array.format(name)


def _all_apart(signature: Signature, listed: list[str], tensors: list[str]) -> str:
    """Whether no output shares a timeline, and so memory, with another tensor.

    The timeline of an ended range says nothing about overlaps, so accesses are checked then.
    """
    written = _written(signature)
    numbers = [number for number, name in enumerate(listed) if name in written]
    pairs = {
        (min(one, other), max(one, other))
        for one in numbers
        for other in range(len(listed))
        if one != other
    }
    text = "{}.storage.timeline is not {}.storage.timeline"
    apart = [text.format(tensors[a], tensors[b]) for a, b in sorted(pairs)]
    asked = sorted({number for pair in pairs for number in pair})
    known = [f"not {tensors[number]}.storage.timeline.is_ended" for number in asked]
    return _all([*apart, *known])


def _all(texts: Iterable[str]) -> str:
    return " and ".join(text for text in texts if text != "True") or "True"


def _tuple(parts: Any) -> str:
    return f"({''.join(f'{part}, ' for part in parts)})"


def _compile_call(
    call: inspect.Signature, known: CallTables, texts: dict[str, str]
) -> Callable[..., Any]:
    """Generate `__call__`, which accepts any arguments and detects missing and surplus ones."""
    keywords = [p.name for p in call.parameters.values() if p.kind is p.KEYWORD_ONLY]
    named = [name for name in call.parameters if name not in keywords]
    by_position = "".join(f"{name}=None, " for name in named)
    by_name = "".join(f"{name}=None, " for name in keywords)
    text = _CALL.format(
        **texts,
        parameters=f"{by_position}{'/, ' if named else ''}*_rest, {by_name}**_more",
        named=_tuple(named),
        keywords=f"{{{', '.join(f'{name!r}: {name}' for name in keywords)}}}",
    )
    names = {"_table": known.bound, "_plans": known.plans, "_plan": known.plan}
    names |= {"_young": known.bound.young, "_age": known.bound.age}
    made: Any = _compiled(text, "__call__", names)
    made.__defaults__ = (_MISSING,) * len(named)
    defaults = {name: call.parameters[name].default for name in keywords}
    made.__kwdefaults__ = {
        name: _MISSING if default is inspect.Parameter.empty else default
        for name, default in defaults.items()
    }
    result: Callable[..., Any] = made
    return result


def _compile_reader(call: inspect.Signature, kinds: str, given: str) -> Callable[..., Any]:
    """Generate a function with the parameters and the defaults of the kernel."""
    plain = [
        p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else None)
        for p in call.parameters.values()
    ]
    text = _READ.format(parameters=inspect.Signature(plain), kinds=kinds, given=given)
    read: Any = _compiled(text, "read", {})
    defaults = {p.name: p.default for p in call.parameters.values() if p.default is not p.empty}
    keywords = {p.name for p in call.parameters.values() if p.kind is p.KEYWORD_ONLY}
    read.__defaults__ = tuple(value for name, value in defaults.items() if name not in keywords)
    read.__kwdefaults__ = {name: value for name, value in defaults.items() if name in keywords}
    made: Callable[..., Any] = read
    return made


def _compiled(text: str, name: str, names: dict[str, Any]) -> Any:
    """Compile a function, with the names it uses as globals."""
    return define(text, "how a call is read", _NAMES | names)[name]
