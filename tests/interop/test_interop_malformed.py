"""Exporters that say what no array is: refused in words, whatever they say."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop_kernels import copy

import tilewright as tw
from tilewright import f32
from tilewright.runtime.devices.device import Device
from tilewright.runtime.interop import dlpack, protocol_arrays

HUGE = 1 << 62


def refuse(text, error=tw.LaunchError):
    return pytest.raises(error, match=re.escape(text))


class Exporter:
    """Exports an array of four floats by DLPack, and says of it what it is told."""

    def __init__(self, **said):
        self.array, self.said = np.arange(4, dtype=np.float32), said

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **options):
        capsule = self.array.__dlpack__(max_version=options.get("max_version"))
        tensor, _ = dlpack._open(capsule)
        for name, value in self.said.items():
            if name in ("shape", "strides") and value is not None:
                value = (ctypes.c_int64 * len(value))(*value)
                self.kept = [*getattr(self, "kept", []), value]
                setattr(tensor, name, ctypes.cast(value, ctypes.POINTER(ctypes.c_int64)))
            else:
                setattr(tensor, name, value)
        return capsule


NO_ARRAY = "was exported as something that cannot be read here"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"ndim": -1}, NO_ARRAY),
        ({"ndim": 1 << 30}, NO_ARRAY),
        ({"shape": None}, NO_ARRAY),
        ({"data": None}, "has elements and no memory"),
        ({"shape": (-4,)}, "axis 0 of shape (-4,) has a negative extent"),
        ({"shape": (1 << 40,)}, "an axis can have at most 2147483647"),
        ({"strides": (HUGE,)}, "with strides of (4611686018427387904,) elements: no memory has so"),
        ({"strides": (-1,)}, "runs backwards"),
        ({"byte_offset": (1 << 64) - 64}, "no memory has so many"),
        ({"byte_offset": 2}, "and elements of 4 bytes begin at multiples of 4"),
        ({"ndim": 2, "shape": (2, 2), "strides": (HUGE, 1)}, "no memory has so many"),
    ],
)
def test_capsules_that_describe_no_memory(said, text):
    with refuse(text):
        tw.from_dlpack(Exporter(**said))
    with refuse(text):
        tw.partition(Exporter(**said), 4)
    with refuse(text):
        copy(tw.zeros((4,), f32).partition(4), Exporter(**said))


def test_strides_that_reach_nothing_are_not_looked_at():
    for said in ({"shape": (1,), "strides": (HUGE,)}, {"shape": (0,), "strides": (-HUGE,)}):
        assert tw.from_dlpack(Exporter(**said)).strides == (1,)
    both = {"ndim": 2, "shape": (0, 3), "strides": (HUGE, -HUGE)}
    assert tw.from_dlpack(Exporter(**both)).numpy().shape == (0, 3)


class OfCuda:
    """Speaks the CUDA array interface."""

    def __init__(self, interface):
        self.interface = interface

    @property
    def __cuda_array_interface__(self):
        if isinstance(self.interface, Exception):
            raise self.interface
        return self.interface


@pytest.fixture
def on_the_host(monkeypatch):
    """Has the memory of the CUDA array interface on the host, where there is no GPU."""
    monkeypatch.setattr(protocol_arrays, "_device_at", lambda _: Device("cpu"))


KEPT = np.arange(16, dtype=np.float32)
WHOLE = {"shape": (4,), "typestr": "<f4", "data": (KEPT.ctypes.data, False), "version": 3}


@pytest.mark.usefixtures("on_the_host")
@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"strides": (HUGE * 4,)}, "no memory has so many"),
        ({"strides": (HUGE,)}, "no memory has so many"),
        ({"strides": (4, 4)}, "cannot be read (ValueError: '2 strides for 1 axes')"),
        ({"strides": 4}, "cannot be read (TypeError:"),
        ({"shape": (1 << 62,)}, "an axis can have at most 2147483647"),
        ({"shape": "four"}, "cannot be read (TypeError:"),
        ({"shape": None}, "cannot be read (TypeError:"),
        ({"shape": (-1,)}, "has a negative extent"),
        ({"shape": (2.5,)}, "cannot be read (TypeError:"),
        ({"typestr": "<q99"}, "cannot be read (TypeError:"),
        ({"typestr": "<M8[ns]"}, "holds <M8[ns], for which there is no dtype"),
        ({"typestr": "<c8"}, "holds <c8, for which there is no dtype"),
        ({"data": None}, "cannot be read (TypeError:"),
        ({"data": (1, 2, 3)}, "cannot be read (ValueError:"),
        ({"data": ("here", False)}, "cannot be read (TypeError:"),
        ({"data": (-8, False)}, "an address outside of 64 bits"),
        ({"data": (1 << 64, False)}, "an address outside of 64 bits"),
        ({"data": (None, False)}, "has elements and no memory"),
        ({"data": (0, False)}, "has elements and no memory"),
        ({"data": ((1 << 64) - 8, False)}, "no memory has so many"),
        ({"mask": [True]}, "has a mask"),
        ({"stream": "one"}, "cannot be read (TypeError:"),
    ],
)
def test_interfaces_that_describe_no_memory(said, text):
    with refuse(text):
        tw.from_dlpack(OfCuda(WHOLE | said))


@pytest.mark.usefixtures("on_the_host")
@pytest.mark.parametrize("interface", [5, "x", [], {}, {"shape": ()}, RuntimeError("not today")])
def test_interfaces_that_are_none(interface):
    with refuse("the CUDA array interface of an array of test_interop_malformed cannot be read"):
        tw.from_dlpack(OfCuda(interface))


@pytest.mark.usefixtures("on_the_host")
@pytest.mark.parametrize(
    "change", [{"shape": (3,)}, {"strides": (8,)}, {"typestr": "<i4"}, {"data": (8, False)}]
)
def test_an_interface_that_says_something_else_at_the_submission(change):
    array, z = OfCuda(WHOLE), tw.zeros((4,), f32)
    copy(z.partition(4), array).sync()
    assert z.numpy().tolist() == [0, 1, 2, 3]
    operation = copy(z.partition(4), array)
    array.interface = WHOLE | change
    with refuse("has been moved or resized since", tw.BorrowError):
        operation.sync()


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 66), 1 << 66),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(["<f4", "|b1", "<i8", "|V7", "|O", "<U3", "<m8[s]", ">f4"]),
    st.lists(st.integers(-(1 << 66), 1 << 66), max_size=4),
    st.tuples(st.integers(-(1 << 66), 1 << 66), st.booleans()),
    st.builds(object),
)
fields = st.sampled_from(["shape", "typestr", "data", "strides", "mask", "stream", "version"])


@pytest.mark.usefixtures("on_the_host")
@settings(max_examples=200, deadline=None)
@given(st.dictionaries(fields, anything, max_size=3), st.sets(fields, max_size=2))
def test_any_interface_is_taken_or_refused(said, dropped):
    interface = {name: value for name, value in (WHOLE | said).items() if name not in dropped}
    try:
        found = tw.from_dlpack(OfCuda(interface))
    except tw.LaunchError:
        return
    if found.size and (said.keys() & {"data", "shape", "strides", "typestr"}):
        return  # the memory that it claims lies elsewhere
    assert found.numpy().shape == found.shape


extents = st.lists(st.sampled_from([0, 1, 2, 4, -1, 1 << 31, 1 << 62, -(1 << 63)]), max_size=4)


@settings(max_examples=200, deadline=None)
@given(extents, extents, st.sampled_from([0, 2, 4, 8, 1 << 62, (1 << 64) - 4]))
def test_any_capsule_is_taken_or_refused(shape, strides, offset):
    rank = min(len(shape), len(strides))
    said = {"shape": tuple(shape[:rank]), "strides": tuple(strides[:rank])}
    try:
        found = tw.from_dlpack(Exporter(ndim=rank, byte_offset=offset, **said))
    except tw.LaunchError:
        return
    assert found.shape == said["shape"]
    assert len(found.strides) == rank
