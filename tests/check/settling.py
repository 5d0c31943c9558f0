"""Settles a sketched kernel, and asks what became of its checks."""

from __future__ import annotations

from kernel_sketch import Sketch

from tilewright.check.bounds import Settled, settle_checks
from tilewright.check.ledger import Rung
from tilewright.ir.launch_terms import Extent, ScalarArgument
from tilewright.ir.ops.internal import BoundsCheck, DivisorCheck

TOP = 2**31 - 1


def settle(sketch: Sketch) -> Settled:
    return settle_checks(sketch.function())


def outcomes(settled: Settled) -> list[Rung]:
    return [entry.outcome for entry in settled.ledger.entries]


def only_proved(settled: Settled) -> bool:
    return (
        set(outcomes(settled)) == {Rung.PROVED}
        and not settled.launch_checks
        and not settled.violations
        and not [op for op in settled.function.walk() if isinstance(op, BoundsCheck)]
    )


def launch(**numbers: int) -> dict:
    """`x0=5` is an extent, `n=5` a scalar."""
    return {
        Extent(name[0], int(name[1])) if len(name) == 2 else ScalarArgument(name): value
        for name, value in numbers.items()
    }


def kept(settled: Settled) -> list:
    return [op for op in settled.function.walk() if isinstance(op, BoundsCheck | DivisorCheck)]


def tied_gemm() -> Sketch:
    """Dims that the signature ties are one term: M is z's and x's, N z's and y's, K x's and y's."""
    sketch = Sketch()
    rows, columns, depth = sketch.tiles("z", 0), sketch.tiles("z", 1), sketch.tiles("x", 1, 32)
    with sketch.walk(rows, columns) as (i, j), sketch.loop(0, depth) as k:
        for index, count, subject, axis in (
            (i, rows, "x", 0),
            (k, depth, "x", 1),
            (k, depth, "y", 0),
            (j, columns, "y", 1),
        ):
            sketch.check(index, count, subject, axis)
    return sketch
