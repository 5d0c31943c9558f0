"""Any object at any place where the host takes one: taken, or refused by a documented exception.

No object of a user's may end in an internal error, an assertion of ours, or whatever exception its
own methods raise. `GIVEN_EXAMPLES=20000` looks for longer.
"""

from __future__ import annotations

import array
import datetime
import os
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import Accum, Const, Mapped, Mut, Ref, bool_, f32, i32, kernels
from tilewright.dims import B, N
from tilewright.errors import InternalError
from tilewright.given import shown

EXAMPLES = int(os.environ.get("GIVEN_EXAMPLES", "150"))


@tw.kernel
def every(
    z: Mut[f32, B], w: Mut[f32, B], x: Ref[f32, N], a: Accum[f32, N], i: i32, s: f32, on: bool_,
    *, n: Const[int] = 1, h: Const[float] = 0.5, flag: Const[bool] = False,
) -> None:  # fmt: skip
    a.add(x.load_like(z) * s + h * n, z.index[0])
    z.store(x.partition(B)[i])
    w.store(tw.zeros((B,), f32))
    if on and flag:
        w.store(tw.ones((B,), f32))


@tw.kernel
def walk(z: Mapped[f32, B]) -> None:
    for at in z.indices():
        z.store(tw.ones((B,), f32), at)


class Four(IntEnum):
    FOUR = 4


class Raising:
    """Raises, whatever is asked of it."""

    def __repr__(self):
        raise RuntimeError("not today")

    __str__ = __index__ = __int__ = __float__ = __bool__ = __len__ = __iter__ = __array__ = __repr__
    __call__ = __dlpack_device__ = __dlpack__ = __contains__ = __neg__ = __abs__ = __repr__

    def __eq__(self, other):
        raise RuntimeError("not today")

    __lt__ = __le__ = __gt__ = __ge__ = __add__ = __mul__ = __mod__ = __getitem__ = __eq__
    __hash__ = None

    @property
    def dtype(self):
        raise RuntimeError("not today")

    shape = device = __cuda_stream__ = next_stream = dtype


class Interface:
    """Says anything as an array."""

    def __init__(self, said):
        self.__array_interface__ = self.__cuda_array_interface__ = said


class Exporting:
    """Exports anything by DLPack."""

    def __init__(self, place, capsule):
        self.place, self.capsule = place, capsule

    def __dlpack_device__(self):
        return self.place

    def __dlpack__(self, **_):
        return self.capsule


def liar(number, said):
    names = ("__int__", "__index__", "__hash__", "__neg__", "__abs__", "__bool__")
    methods = {name: lambda _: said for name in names}
    methods |= {name: lambda *_: bool(said % 2) for name in ("__eq__", "__lt__", "__ge__")}
    return type("Liar", (int,), methods)(number)


def among(known):
    """One of some objects, which need not be hashable."""
    return st.integers(0, len(known) - 1).map(lambda number: known[number])


class Box:
    """Holds an object, and can be shown whatever that is."""

    def __init__(self, item):
        self.item = item

    def __repr__(self):
        return shown(self.item)


numbers = st.one_of(
    st.integers(-4, 20), st.integers(), st.floats(), st.booleans(), st.complex_numbers(),
    among([2**31, 2**62, 2**63, 2**64, 10**400, 10**5000, float("nan"), Four.FOUR]),
    st.builds(liar, st.integers(-2, 2**40), st.integers(-2, 20)),
    among([np.int8(4), np.uint64(2**63), np.float16(4), np.bool_(1), np.complex64(4)]),
    among([np.timedelta64(4, "s"), np.datetime64(4, "s"), np.void(b"1234"), np.str_("4")]),
    among([Decimal(4), Fraction(4), datetime.timedelta(4), np.longdouble(4)]),
)  # fmt: skip
things = among([
    None, ..., NotImplemented, "x", "cpu", "meta:90", b"4", [], [4], (), (4,), {}, {"z": 4}, set(),
    int, f32, tw.Tensor, len, every, range(4), slice(1, None), object(), Raising(), Mock(),
    Mock(spec=int), Mock(spec=tw.Tensor), bytearray(16), memoryview(bytes(16)),
    array.array("f", [4]),
    np.zeros(16, np.float32), np.zeros((4, 4), np.float32), np.array(4), np.array("x"), np.float32,
    np.array([object()]), np.zeros(4, "M8[s]"), np.zeros(4, ">f4"), np.ma.zeros(4), np.dtype("f4"),
    np.zeros(16, np.float32)[::-1], np.zeros(4, [("a", "f4")]), Interface(None),
    Interface({}), Interface({"shape": (2**62,)}), Exporting((1, 0), None), Exporting((9, -1), 4),
    Exporting(None, object()), Exporting((1, 0), "x"), Raising, Exception("x"), Exception,
])  # fmt: skip
objects = st.one_of(numbers, things, st.tuples(numbers, numbers), st.lists(numbers, max_size=2))
boxes = objects.map(Box)


class Host:
    """Tensors and operations of one example, all of which are closed at its end."""

    def __init__(self):
        self.z, self.w, self.x, self.a = (tw.zeros((16,), f32) for _ in range(4))
        self.built = []

    def keep(self, operation):
        self.built.append(operation)
        return operation

    def close(self):
        for operation in self.built:
            if isinstance(operation, tw.DeviceOp):
                operation.close()

    def launch(self, *, grid=None, **changed):
        given = {
            "z": self.z.partition(4), "w": self.w.partition(4), "x": self.x, "a": self.a, "i": 1,
            "s": 2.0, "on": True,
        } | changed  # fmt: skip
        kernel = every if grid is None else every.grid(*grid)
        return self.keep(kernel(**given))

    def fill(self):
        return self.keep(tw.fill(self.z, 1))

    def graph(self):
        return self.record(self.fill())

    def record(self, operation):
        with tw.graph() as graph:
            graph.record(operation)
        return graph


PLACES = {
    **{
        f"the launch's {name}": lambda host, one, name=name: host.launch(**{name: one})
        for name in ("z", "w", "x", "a", "i", "s", "on", "n", "h", "flag")
    },
    "a launch by position": lambda host, one: host.keep(every(one, one, one, one, one, one, one)),
    "the grid": lambda host, one: host.launch(grid=(one,)),
    "a tile": lambda host, one: host.launch(z=host.z.partition(one)),
    "order=": lambda host, one: host.z.partition(4, order=one),
    "an axis of order=": lambda host, one: host.z.partition(4, order=(one,)),
    "prefix=": lambda host, one: host.z.partition(4, prefix=one),
    "segments=": lambda host, one: host.z.partition(4, segments=one),
    "segments= of an array": lambda host, one: tw.partition(host.z, 4, segments=one),
    "an array that is cut": lambda host, one: tw.partition(one, 4),
    "blocks=": lambda host, one: host.keep(walk(host.z.partition(4).persistent(blocks=one))),
    "group=": lambda host, one: host.keep(walk(host.z.partition(4).persistent(group=one))),
    "from_dlpack": lambda host, one: tw.from_dlpack(one),
    "from_numpy": lambda host, one: tw.from_numpy(one),
    "a shape": lambda host, one: tw.empty(one, f32),
    "an extent": lambda host, one: tw.empty((one, 4), f32),
    "a dtype": lambda host, one: tw.empty((4,), one),
    "a device": lambda host, one: tw.empty((4,), f32, device=one),
    "a value": lambda host, one: tw.full((4,), one, i32),
    "a target": lambda host, one: tw.meta((4,), f32, target=one),
    "a seed": lambda host, one: tw.rand((4,), seed=one),
    "the ends of linspace": lambda host, one: tw.linspace(one, one, 4),
    "fill, into": lambda host, one: host.keep(tw.fill(one, 1)),
    "fill, a value": lambda host, one: host.keep(tw.fill(host.z, one)),
    "copy, into": lambda host, one: host.keep(tw.copy(one, host.x)),
    "copy, of": lambda host, one: host.keep(tw.copy(host.z, one)),
    "an index": lambda host, one: host.x[one],
    "indices": lambda host, one: host.x.reshape(4, 4)[1:, one],
    "a reshape": lambda host, one: host.x.reshape(one),
    "a permutation": lambda host, one: host.x.reshape(4, 4).permute(one, 0),
    "squeeze": lambda host, one: host.x.squeeze(one),
    "unsqueeze": lambda host, one: host.x.unsqueeze(one),
    "reinterpret": lambda host, one: host.x.reinterpret(one),
    "an element": lambda host, one: host.x.astype(one),
    "graph.record": lambda host, one: host.record(one),
    "graph.update": lambda host, one: host.graph().update(one),
    "graph.update's node": lambda host, one: host.graph().update(host.fill(), node=one),
    "then": lambda host, one: host.fill().then(one).sync(),
    "what then gives": lambda host, one: host.fill().then(lambda _: one).sync(),
    "what map gives": lambda host, one: host.fill().map(lambda _: one).sync(),
    "map": lambda host, one: host.keep(host.fill().map(4 if callable(one) else one)),
    "unzip": lambda host, one: host.fill().unzip(one),
    "zip": lambda host, one: host.keep(tw.zip(host.fill(), one)),
    "a stream": lambda host, one: host.fill().submit(one),
    "a policy": lambda host, one: host.fill().schedule(one),
    "RoundRobin": lambda host, one: tw.RoundRobin(tw.Device("cpu"), one),
    "a pool's limit": lambda host, one: tw.Pool(tw.Device("cpu"), limit=one),
    "a function of the library": lambda host, one: host.keep(kernels.add(host.x, one)),
    "its output": lambda host, one: host.keep(kernels.add(host.x, host.a, out=one)),
    "its axis": lambda host, one: host.keep(kernels.sum(host.x, axis=one)),
    "its number": lambda host, one: host.keep(kernels.rms_norm(host.x, host.a, eps=one)),
}
DOCUMENTED = (tw.TilewrightError, TypeError, IndexError)


@pytest.fixture(autouse=True)
def on_the_cpu():
    with tw.device("cpu"):
        yield


def try_it(use, one):
    host = Host()
    try:
        host.keep(use(host, one))
    except InternalError:
        raise
    except DOCUMENTED:
        pass
    finally:
        host.close()


@pytest.mark.filterwarnings("ignore:.*was never run:RuntimeWarning")
@pytest.mark.parametrize("place", PLACES)
@settings(
    max_examples=max(EXAMPLES // 10, 1), deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(box=boxes)
def test_any_object_anywhere(place, box):
    try_it(PLACES[place], box.item)
