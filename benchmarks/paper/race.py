"""The race example: heads permuted with two indices swapped in the store.

Our kernel is refused, and both of its faults are named: two blocks write one piece, and the swapped
index leaves its axis. Written with unchecked pointers, the kernel compiles in both languages: the
CPU device names two racing blocks, and on the GPU Triton's result changes from run to run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import kernels
import numpy as np
from lab import Lab

import tilewright as tw
from tilewright import TilewrightError, f32
from tilewright.bench import Plot, Report, Series, Table

__all__ = ["TITLE", "run"]

TITLE = "The race example"
CONFIGURATIONS = ((1, 8, 128, 64, 32), (2, 16, 256, 128, 64), (4, 32, 512, 128, 64))
TRIALS = 20
PAPER = "17 to 35 %"


def run(lab: Lab, report: Report) -> None:
    table = Table("Outcome", ("written as", "answer"))
    for name, attempt in _attempts().items():
        table.add(name, _answer(attempt))
    with suppress(TilewrightError):  # the stream reports the race as well
        tw.Device("cpu").stream.sync()
    report.table(table)
    print(table.to_text(), flush=True)
    if lab.has("triton"):
        _show_triton(lab, report)


def _attempts() -> dict[str, Callable[[], object]]:
    b, h, m, d, tile = CONFIGURATIONS[0]
    drawn = np.random.default_rng(0).standard_normal((b, h, m, d), np.float32)
    src, dst = tw.from_numpy(drawn, device="cpu"), tw.zeros((b, h, m, d), f32, device="cpu")
    racing, swapped = tw.kernel(kernels.permute_racing), tw.kernel(kernels.permute_swapped)
    trusted: Any = tw.kernel(unsafe=True)(kernels.permute_trusted)

    def watched() -> None:
        with tw.race_check():
            trusted.grid(b * h, h).unsafe(dst, src, BM=tile, D=d).sync()

    return {
        "a store with an index, refused when it is compiled": (
            lambda: racing(dst.partition(1, 1, tile, d), src).sync()
        ),
        "a load with the swapped index, refused when it is launched": (
            lambda: swapped(dst.partition(1, 1, tile, d), src).sync()
        ),
        "pointers, watched on the CPU": watched,
    }


def _answer(attempt: Callable[[], object]) -> str:
    """Our message on one line, without folders."""
    try:
        attempt()
    except TilewrightError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        kept = [line for line in lines if line.startswith(("error[", "= note", "kernel", "race"))]
        text = "; ".join(kept).replace("= note: ", "").replace("|", "/")
        text = re.sub(r"the element at 0x\w+", "one element", text)
        return text.replace(kernels.__file__, "kernels.py")
    raise AssertionError("it must be refused")


def _show_triton(lab: Lab, report: Report) -> None:
    torch = lab.load("torch")
    racer = lab.load("triton_kernels").racer
    table = Table(
        f"Triton: elements that differ from the first run, over {TRIALS} more",
        ("B, H, M, D, tile", "runs that differ", "most elements", "paper (cuTile Python)"),
    )
    lines = []
    for *shape, tile in CONFIGURATIONS:
        src = torch.randn(*shape, device="cuda")
        results = []
        for _ in range(TRIALS + 1):
            dst = torch.zeros_like(src)
            racer(dst, src, tile)()
            torch.cuda.synchronize()
            results.append(dst)
        shares = [float((one != results[0]).float().mean()) for one in results[1:]]
        differing = sum(share > 0 for share in shares)
        cells = f"{differing} of {TRIALS}", f"{max(shares):.1%}", PAPER
        table.add(", ".join(map(str, (*shape, tile))), *cells)
        report.figure("triton", shape=shape, tile=tile, shares=shares)
        points = [(number, 100 * share) for number, share in enumerate(shares, 1)]
        lines.append(Series(f"{' x '.join(map(str, shape))}", points))
    print(table.to_text(), flush=True)
    report.table(table)
    title = "The race in Triton: elements that differ from the first run"
    report.plot(Plot("race", title, "run", "% of all elements", lines, log_x=False))
