"""Cost of single rules of the CPU backend: pointers, rounding, functions, and race detection.

Every figure is the best of some rounds, in milliseconds, of one block over a tile of 65,536
elements; in the last two, blocks add to one element under a lock, with race detection on.
`PYTHONPATH=<another checkout>/src` measures that checkout.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tilewright.backends.cpu.executor import CpuKernel, compile_function
from tilewright.backends.cpu.memory import KernelMemory
from tilewright.ir.text import parse_module

TILE = "tile<65536xf32>"
PLACES = "tile<65536xptr<f32>>"
HEAD = f"""\
entry @k(%x: tile<ptr<f32>>, %z: tile<ptr<f32>>) {{
  %i = iota : tile<65536xi32>
  %x1 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
  %x2 = broadcast %x1 : tile<1xptr<f32>> -> {PLACES}
  %from = offset %x2, %i : {PLACES}, tile<65536xi32> -> {PLACES}
  %z1 = reshape %z : tile<ptr<f32>> -> tile<1xptr<f32>>
  %z2 = broadcast %z1 : tile<1xptr<f32>> -> {PLACES}
  %to = offset %z2, %i : {PLACES}, tile<65536xi32> -> {PLACES}
  %a, %t = load_ptr_tko weak %from : {PLACES} -> {TILE}, token
"""
TAIL = f"""\
  %u = store_ptr_tko weak %to, %b : {PLACES}, {TILE} -> token
  return
}}
"""
RULES = {
    "copy through pointers": f"  %c = constant <f32: 0.0> : {TILE}\n  %b = maxf %a, %c : {TILE}\n",
    "addition towards zero": f"  %b = addf %a, %a rounding<zero> : {TILE}\n",
    "product towards zero": f"  %b = mulf %a, %a rounding<zero> : {TILE}\n",
    "exp": f"  %b = exp %a : {TILE}\n",
    "log": f"  %b = log %a : {TILE}\n",
    "sin": f"  %b = sin %a : {TILE}\n",
    "rsqrt": f"  %b = rsqrt %a : {TILE}\n",
}
SPINLOCK = """\
entry @spinlock(%z: tile<ptr<f32>>, %lock: tile<ptr<i32>>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %step = constant <f32: 1.0> : tile<f32>
  %start = make_token : token
  %entered = loop iter_values(%before = %start) : token -> token {
    %was, %seen = atomic_cas_tko acq_rel device %lock, %zero, %one token = %before : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %free = cmpi equal %was, %zero, signed : tile<i32> -> tile<i1>
    if %free {
      break %seen : token
    }
    continue %seen : token
  }
  %held, %loaded = load_ptr_tko weak %z token = %entered : tile<ptr<f32>> -> tile<f32>, token
  %sum = addf %held, %step rounding<nearest_even> : tile<f32>
  %stored = store_ptr_tko weak %z, %sum token = %loaded : tile<ptr<f32>>, tile<f32> -> token
  %last, %left = atomic_rmw_tko acq_rel device %lock, xchg, %zero token = %stored : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
  return
}
"""  # noqa: E501


def kernel(text: str) -> CpuKernel:
    return compile_function(parse_module(text).functions[0])


def milliseconds(action: Callable[[], None], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def one_tile(text: str) -> Callable[[], None]:
    compiled = kernel(HEAD + text + TAIL)
    x = np.random.default_rng(0).uniform(0.1, 10, 65536).astype(np.float32)
    z = np.zeros_like(x)
    memories = [KernelMemory.of(x), KernelMemory.of(z)]
    return lambda: compiled.run((1, 1, 1), [x.ctypes.data, z.ctypes.data], memories, threads=1)


def locked(blocks: int) -> Callable[[], None]:
    compiled = kernel(SPINLOCK)

    def run() -> None:
        z, lock = np.zeros(1, np.float32), np.zeros(1, np.int32)
        memories = [KernelMemory.of(z), KernelMemory.of(lock)]
        places = [z.ctypes.data, lock.ctypes.data]
        compiled.run((blocks, 1, 1), places, memories, race_check=True)
        assert z[0] == blocks

    return run


def main() -> None:
    for name, text in RULES.items():
        print(f"{name:28}{milliseconds(one_tile(text), 15):12.3f} ms")
    for blocks in (64, 256, 1024):
        print(f"{f'a lock, {blocks} blocks':28}{milliseconds(locked(blocks), 1):12.1f} ms")


if __name__ == "__main__":
    main()
