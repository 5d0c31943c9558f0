"""Unrolled loops: over a tuple, and over `tw.static_range(…)`, a tuple of numbers.

Each iteration is lowered separately, so its variable is a compile-time value and names may change
type between iterations. `break` and `continue` skip the following code, as a `return` of a helper
does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from tilewright.frontend.control.assignment import assign
from tilewright.frontend.control.frames import Departure, Unrolled
from tilewright.frontend.control.sequences import Step, sequence, statements
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Operand, Static, Unset

__all__ = ["unrolled_loop"]


def unrolled_loop(lo: Lowering, node: ast.For, items: tuple[Operand, ...]) -> None:
    """Lower the body once for each item."""
    frame = lo.frame
    depth = len(frame.skips)
    loop = Unrolled(f"turn {depth} over?", f"loop {depth} over?")

    def turn(number: int, item: Operand) -> None:
        lo.turns.append(number)
        try:
            assign(lo, node.target, item)
            with _over_at_the_end(lo, loop.turn_over):
                statements(lo, node.body)
        finally:
            lo.turns.pop()

    outer, frame.unrolled = frame.unrolled, loop
    steps: list[Step] = [(node, partial(turn, *one)) for one in enumerate(items)]
    try:
        with _over_at_the_end(lo, loop.all_over):
            sequence(lo, steps)
    finally:
        frame.unrolled = outer
    for inner in ast.walk(node.target):
        if isinstance(inner, ast.Name):
            reason = "it is the variable of a loop that has ended"
            frame.scope[inner.id] = Unset(reason, "use it inside the loop")


@contextmanager
def _over_at_the_end(lo: Lowering, name: str) -> Iterator[None]:
    """A context in which a hidden name may skip code; at its end all paths join."""
    frame = lo.frame
    frame.skips.append(name)
    frame.scope[name] = Static(False)
    try:
        yield
    finally:
        frame.skips.remove(name)
        frame.scope.pop(name, None)
        if frame.left is Departure.SKIPPING and not frame.is_over():
            frame.left = None
