"""Values that a kernel may find outside itself and can mostly not use; some with hostile code."""

import array
import collections
import contextlib
import ctypes
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import inspect
import math
import operator
import re
import types
import typing
import weakref

import ml_dtypes
import numpy as np

import tilewright as tw
from tilewright.dims import B

__all__ = ["ODD"]


def _raise(*_: object, **__: object) -> typing.NoReturn:
    raise RuntimeError("code of the author")


def _hostile(kind: type, *methods: str) -> type:
    """A subclass whose methods raise."""
    return type(f"Hostile{kind.__name__.title()}", (kind,), dict.fromkeys(methods, _raise))


class _HostileMeta(type):
    def __getattribute__(cls, name: str) -> object:
        if name.startswith("__dataclass"):
            raise RuntimeError(name)
        return super().__getattribute__(name)


class _OfHostileMeta(metaclass=_HostileMeta): ...


Named = collections.namedtuple("Named", "a b")  # noqa: PYI024


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int = 1
    b: typing.Any = None


@dataclasses.dataclass(frozen=True)
class Unset:
    a: int = dataclasses.field(init=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    a: int = 3


@dataclasses.dataclass
class Mutable:
    a: int = 1


class Values(enum.Enum):
    LIST = [1]
    NONE = None
    PAIR = (1, 2)
    HALF = 0.5


class HostileNumber(enum.IntEnum):
    ZERO = 0
    HUGE = 1 << 80
    __add__ = __mul__ = __bool__ = __repr__ = __format__ = __eq__ = _raise
    __hash__ = int.__hash__


class HostileMember(enum.Enum):
    ONE = 1
    __eq__ = __bool__ = __repr__ = __str__ = __format__ = _raise
    __hash__ = object.__hash__


class Flags(enum.Flag):
    A = 1
    B = 2


class Texts(str, enum.Enum):  # noqa: UP042
    A = "a"


def plain(a, b=2):
    return a


def generator(a):
    yield a


async def asynchronous(a):
    return a


def recursive(a):
    return recursive(a)


def list_by_default(a=[1]):  # noqa: B006
    return a


def _changed(**attributes: object) -> types.FunctionType:
    """A function with attributes of its own."""

    def made(a):
        return a

    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def _executed() -> typing.Any:
    made: dict[str, typing.Any] = {}
    exec("def made(a):\n    return a + 1\n", made)
    return made["made"]


_cyclic: list[typing.Any] = []
_cyclic.append(_cyclic)
_itself: typing.Any = functools.partial(plain, 1)
_itself.keywords["b"] = _itself
_module = types.ModuleType("hostile")
_module.__getattr__ = _raise  # type: ignore[method-assign]
_nameless = types.ModuleType("nameless")
vars(_nameless).update(__name__=None, __all__=3)
_first = lambda a: _second(a)  # noqa: E731
_second = lambda a: _first(a)  # noqa: E731

ODD: tuple[typing.Any, ...] = (
    # numbers
    np.timedelta64(1, "s"), np.datetime64("2020"), np.void(b"abc"), np.str_("a"), np.bytes_(b"a"),
    np.complex128(1j), np.longdouble(1.5), np.float32("nan"), ml_dtypes.float8_e4m3fn(1.5),
    ml_dtypes.int4(3), np.array(3), np.zeros(1, dtype=[("a", "i4")])[0], -math.inf, 10**5000,
    1 << 70, 5e-324, 1j, decimal.Decimal("1.5"), fractions.Fraction(1, 3), ctypes.c_int(3),
    _hostile(int, "__index__", "__bool__", "__eq__", "__repr__", "__add__")(3),
    _hostile(float, "__float__", "hex", "__mul__", "__repr__")(2.5), np.float32, np.dtype("f4"),
    np.True_, np.ones((2, 2)), np.finfo(np.float32), np,
    # text and containers
    b"x", ..., NotImplemented, "", "a\0b", "\ud800", "%d", range(3), slice(1, 2), frozenset({1}),
    memoryview(b"ab"), datetime.date(2020, 1, 1), array.array("i", [1]), {1: 2}, (1, _cyclic),
    types.MappingProxyType({"x": 1}), _hostile(str, "__str__", "__format__", "__repr__")("a"),
    _hostile(tuple, "__iter__", "__len__")((1, 2)), Named(1, [2]), Named(1, 2.5), Named,
    _hostile(Named, "__getattribute__")(1, 2), (1, (f"{2}", None)),
    # objects and classes
    _hostile(object, "__getattr__")(), _hostile(object, "__getattribute__")(),
    _hostile(object, "__eq__")(), _hostile(object, "__repr__", "__str__")(),
    _hostile(object, "__bool__")(), _hostile(object, "__call__")(), _OfHostileMeta,
    _OfHostileMeta(), Frozen(), Frozen(1, Frozen(2, [1])), Frozen("x"), Frozen, Unset, Unset(),
    Slotted(), Mutable(), Mutable, Values.LIST, Values.NONE, Values.PAIR, Values,
    HostileNumber.ZERO, HostileNumber.HUGE, HostileMember.ONE, HostileMember, Flags.A | Flags.B,
    Texts.A, types.SimpleNamespace(x=1), _module, _nameless, re.compile("a"), ValueError,
    ValueError("x"),
    typing.TypeVar("V"), list[int], typing.Annotated[int, 3], int | None, typing.Any,
    typing.Literal[1], type, object, int, str, tuple, super, print, contextlib.nullcontext(),
    # functions
    functools.lru_cache(plain), functools.wraps(plain)(lambda *a: plain(*a)), staticmethod(plain),
    classmethod(plain), property(plain), "abc".upper, operator.itemgetter(0), operator.add, np.add,
    math.sqrt, weakref.ref(plain), weakref.proxy(plain), generator, asynchronous, recursive,
    list_by_default, contextlib.contextmanager(generator), eval("lambda a: a + 1"), _executed(),
    types.FunctionType(plain.__code__, {}, "of no module"), _changed(__module__=3),
    _changed(__signature__="nonsense"), _changed(__signature__=inspect.Signature()),
    _changed(__code__=plain.__code__), _changed(__name__="odd name", __qualname__="x" * 500),
    _changed(__wrapped__=len), _changed(__defaults__=(_cyclic,)), _first, lambda x: x(x),
    lambda *, a=1: a, lambda *a, **k: a, lambda a, /: a, (lambda: 1, lambda: 1),
    functools.partial(plain, b=3), functools.partial(plain, [1]), functools.partial(len),
    functools.partial(plain, nope=3), functools.partial(plain, 1, 2, 3), _itself,
    functools.partial(tw.f32, 1), functools.partial(tw.sum, axis=0), functools.partial(Frozen, a=1),
    functools.partial(functools.partial, plain), functools.partialmethod(plain), plain.__code__,
    # names of this package in places where they are nothing
    tw, tw.Kernel, tw.DType, tw.AnyDType, tw.f32, B, tw.Ref, tw.Ref[tw.f32, B], tw.Tile,
    tw.device, tw.zeros, tw.All, tw.kernel,
)  # fmt: skip
