"""What every test can rely on: the `gpu` marker, hypothesis profiles, golden files."""

import functools
import gc
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from recorded_kernels import record_into

from tilewright.backends.cuda import program
from tilewright.errors import ToolchainError
from tilewright.runtime.devices.device import Device, open_devices

pytest_plugins = ("checked_twice", "placement_ratchet")

# How fast a shared machine draws examples says nothing about the code under test.
_STEADY = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", derandomize=True, max_examples=40, **_STEADY)
settings.register_profile("thorough", max_examples=2000, **_STEADY)
settings.load_profile("ci")  # another one: `pytest --hypothesis-profile=thorough`

SET_ASIDE_EVERY = 200  # tests
_finished = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files instead of comparing"
    )
    parser.addoption(
        "--device", default="cpu", metavar="NAME", help="where the tests of the host run: cuda:0"
    )
    parser.addoption(
        "--record-kernels", type=Path, metavar="DIR", help="keep every kernel that is compiled"
    )
    parser.addoption(
        "--recorded-kernels", type=Path, metavar="DIR", help="the kernels that tests/assembly takes"
    )


def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("--record-kernels")
    if folder is not None:
        record_into(folder.absolute())
    # Tests neither use nor fill the user's cache; some make one of their own.
    os.environ["TILEWRIGHT_CACHE"] = "off"
    # A shell starts background jobs with interrupts ignored, and processes inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Assembling what was recorded is a run of its own."""
    has_kernels = config.getoption("--recorded-kernels") is not None
    return True if collection_path.name == "assembly" and not has_kernels else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("gpu") and (reason := _why_no_gpu()):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    """Thousands of tests live as long as the process."""
    _set_aside()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Compiled kernels live on as well; many tests collect, and look at all that is not aside."""
    if next(_finished) % SET_ASIDE_EVERY == 0:
        _set_aside()


def _set_aside() -> None:
    gc.collect()
    gc.freeze()


@functools.cache
def _why_no_gpu() -> str | None:
    try:
        from cuda.bindings import driver
    except ImportError:
        return "needs a GPU: the `cuda` extra is not installed"
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError:
        return "needs a GPU: no NVIDIA driver"
    if status != driver.CUresult.CUDA_SUCCESS:
        return f"needs a GPU: {status.name}"
    _, count = driver.cuDeviceGetCount()
    return None if count else "needs a GPU: the driver sees none"


@pytest.fixture(scope="session")
def device_name(pytestconfig: pytest.Config) -> str:
    """Where the tests of the host run, the CPU unless `--device` says another one."""
    name: str = pytestconfig.getoption("--device")
    return name


@pytest.fixture(autouse=True)
def _nothing_untold() -> Iterator[None]:
    """A failure that a test provoked is told to that test's streams, not to the next test's."""
    yield
    for device in open_devices():
        any(not _has_failed(device) for _ in range(10_000))  # each call tells one failure


def _has_failed(device: Device) -> bool:
    try:
        device.synchronize()
    except Exception:  # noqa: BLE001 (a test may fail an operation with anything)
        return True
    return False


@pytest.fixture
def no_tileiras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are compiled without the assembler, for a test that looks at no code."""
    monkeypatch.setattr(program, "assemble", lambda *_: b"cubin")


@pytest.fixture
def nothing_assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations are built and closed; a later test that runs one assembles it after all."""

    def refuse(*_: object) -> bytes:
        raise ToolchainError("the test looks at no code")

    monkeypatch.setattr(program, "assemble", refuse)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compare a text with a golden file, or write the file under `--update-golden`."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing: `pytest --update-golden` writes it"
        assert text == path.read_text(encoding="utf-8"), f"differs from {path}"

    return compare
