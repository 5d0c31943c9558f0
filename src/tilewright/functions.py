"""`@tw.function`: functions of tensors that build operations, with their launches cached.

    @tw.function
    def softmax(x: tw.Tensor, *, out: tw.Tensor | None = None) -> tw.DeviceOp[tw.Tensor]:
        z = tw.empty(x.shape, x.dtype, device=x.device) if out is None else out
        return softmax_rows(z.partition(1, None), x).giving(z)

Such a function may depend on the specs of its tensors (dtype, shape, strides, alignment, device),
on its other arguments and on tuned configurations, and on nothing else. Calls with equal keys then
have the same launches. The function cache keeps them, and a hit does not run the function. Context
flags, overlaps of outputs and captures of the kernels are checked at every hit, and a change of the
records empties the cache.

An argument may be an operation, as in a call of a kernel: it runs first, and its result is the
argument. An argument may be an array of another library, which is read or written in place, and is
itself the result where its tensor would be.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial, update_wrapper
from types import FunctionType, NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from tilewright.errors import CompileError, InternalError, TilewrightError
from tilewright.jit.plans.call_reader import FIRST_HIT, FirstHit
from tilewright.jit.plans.config_override import CONFIG_CACHES, CONFIG_OVERRIDE
from tilewright.jit.plans.function_cache import Entry, Tensors, aliases, find_entry, observe
from tilewright.jit.plans.tables import BoundedTable
from tilewright.runtime.devices.context import INTERCEPTED
from tilewright.runtime.devices.device import CHOSEN_DEVICE, current_device
from tilewright.runtime.interop.imports import as_tensor, is_array
from tilewright.runtime.interop.passed import find_wrapper
from tilewright.runtime.memory.tensor import Tensor
from tilewright.runtime.ops.call_site import with_user_frames
from tilewright.runtime.ops.deferring import defer, has_operations
from tilewright.runtime.ops.operation import DeviceOp
from tilewright.runtime.text_functions import define

__all__ = ["function"]

F = TypeVar("F", bound=Callable[..., DeviceOp[Any]])
_ENTRIES = 256  # of one function, in each of two generations
# Types whose values are interchangeable if type and value are equal.
_PLAIN = frozenset({bool, int, float, str, NoneType, type})
_TEXT = """def {name}({parameters}):
    if {kinds}:
        _tensors, _arrays, _specs = ({tensors}), (), ({specs})
    else:{handles}
        if {wrapped_kinds}:
            _tensors, _arrays, _specs = ({wrappers}), ({arrays}), ({wrapped_specs})
        else:
            return _calls.other(({all}))
    _like = (_specs, None if {defaults} else ({values}), _device() if _chosen.values else None)
    _found = _entries.get(_like)
    if _found.__class__ is _Entry and not _intercepted.values and not _override.values:
        if not _found.captures or _found.is_current:
            _operation = _found.build(_tensors, _arrays, 2)
            if _operation is not None:
                return _operation
    return _calls.look(_like, _tensors, _arrays, ({all}))
"""
# An argument that is no `Tensor` may be a torch tensor, which has a wrapper.
_HANDLE = """
        {handle} = {name} if {name}.__class__ in _own else _wrapper({name})
        if {handle} is None:
            {handle} = {name}"""
# The same for a tuple of tensors.
_HANDLES = """
        {handle} = {name} if {name} is None else _wrappers({name})"""


def function(body: F) -> F:
    """Cache the launches of a function of tensors: `@tw.function`.

    The annotations of its parameters mark the tensors: `tw.Tensor`, `tw.Tensor | None`, or a tuple
    of tensors. Its decisions must depend on the arguments and tuned configurations alone: never on
    the contents or the identity of a tensor, nor on mutable state. A cached call does not run the
    body, so an operation that the body submits itself is not submitted again: return one operation
    instead.
    """
    if not isinstance(body, FunctionType) or not body.__name__.isidentifier():
        raise CompileError(f"@tw.function takes a function that is defined by `def`, not {body!r}")
    for parameter in inspect.signature(body).parameters.values():
        is_several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if is_several or parameter.name.startswith("_"):
            raise CompileError(
                f"`{parameter}` of function `{body.__name__}`: calls are found again by their"
                " parameters, so each has a name of its own, with no `_` in front"
            )
    return cast("F", _Calls(body).made)


class _Calls:
    """The function cache of one function."""

    def __init__(self, body: FunctionType) -> None:
        self._body = body
        self._signature = inspect.signature(body)
        hints = _hints_of(body)
        self._kinds = {
            name: _kind_of(hints.get(name), has_default=parameter.default is not parameter.empty)
            for name, parameter in self._signature.parameters.items()
        }
        given = get_args(hints.get("return"))  # of the operation
        self._results = len(get_args(given[0])) if given and get_origin(given[0]) is tuple else 0
        self._groups = [name for name, kind in self._kinds.items() if kind.tensors > 1]
        kinds = {parameter.kind for parameter in self._signature.parameters.values()}
        self._is_by_name = inspect.Parameter.POSITIONAL_ONLY not in kinds
        self._entries: BoundedTable[Entry | FirstHit] = BoundedTable(_ENTRIES)
        CONFIG_CACHES.register(self)
        self.made = self._compiled()

    def forget(self) -> None:
        """Drop all entries: another configuration may be chosen."""
        self._entries.clear()

    def look(
        self, like: Any, tensors: Tensors, arrays: tuple[Any, ...], values: tuple[Any, ...]
    ) -> DeviceOp[Any]:
        """Build the operation of a call that the generated code has not found, or run the body."""
        version, alike = CONFIG_CACHES.version, aliases(tensors)
        key = like if alike == tuple(range(len(tensors))) else (like, alike)
        if alike is not None and not _is_intercepted():
            entry = self._entries.find(key)
            if isinstance(entry, Entry) and entry.is_current:
                operation = entry.build(tensors, arrays, 3)
                if operation is not None:
                    return operation
        given = self._given(values)
        replaced = _Replaced()
        if arrays:
            given = {name: replaced.tensor(value) for name, value in given.items()}
            pairs = zip(tensors, arrays, strict=True)
            tensors = tuple([t if a is None else replaced.tensor(a) for t, a in pairs])
        made = self._call(self._body, given)
        if self._entries.find(key) is None:
            self._entries.put(key, FIRST_HIT)  # most keys with changing numbers have no second hit
        elif alike is not None and not _is_intercepted():
            found = find_entry(made, tensors, alike)
            if found is None:
                observe(made, tensors, alike, partial(self._keep, version, key))
            else:
                self._keep(version, key, found)
        return replaced.given_back(made)

    def _keep(self, version: int, key: Any, entry: Entry) -> None:
        with CONFIG_CACHES.lock:
            if version == CONFIG_CACHES.version:  # no configuration has changed meanwhile
                self._entries.put(key, entry)

    def other(self, values: tuple[Any, ...]) -> DeviceOp[Any]:
        """Handle a call with other arguments: arrays of any library, operations, or wrong types."""
        given = self._given(values)
        replaced = _Replaced()
        taken = {name: self._taken(name, value, replaced) for name, value in given.items()}
        if replaced:
            return replaced.given_back(self._call(self.made, taken))
        if not has_operations(given.values()):
            return self._call(self._body, given)
        names = tuple(given)

        def build(results: tuple[Any, ...]) -> DeviceOp[Any]:
            return self._call(self.made, dict(zip(names, results, strict=True)))

        label, count = self._body.__name__, self._results or None
        return defer(label, given, build, count=count, tuples=self._groups)

    def _given(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """The arguments that are not defaults, by name."""
        pairs = zip(self._signature.parameters.values(), values, strict=True)
        return {one.name: value for one, value in pairs if value is not one.default}

    def _taken(self, name: str, value: Any, replaced: _Replaced) -> Any:
        """Replace an array by its tensor, if the parameter is a tensor."""
        width = self._kinds[name].tensors
        if not width or isinstance(value, (Tensor, DeviceOp)):
            return value
        if width > 1:
            return replaced.tensor(value) if isinstance(value, tuple) else value
        return replaced.tensor(value)

    def _call(self, function: Callable[..., DeviceOp[Any]], given: dict[str, Any]) -> DeviceOp[Any]:
        try:
            if self._is_by_name:
                return function(**given)
            whole = inspect.BoundArguments(self._signature, given)
            return function(*whole.args, **whole.kwargs)
        except InternalError:
            raise
        except TilewrightError as error:
            raise with_user_frames(error)  # noqa: B904 (the same exception)

    def _compiled(self) -> Callable[..., Any]:
        """Generate the public function, with the parameters of the body."""
        parameters = self._signature.parameters.values()
        known: dict[str, Any] = {
            "_Entry": Entry, "_Tensor": Tensor, "_calls": self, "_device": current_device,
            "_chosen": CHOSEN_DEVICE,
            "_entries": self._entries, "_override": CONFIG_OVERRIDE, "_len": len, "_own": _OWN,
            "_plain": _PLAIN, "_repr": repr, "_tuple": tuple, "_intercepted": INTERCEPTED,
            "_wrapper": find_wrapper, "_wrappers": _find_wrappers,
        }  # fmt: skip
        known |= {f"_default_{p.name}": p.default for p in parameters if p.default is not p.empty}
        made = define(self._text(), "how a function is called", known)[self._body.__name__]
        made.__defaults__, made.__kwdefaults__ = self._body.__defaults__, self._body.__kwdefaults__
        update_wrapper(made, self._body)
        result: Callable[..., Any] = made
        return result

    def _text(self) -> str:
        """The source of the generated function."""
        parameters = self._signature.parameters
        bare = [
            p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else None)
            for p in parameters.values()
        ]
        tensors = {name: kind for name, kind in self._kinds.items() if kind.tensors}
        either = {name: f"_of_{name}" for name in tensors}
        values = [name for name in parameters if name not in tensors]
        needed = [name for name in values if parameters[name].default is inspect.Parameter.empty]
        usual = [f"{name} is _default_{name}" for name in values if not needed]
        is_usual = " and ".join(usual) or str(not needed)
        are_plain = " and ".join(f"{name}.__class__ in _plain" for name in values) or "True"
        plain = f"({is_usual} or {are_plain})"
        own = {name: name for name in tensors}
        return _TEXT.format(
            name=self._body.__name__,
            parameters=str(inspect.Signature(bare))[1:-1],
            kinds=_kinds(tensors, own, plain),
            tensors=_each(tensors, own, _tensors),
            specs=_each(tensors, own, _specs),
            handles="".join(
                (_HANDLES if tensors[name].tensors > 1 else _HANDLE).format(handle=h, name=name)
                for name, h in either.items()
            )
            or "\n        pass",
            wrapped_kinds=_kinds(tensors, either, plain),
            wrappers=_each(tensors, either, _tensors),
            arrays=_each(tensors, own, _arrays),
            wrapped_specs=_each(tensors, either, _specs),
            defaults=is_usual,
            values=_listed(f"{name}.__class__, {name} or (_repr({name}),)" for name in values),
            all=_listed(parameters),
        )


class _Replaced:
    """The tensors of a call in place of arrays of other libraries."""

    def __init__(self) -> None:
        self._tensors: dict[int, Any] = {}  # by the identity of the array
        self._arrays: dict[int, Any] = {}  # by the identity of the tensor

    def __bool__(self) -> bool:
        return bool(self._arrays)

    def tensor(self, value: Any) -> Any:
        """The tensor of an array, one for each array; any other object itself."""
        if isinstance(value, tuple):
            return tuple(map(self.tensor, value))
        if isinstance(value, (Tensor, DeviceOp)) or not is_array(value):
            return value
        found = self._tensors.get(id(value))
        if found is None:
            found = self._tensors[id(value)] = as_tensor(value)
            self._arrays[id(found)] = value
        return found

    def given_back(self, operation: DeviceOp[Any]) -> DeviceOp[Any]:
        """Replace tensors by their arrays in the result of the operation."""
        return operation.map(self._result) if self._arrays else operation

    def _result(self, result: Any) -> Any:
        if isinstance(result, tuple):
            return tuple(map(self._result, result))
        return self._arrays.get(id(result), result)


_OWN = frozenset({Tensor, *_PLAIN})


def _find_wrappers(group: Any) -> Any:
    """A tuple with wrappers in place of torch tensors; the same object if one has none."""
    if group.__class__ is not tuple:
        return group
    found = tuple([one if one.__class__ in _OWN else find_wrapper(one) for one in group])
    return group if None in found else found


def _hints_of(body: FunctionType) -> dict[str, Any]:
    """Annotations of the body, which mark the tensors."""
    try:
        return get_type_hints(body)
    except NameError as error:
        raise CompileError(
            f"the annotations of function `{body.__name__}` say which of its parameters are"
            f" tensors, and one of them is not known where it is declared: {error}"
        ) from None


def _listed(parts: Iterable[str]) -> str:
    return "".join(f"{part}, " for part in parts)


def _is_intercepted() -> bool:
    """Whether a context flag makes a call differ from the cached one."""
    return bool(INTERCEPTED.get()) or CONFIG_OVERRIDE.get() is not None


class _ParameterKind(NamedTuple):
    """The kind of an argument, by its annotation."""

    tensors: int  # number of tensors; 0 for another type
    is_optional: bool  # None is allowed
    is_mixed: bool  # a number is allowed


def _kind_of(hint: Any, *, has_default: bool) -> _ParameterKind:
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    widths = [_width(member) for member in members]
    others = [one for one, width in zip(members, widths, strict=True) if not width]
    is_mixed = bool(others) and others != [NoneType]
    return _ParameterKind(max(widths, default=0), has_default or NoneType in others, is_mixed)


def _width(hint: Any) -> int:
    """Number of tensors in a value of a type."""
    if hint is Tensor:
        return 1
    items = get_args(hint) if get_origin(hint) is tuple else ()
    return len(items) if items and all(item is Tensor for item in items) else 0


def _kinds(tensors: dict[str, _ParameterKind], names: dict[str, str], plain: str) -> str:
    """The condition that all arguments match their annotations."""
    return " and ".join([*(_is_of_kind(names[n], kind) for n, kind in tensors.items()), plain])


def _each(
    tensors: dict[str, _ParameterKind],
    names: dict[str, str],
    texts: Callable[[str, _ParameterKind], list[str]],
) -> str:
    return _listed(text for name, kind in tensors.items() for text in texts(names[name], kind))


def _is_of_kind(name: str, kind: _ParameterKind) -> str:
    """The condition that an argument matches its annotation."""
    if kind.tensors > 1:
        items = [f"{name}[{item}].__class__ is _Tensor" for item in range(kind.tensors)]
        whole = [f"{name}.__class__ is _tuple", f"_len({name}) == {kind.tensors}", *items]
        found = " and ".join(whole)
    else:
        found = f"{name}.__class__ is _Tensor"
    if kind.is_mixed:
        return f"({found} or {name}.__class__ in _plain)"
    return f"({found} or {name} is None)" if kind.is_optional else found


def _tensors(name: str, kind: _ParameterKind) -> list[str]:
    """The tensors of an argument; None for an omitted one."""
    if kind.tensors > 1:
        return [f"None if {name} is None else {name}[{item}]" for item in range(kind.tensors)]
    return [f"{name} if {name}.__class__ is _Tensor else None" if kind.is_mixed else name]


def _arrays(name: str, kind: _ParameterKind) -> list[str]:
    """The torch tensor behind a wrapper; None for other tensors."""
    names = [f"{name}[{item}]" for item in range(kind.tensors)] if kind.tensors > 1 else [name]
    is_ours = f"{name} is None or " if kind.tensors > 1 else ""
    return [f"None if {is_ours}{one}.__class__ in _own else {one}" for one in names]


def _specs(name: str, kind: _ParameterKind) -> list[str]:
    """The spec of each tensor, or the value of another argument."""
    if kind.tensors > 1:
        items = [f"{name}[{item}].spec" for item in range(kind.tensors)]
        return [f"None if {name} is None else {item}" for item in items]
    if kind.is_mixed:
        value = f"({name}.__class__, {name} or (_repr({name}),))"
        return [f"{name}.spec if {name}.__class__ is _Tensor else {value}"]
    return [f"None if {name} is None else {name}.spec" if kind.is_optional else f"{name}.spec"]
