"""Profiles of the assembled kernels with targets: registers, spills, memory, remarks.

    python benchmarks/profiles.py [--only PATTERN] [--json benchmarks/results/profiles.json]

Needs the assembler, no GPU. A profile is filed under the name of its target: the page shows it
where the target is missed. Problems are built on tensors without memory, with the library's own
choices.
"""

from __future__ import annotations

import argparse
import fnmatch
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

import attention as attention_benchmark
import memory_bound
import memory_problems
from matmul import DECODED, LAYERS, PREFILLED
from paper import launched, products

import tilewright as tw
from tilewright.backends.cuda import program as cuda_program
from tilewright.backends.cuda.remarks import Remark
from tilewright.backends.cuda.toolchain import OPT_LEVEL, find_toolchain
from tilewright.bench import Report, Table
from tilewright.bytecode.encode import encode
from tilewright.ir.versions import required_version
from tilewright.jit.cache import disk as disk_cache
from tilewright.kernels import attention, matmul

__all__ = ["main", "profiled", "summary"]

TARGET = "sm_90"
ROWS = 2048  # of a measured linear layer
Build = Callable[[], tw.DeviceOp[Any]]


def _meta(*shape: int, dtype: type[tw.DType] = tw.f16) -> tw.Tensor:
    return tw.meta(shape, dtype, target=TARGET)


# --- problems, by the name of their target --------------------------------------------------------


def profiled() -> Iterator[tuple[str, str, Build]]:
    """Names of targets, their problems, and builders of the operations."""
    for target in dict.fromkeys((products.ALL, *launched.TARGETS.values())):
        for size in products.SIZES:
            yield target, f"{size} x {size} x {size}", _product(size, size, size)
    yield products.LARGE, "8192 x 8192 x 8192", _product(8192, 8192, 8192)
    for layer in LAYERS:
        name = f"{layer.model} {layer.name}"
        shape = layer.outputs, layer.inputs
        yield PREFILLED, f"{name}, {ROWS} rows", _product(ROWS, *shape, is_transposed=True)
        if layer.model == "4B":
            yield DECODED, name, _product(1, *shape, is_transposed=True)
    for causal in (False, True):
        for channels in (64, 128):
            what = attention_benchmark.target_name("causal" if causal else "full", channels)
            for length in (1024, 16384):
                build = _attention(length, channels, causal=causal)
                yield what, f"{length} tokens, {channels} channels", build
    for problem in memory_problems.problems():
        yield memory_bound.target_name(problem), problem.title, _memory_bound(problem)


def _product(m: int, n: int, k: int, *, is_transposed: bool = False) -> Build:
    right = (n, k) if is_transposed else (k, n)
    return lambda: matmul(_meta(m, k), _meta(*right), out=_meta(m, n), transpose_b=is_transposed)


def _attention(length: int, channels: int, *, causal: bool) -> Build:
    shape = (16384 // length, 2048 // channels, length, channels)
    return lambda: attention(
        _meta(*shape), _meta(*shape), _meta(*shape), causal=causal, out=_meta(*shape)
    )


def _memory_bound(problem: Any) -> Build:
    def build() -> tw.DeviceOp[Any]:
        outs, ins = (
            [_meta(*one.shape, dtype=one.dtype) for one in side]
            for side in (problem.outs, problem.ins)
        )
        operation: tw.DeviceOp[Any] = problem.ours(outs, ins)
        return operation

    return build


# --- assembly -------------------------------------------------------------------------------------


class _Listener:
    """The assembler, and its remarks on each piece of code."""

    def __init__(self) -> None:
        self.remarks: dict[bytes, tuple[Remark, ...]] = {}

    def assemble(self, module: Any, target: str, opt_level: int | None) -> bytes:
        encoded = encode(module, required_version(module))
        level = OPT_LEVEL if opt_level is None else opt_level
        toolchain = find_toolchain()
        cubin, remarks = toolchain.assemble_with_remarks(encoded, target, opt_level=level)
        self.remarks[cubin] = remarks
        return cubin


@contextmanager
def _listening() -> Iterator[_Listener]:
    """Disable the disk cache, whose entries have no remarks."""
    listener = _Listener()
    with (
        mock.patch.object(cuda_program, "assemble", listener.assemble),
        mock.patch.object(disk_cache, "open_cache", return_value=None),
    ):
        yield listener


def _look(listener: _Listener, build: Build) -> Iterator[dict[str, Any]]:
    operation = build()
    programs = [future.result() for future in operation.programs]
    operation.close()
    for program in programs:
        remarks = listener.remarks[program.cubin]
        for resources in program.resources():
            own = [one for one in remarks if one.function in ("", resources.kernel)]
            plain = [_plain(one) for one in own]
            yield {**asdict(resources), "summary": summary(plain), "remarks": plain}


def _plain(remark: Remark) -> dict[str, Any]:
    """A remark without folders and without the name of its kernel."""
    return {
        "file": Path(remark.file).name,
        "line": remark.line,
        "passed": remark.passed,
        "message": remark.message,
    }


def summary(remarks: list[dict[str, Any]]) -> str:
    """Remarks by text and count; missed optimisations come first, in full."""
    counted = Counter(
        (one["passed"], one["message"].rpartition(": ")[2] if one["passed"] else one["message"])
        for one in remarks
    )
    shown = sorted(counted.items(), key=lambda item: (item[0][0], -item[1], item[0][1]))
    return "; ".join(f"{count} x {message}" for (_, message), count in shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="a pattern of targets")
    parser.add_argument("--json", type=Path, help="output file of all figures")
    options = parser.parse_args()
    report = Report("profiles", "Assembled kernels", options.json)
    report.note(
        "Registers a thread, bytes of shared memory a block, bytes of stack a thread (spills), and"
        " the assembler's own remarks, for every kernel with a target."
    )
    columns = ("kernel", "on", "registers", "shared memory", "stack", "remarks")
    table = Table("Kernels by problem", columns)
    report.table(table)
    with _listening() as listener:
        for target, problem, build in profiled():
            if not fnmatch.fnmatch(target, options.only):
                continue
            try:
                found = list(_look(listener, build))
            except Exception:  # noqa: BLE001 (the other kernels are still profiled)
                traceback.print_exc()
                continue
            for one in found:
                cells = (
                    one["kernel"], problem, str(one["registers"]), str(one["shared_memory"]),
                    str(one["stack_bytes"]), one["summary"],
                )  # fmt: skip
                if cells not in table.rows:  # several targets may share a kernel
                    table.add(*cells)
                    print("  ".join(cells), flush=True)
                report.figure("profiles", target=target, problem=problem, **one)


if __name__ == "__main__":
    main()
