from __future__ import annotations

import functools
import importlib
from contextlib import contextmanager

import pytest
import runtime_names as tw
from paper_launches import FunctionWork, copy_kernel, load
from runtime_doubles import RecordingDriver, reads, writes

from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.interop import foreign, passed, torch_tensors
from tilewright.runtime.order import timeline
from tilewright.runtime.order.timeline import Timeline

# By name: `tilewright.runtime.devices.device` is also the function that opens a context.
device_module = importlib.import_module("tilewright.runtime.devices.device")
cuda_device = importlib.import_module("tilewright.backends.cuda.device")


# Changes of the order, which are made in critical sections.
CHANGES = {
    Timeline: ("catch_up", "come_after", "join_graph", "leave_graph", "merge", "order", "put",
               "record"),
    Stream: ("follow", "wait_for"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _check_changes(monkeypatch):
    """The order of work changes in critical sections only."""

    def guarded(change):
        @functools.wraps(change)
        def call(self, *args, **kwargs):
            assert self.device.busy is not None, f"{change.__qualname__} is not critical"
            return change(self, *args, **kwargs)

        return call

    for kind, names in CHANGES.items():
        for name in names:
            monkeypatch.setattr(kind, name, guarded(getattr(kind, name)))


@pytest.fixture
def streams_do_not_look(monkeypatch):
    """Streams do not look at others in passing, which quick launches do more seldom."""
    monkeypatch.setattr(timeline, "_SELDOM", 1 << 30)


@pytest.fixture
def device(device_name, monkeypatch):
    """A device of its own, with no stream held or failure left over; `--device` says which."""
    with _opened(device_name, monkeypatch) as device:
        yield device


@pytest.fixture(params=["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def each_device(request, monkeypatch):
    """The CPU, and the GPU where there is one, for tests of both: `--device` does not matter."""
    with _opened(request.param, monkeypatch) as device:
        yield device


@pytest.fixture
def fresh_devices(monkeypatch):
    """Opens devices by name that nothing has used."""
    _forget_devices(monkeypatch)
    opened = []

    def open_(name):
        opened.append(tw.Device(name))
        return opened[-1]

    yield open_
    for stream in (stream for device in opened for stream in device.streams):
        stream.queue.end_holds()


def _forget_devices(monkeypatch):
    """Devices of before are not there, nor is the one that threads without a context get."""
    monkeypatch.setattr(device_module, "_devices", {})
    monkeypatch.setattr(device_module, "_default", [])
    ranges = foreign._Ranges()  # addresses come back, also those on paper
    monkeypatch.setattr(passed, "WRAPPERS", {})
    monkeypatch.setattr(passed, "LAYOUTS", {})
    monkeypatch.setattr(torch_tensors, "_devices", {})
    for module in (foreign, foreign, passed):
        monkeypatch.setattr(module, "RANGES", ranges)


@contextmanager
def _opened(name, monkeypatch):
    _forget_devices(monkeypatch)
    device = tw.Device(name)
    with tw.device(device):
        yield device
    for stream in device.streams:
        stream.queue.end_holds()


@pytest.fixture
def cpu(device):
    """That device, for a test that looks at what only the CPU has."""
    if device.kind != "cpu":
        pytest.skip("for the CPU only: its streams run Python, its memory is that of NumPy")
    return device


@pytest.fixture
def driver(monkeypatch):
    """A GPU on paper; `tw.Device("cuda")` is on it."""
    double = RecordingDriver()
    _forget_devices(monkeypatch)
    monkeypatch.setattr(cuda_device, "open_driver", lambda ordinal: double)
    return double


@pytest.fixture
def cuda(driver):
    device = tw.Device("cuda")
    with tw.device(device):
        yield device


@pytest.fixture
def copy(driver, cuda):
    """Builds copies on that GPU on paper, of eight elements."""
    function = load(driver, "copy", copy_kernel)

    def build(z, x):
        work = FunctionWork(function, (z, x))
        return tw.make_operation("copy", cuda, (writes(z), reads(x)), work, z)

    return build


@pytest.fixture
def fresh_cpu(fresh_devices):
    """A CPU that nothing has used, as the current device."""
    device = fresh_devices("cpu")
    with tw.device(device):
        yield device


@pytest.fixture
def lib(driver, cuda, monkeypatch):
    """torch with that GPU on paper."""
    made = importlib.import_module("torch_doubles").set_up(driver, monkeypatch)
    yield made
    made.finish()
