"""Speed of the bytecode writer and reader, and of the text printer and parser; needs no GPU.

    python benchmarks/reader.py [--bytes 1000000] [--turns 5]

The module is the persistent GEMM of the tour, repeated up to the requested size, with source lines
and without. Figures are seconds of CPU time, the best of some turns.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import time
from collections.abc import Callable
from typing import Any

from tilewright.bytecode import decode, encode
from tilewright.cli.tour_kernels import gemm_persistent
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.ir.function import Function, Module
from tilewright.ir.text import module_text, parse_module
from tilewright.ir.verify.verifier import verify

__all__ = ["main"]

VERSION = (13, 4)


def _kernel() -> Function:
    specialization = sample_specialization(gemm_persistent.signature, "sm_90")
    (function,) = gemm_persistent.specialized(specialization).module.functions
    return function


def _module(least: int, *, locations: bool) -> Module:
    """As many entries as fill at least so many bytes."""
    kernel = _kernel()
    few, many = (
        len(encode(_copies(kernel, count), VERSION, locations=locations).data) for count in (10, 20)
    )
    return _copies(kernel, 20 + max(least - many, 0) * 10 // (many - few) + 1)


def _copies(kernel: Function, count: int) -> Module:
    return Module(tuple(dataclasses.replace(kernel, name=f"gemm_{n}") for n in range(count)))


def _best(work: Callable[[], Any], turns: int) -> float:
    seconds = []
    for _ in range(turns):
        gc.collect()
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return min(seconds)


def _measure(least: int, turns: int, *, locations: bool) -> None:
    module = _module(least, locations=locations)
    data = encode(module, VERSION, locations=locations).data
    read = decode(data).module
    text = module_text(read)
    ops = sum(1 for function in read.functions for _ in function.walk())
    lines = "with lines" if locations else "without lines"
    print(f"{len(data):,} bytes {lines}, {len(read.functions):,} entries, {ops:,} ops")
    works: dict[str, Callable[[], Any]] = {
        "encode": lambda: encode(module, VERSION, locations=locations),
        "decode": lambda: decode(data),
        "verify": lambda: verify(read),
        "print": lambda: module_text(read),
        "parse": lambda: parse_module(text),
    }
    for name, work in works.items():
        seconds = _best(work, turns)
        print(f"  {name:8} {seconds:6.2f} s   {seconds / ops * 1e6:6.1f} us an op")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--bytes", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    for locations in (True, False):
        _measure(given.bytes, given.turns, locations=locations)


if __name__ == "__main__":
    main()
