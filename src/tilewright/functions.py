"""`@tw.function`: functions of tensors that build operations, with their launches cached.

    @tw.function
    def softmax(x: tw.Tensor, *, out: tw.Tensor | None = None) -> tw.DeviceOp[tw.Tensor]:
        z = tw.empty(x.shape, x.dtype, device=x.device) if out is None else out
        return softmax_rows(z.partition(1, None), x).giving(z)

The result of such a function may depend only on the layout of its tensors (dtype, shape, strides,
alignment, device), on its other arguments, and on tuned configurations. Equal calls then have equal
launches: a hit in the cache, keyed like that of kernels (`jit.launches`), builds the launch without
running the function. Everything else that the result depends on is part of the key or clears the
cache: context flags, tuning records, overlapping outputs, globals of the kernel. A chain of
launches is cached as well; any other result runs the function each time.

An argument may be an operation, as in a call of a kernel: it runs first, and its result is the
argument. It may also be an array of another library, which is used in place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial, update_wrapper
from types import FunctionType, NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from tilewright.errors import CompileError
from tilewright.jit.plans.call_reader import SEEN, Seen
from tilewright.jit.plans.choices import CHOICES, FORCED
from tilewright.jit.plans.courses import Course, note_course
from tilewright.jit.plans.recipes import Again, Recipe, Remade, Tensors, find_recipe
from tilewright.jit.plans.tables import Table
from tilewright.runtime.devices.context import UNUSUAL
from tilewright.runtime.devices.device import current_device
from tilewright.runtime.interop.imports import adopted, is_array
from tilewright.runtime.memory.tensor import Tensor
from tilewright.runtime.ops.deferring import defer, has_operations
from tilewright.runtime.ops.newcomers import NewcomerOp
from tilewright.runtime.ops.operation import DeviceOp
from tilewright.runtime.ops.ready import ReadyOp
from tilewright.runtime.text_functions import define

__all__ = ["function"]

F = TypeVar("F", bound=Callable[..., DeviceOp[Any]])
_SAME = 1024  # cached calls of a function, in each of two generations
_LIKE = 256
# Types whose values are interchangeable if type and value are equal.
_PLAIN = frozenset({bool, int, float, str, NoneType, type})
_TEXT = """def {name}({parameters}):
    if {kinds}:
        _how = None if {defaults} else ({values})
        _key = ({same} _how)
        _again = _same.get(_key)
        _tensors = ({tensors})
        if _again.__class__ is _Again and not _unusual.said and not _forced.said:
            if _again.captures is None or _again.captures.are_current():
                _picked, _result = _again.pick(_tensors), _again.give(_tensors)
                return _Operation().build(_again.ready, _picked, _result)
        elif _again.__class__ is _Remade and not _unusual.said and not _forced.said:
            if _again.place is _device():
                if _again.captures is None or _again.captures.are_current():
                    return _again.build(_tensors)
        _like = ({like} _how, _device())
        _found = _calls.again(_key, _like, _tensors)
        if _found is not None:
            return _found
        return _calls.first(_key, _like, _tensors, ({positional}), {{{keywords}}})
    return _calls.other(({all}))
"""


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
    """The cache of the calls of one function."""

    def __init__(self, body: FunctionType) -> None:
        self._body = body
        self._signature = inspect.signature(body)
        hints = _hints_of(body)
        self._kinds = {
            name: _kind_of(hints.get(name), has_default=parameter.default is not parameter.empty)
            for name, parameter in self._signature.parameters.items()
        }
        given = get_args(hints.get("return"))  # the operation's type arguments
        self._results = len(get_args(given[0])) if given and get_origin(given[0]) is tuple else 0
        self._groups = [name for name, kind in self._kinds.items() if kind.tensors > 1]
        kinds = {parameter.kind for parameter in self._signature.parameters.values()}
        self._is_by_name = inspect.Parameter.POSITIONAL_ONLY not in kinds
        self._same: Table[Again | Remade | Seen] = Table(_SAME)
        self._like: Table[Recipe | Course | Seen] = Table(_LIKE)
        CHOICES.tell(self)
        self.made = self._compiled()

    def forget(self) -> None:
        """Clear the cache, since a tuned configuration may have changed."""
        self._same.clear()
        self._like.clear()

    def again(self, key: Any, like: Any, tensors: Tensors) -> DeviceOp[Any] | None:
        """The operation for a cached call; None on a miss."""
        age = CHOICES.age
        recipe = self._like.find(like)
        if recipe is None or isinstance(recipe, Seen):
            return None
        if (UNUSUAL.said or FORCED.said) and _is_unusual():
            return None
        if isinstance(recipe, Course):
            return recipe.build(tensors)
        if recipe.captures is not None and not recipe.captures.are_current():
            return None
        found = recipe.for_tensors(tensors)
        if found is None:
            return None
        picked, result = found
        known = self._same.find(key)
        if known is None:
            self._same.put(key, SEEN)
        elif recipe.made:
            self._keep_same(age, key, Remade(recipe, current_device()))
        else:
            again = self._prepare(known, recipe, tensors)
            if again is not recipe and again is not known:
                self._keep_same(age, key, again)
            return ReadyOp().build(again.ready, picked, result, depth=3)
        return NewcomerOp().build(recipe.ready, picked, result, depth=3)

    @staticmethod
    def _prepare(known: Again | Remade | Seen, recipe: Recipe, tensors: Tensors) -> Again:
        """The launch bound to these handles, which were launched before."""
        if isinstance(known, Again) and known.ready.plan is recipe.ready.plan:
            return known  # its plan is still current
        return recipe.prepared(tensors) or recipe

    def first(
        self, key: Any, like: Any, tensors: Tensors, args: tuple[Any, ...], named: dict[str, Any]
    ) -> DeviceOp[Any]:
        """Run the function, and cache its launch."""
        age = CHOICES.age
        operation: DeviceOp[Any] = self._body(*args, **named)
        if self._like.find(like) is None:
            self._like.put(like, SEEN)  # cached from the second call on: most scalars never repeat
        elif not _is_unusual():
            recipe = find_recipe(operation, tensors)
            if recipe is None:
                note_course(operation, tensors, partial(self._keep, age, like))
            elif recipe.is_for_all:
                self._keep(age, like, recipe)
            elif not recipe.made:
                self._keep_same(age, key, recipe.prepared(tensors))
        return operation

    def _keep(self, age: int, like: Any, recipe: Recipe | Course) -> None:
        with CHOICES.lock:
            if age == CHOICES.age:  # no configuration has changed meanwhile
                self._like.put(like, recipe)

    def _keep_same(self, age: int, key: Any, kept: Again | Remade | None) -> None:
        with CHOICES.lock:
            if age == CHOICES.age and kept is not None:
                self._same.put(key, kept)

    def other(self, values: tuple[Any, ...]) -> DeviceOp[Any]:
        """A call with an argument of another type: an array, an operation, or a mistake."""
        parameters = self._signature.parameters.values()
        pairs = zip(parameters, values, strict=True)
        given = {one.name: value for one, value in pairs if value is not one.default}
        if self._take_arrays(given):
            return self._call(self.made, given)
        if not has_operations(given.values()):
            return self._call(self._body, given)
        names = tuple(given)

        def build(results: tuple[Any, ...]) -> DeviceOp[Any]:
            return self._call(self.made, dict(zip(names, results, strict=True)))

        label, count = self._body.__name__, self._results or None
        return defer(label, given, build, count=count, tuples=self._groups)

    def _call(self, function: Callable[..., DeviceOp[Any]], given: dict[str, Any]) -> DeviceOp[Any]:
        if self._is_by_name:
            return function(**given)
        whole = inspect.BoundArguments(self._signature, given)
        return function(*whole.args, **whole.kwargs)

    def _take_arrays(self, arguments: dict[str, Any]) -> bool:
        """Replace arrays of other libraries by tensors; whether there were any."""
        taken = False
        for name, value in arguments.items():
            width = self._kinds[name].tensors
            if isinstance(value, (Tensor, DeviceOp)) or not width:
                continue
            if width > 1 and isinstance(value, tuple):
                arguments[name] = tuple(map(_taken, value))
                taken |= any(map(_is_foreign, value))
            elif is_array(value):
                arguments[name] = _taken(value)
                taken = True
        return taken

    def _compiled(self) -> Callable[..., Any]:
        """The function that users call, with the signature of the body."""
        parameters = self._signature.parameters.values()
        known: dict[str, Any] = {
            "_Again": Again, "_Operation": ReadyOp, "_Remade": Remade, "_Tensor": Tensor,
            "_calls": self, "_device": current_device, "_forced": FORCED, "_plain": _PLAIN,
            "_len": len, "_repr": repr, "_tuple": tuple, "_same": self._same, "_unusual": UNUSUAL,
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
        values = [name for name in parameters if name not in tensors]
        keywords = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
        needed = [name for name in values if parameters[name].default is inspect.Parameter.empty]
        usual = [f"{name} is _default_{name}" for name in values if not needed]
        is_usual = " and ".join(usual) or str(not needed)
        are_plain = " and ".join(f"{name}.__class__ in _plain" for name in values) or "True"
        kinds = [*(_is_of_kind(*one) for one in tensors.items()), f"({is_usual} or {are_plain})"]
        return _TEXT.format(
            name=self._body.__name__,
            parameters=str(inspect.Signature(bare))[1:-1],
            kinds=" and ".join(kinds),
            defaults=is_usual,
            values=_listed(f"{name}.__class__, {name} or (_repr({name}),)" for name in values),
            same=_listed(part for one in tensors.items() for part in _fields(*one, "serial")),
            like=_listed(part for one in tensors.items() for part in _fields(*one, "facet")),
            tensors=_listed(part for one in tensors.items() for part in _tensors(*one)),
            all=_listed(parameters),
            positional=_listed(name for name in parameters if name not in keywords),
            keywords=_listed(f"{name!r}: {name}" for name in keywords),
        )


def _is_foreign(value: Any) -> bool:
    """Whether a value is an array of another library."""
    return not isinstance(value, Tensor) and is_array(value)


def _taken(value: Any) -> Any:
    """A tensor on the memory of an array; any other value unchanged."""
    return adopted(value) if _is_foreign(value) else value


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


def _is_unusual() -> bool:
    """Whether a context flag makes a call differ from the cached one."""
    return bool(UNUSUAL.get()) or FORCED.get() is not None


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


def _is_of_kind(name: str, kind: _ParameterKind) -> str:
    """The test that an argument has its annotated kind, as Python text."""
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
    """The tensors of an argument, as Python text; None for an absent one."""
    if kind.tensors > 1:
        return [f"None if {name} is None else {name}[{item}]" for item in range(kind.tensors)]
    return [f"{name} if {name}.__class__ is _Tensor else None" if kind.is_mixed else name]


def _fields(name: str, kind: _ParameterKind, field: str) -> list[str]:
    """A field of each tensor, or the argument itself if it is none."""
    if kind.tensors > 1:
        items = [f"{name}[{item}].{field}" for item in range(kind.tensors)]
        return [f"None if {name} is None else {item}" for item in items]
    if kind.is_mixed:
        value = f"({name}.__class__, {name} or (_repr({name}),))"
        return [f"{name}.{field} if {name}.__class__ is _Tensor else {value}"]
    return [
        f"None if {name} is None else {name}.{field}" if kind.is_optional else f"{name}.{field}"
    ]
