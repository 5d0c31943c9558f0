"""Timing on a GPU that slows down as it heats up: candidates take turns, and each gets its best.

Every candidate runs on one stream of ours, torch and foreign kernels included. A repetition is
timed between two events; the GPU is kept busy while the host fills the queue, so host time never
shows. Candidates are interleaved in rounds; the figure of one is the best of its medians, and all
medians are kept. Not for host time: see `launch.py`.
"""

from __future__ import annotations

import datetime
import json
import math
import platform
import shutil
import statistics
import subprocess
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import tilewright as tw
from tilewright.backends.cuda.toolchain import find_toolchain

__all__ = ["Candidate", "Report", "Table", "Timer", "Times", "as_torch", "compare", "machine"]

CYCLES_A_SECOND = 2e9  # of the GPU, about; only for how long it is kept busy
SHORTEST = 2e-4  # seconds between two events: their own cost must not show
_TYPES = {tw.f16: "<f2", tw.f32: "<f4", tw.i32: "<i4"}


@dataclass(frozen=True)
class Candidate:
    """One way to do the work."""

    name: str
    run: Callable[[int], None]  # puts it on the stream; the number picks the buffers
    error: Callable[[], float]  # runs it on poisoned outputs: the relative error
    against: str = ""  # the candidate it is compared with


@dataclass
class Times:
    """What was measured of one candidate."""

    medians: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        return min(self.medians)


class _Exported:
    """Device memory as torch understands it."""

    def __init__(self, tensor: tw.Tensor) -> None:
        self.tensor = tensor  # kept alive with the alias
        self.__cuda_array_interface__ = {
            "shape": tensor.shape,
            "typestr": _TYPES[tensor.dtype],
            "data": (tensor.address, False),
            "strides": None,
            "version": 3,
        }


def as_torch(tensor: tw.Tensor) -> Any:
    """A torch tensor on the memory of a contiguous tensor of ours, which gets its bytes now."""
    stream = tensor.device.stream
    with tensor.device.lock:
        tensor.storage.materialise(stream)
    stream.sync()
    return torch.as_tensor(_Exported(tensor), device="cuda")


class Timer:
    """Events on one stream of ours."""

    def __init__(self, stream: tw.Stream, repetitions: int, rounds: int) -> None:
        self.stream = stream
        self.repetitions = repetitions
        self.rounds = rounds
        queue: Any = stream.queue
        self.foreign = torch.cuda.ExternalStream(int(queue.handle.handle))

    def warm_up(self, seconds: float = 1.0) -> None:
        """Large matrix products until the clocks are up."""
        a = torch.randn(8192, 8192, device="cuda").half()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(20):
                a @ a
            torch.cuda.synchronize()

    def seconds(self, run: Callable[[int], None], batch: int) -> float:
        """The median time of one run."""
        events = [
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
            for _ in range(self.repetitions)
        ]
        with torch.cuda.stream(self.foreign):
            busy = 2e-3 + self.repetitions * batch * 3e-4  # seconds the host may need to queue it
            torch.cuda._sleep(int(CYCLES_A_SECOND * busy))  # noqa: SLF001 (torch has no other)
            for number, (start, end) in enumerate(events):
                start.record(self.foreign)
                for step in range(batch):
                    run(number * batch + step)
                end.record(self.foreign)
        self.foreign.synchronize()
        times = [start.elapsed_time(end) for start, end in events]
        return statistics.median(times) / 1e3 / batch

    def interleaved(self, candidates: Sequence[Candidate]) -> dict[str, Times]:
        """Every candidate in every round; the first, the peer of all, again at the end of each."""
        found = {candidate.name: Times() for candidate in candidates}
        batches = {c.name: _batch(self.seconds(c.run, 1)) for c in candidates}
        for _ in range(self.rounds):
            for candidate in (*candidates, candidates[0]):
                seconds = self.seconds(candidate.run, batches[candidate.name])
                found[candidate.name].medians.append(seconds)
        return found


def _batch(seconds: float) -> int:
    return max(1, math.ceil(SHORTEST / seconds))


@dataclass
class Table:
    """Rows under a title."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)

    def show(self) -> None:
        """Print it, columns aligned."""
        lines = [self.columns, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        print(f"\n{self.title}")
        for line in lines:
            cells = [line[0].ljust(widths[0])]
            cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
            print("  ".join(cells).rstrip())
        print(flush=True)


@dataclass
class Report:
    """Everything that a run found; written after each part, so that a broken run leaves some."""

    path: Path | None
    data: dict[str, Any]

    def add(self, part: str, entry: dict[str, Any]) -> None:
        """Append an entry to a part and write the file."""
        self.data.setdefault("parts", {}).setdefault(part, []).append(entry)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(self.data, indent=1) + "\n")


def compare(
    timer: Timer, candidates: Iterable[Candidate], limit: float
) -> tuple[dict[str, Times], dict[str, float]]:
    """Times of all candidates that are right, and the relative errors of all."""
    errors: dict[str, float] = {}
    right = []
    for candidate in candidates:
        try:
            errors[candidate.name] = candidate.error()
        except Exception:  # noqa: BLE001 (a broken candidate must not cost the whole run)
            traceback.print_exc()
            errors[candidate.name] = math.nan
        if errors[candidate.name] < limit:
            right.append(candidate)
        else:
            print(f"WRONG: {candidate.name}: relative error {errors[candidate.name]}", flush=True)
    return (timer.interleaved(right) if right else {}), errors


def machine() -> dict[str, Any]:
    """Where and with what a run was made."""
    names = ("torch", "triton", "cuda-bindings", "cuda-core", "numpy")
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "gpu": torch.cuda.get_device_name(0),
        "driver": _driver(),
        "python": platform.python_version(),
        "tilewright": tw.__version__,
        "tileiras": find_toolchain().version,
        **{name: _version(name) for name in names},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _driver() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return "unknown"
    query = [program, "--query-gpu=driver_version,power.limit,clocks.max.sm", "--format=csv"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
