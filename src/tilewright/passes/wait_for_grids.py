"""Kernels that may be on the GPU before the ones that they depend on have ended.

    before                              after
    %b = get_tile_block_id              gdc_launch_dependents_tko
    %t = make_token                     %b = get_tile_block_id
    %x = load_view_tko %v[%b]           %t = gdc_wait_tko
                                        %x = load_view_tko %v[%b] token = %t

A GPU takes its time between the last block of one grid and the first of the next. A grid whose code
waits for the grids before it needs none of that: its blocks come to lie on the multiprocessors as
those of the grid before leave them, find out what they are, and wait there. All accesses come
behind the wait, by tokens, so nothing is read or written sooner than by a kernel that starts later.
Before it there are no branches, so no block ends without it: a grid that has ended has waited for
all before it. Whoever comes next may do the same from the first op on: it waits for the end of this
grid, not for that op.

A kernel goes through here if its hints say so, because tileiras plans some loops anew, and not
always better, in a kernel that waits. The launch relies on it: `backends.cuda` lets no kernel start
early but those of which `waits_for_grids` holds. Runs behind all passes that look at tokens.
"""

from __future__ import annotations

from tilewright.ir.function import Function, Module
from tilewright.ir.op import Effect, Op, Value
from tilewright.ir.ops.dependencies import GdcLaunchDependents, GdcWait
from tilewright.ir.ops.memory import MakeToken
from tilewright.ir.rewrite import Rewriter, with_parts

__all__ = ["wait_for_grids", "waits_for_grids"]


def wait_for_grids(function: Function) -> Function:
    """Order every access behind the grids before."""
    return _Waiting().function(function)


def waits_for_grids(module: Module) -> bool:
    """Whether every block of all entries waits before all else, so that they may start early."""
    return all(map(_waits_first, module.functions))


def _waits_first(function: Function) -> bool:
    done = (op for op in function.body.ops if not isinstance(op, GdcLaunchDependents))
    return isinstance(next(filter(_may_matter, done), None), GdcWait)


class _Waiting(Rewriter):
    """Puts the wait before the first op that matters, and its token wherever there is none."""

    def __init__(self) -> None:
        super().__init__({MakeToken: _start})
        self._token: Value | None = None

    def function(self, function: Function) -> Function:
        """The whole function; the next grids may start at once."""
        new = super().function(function)
        new.body.ops.insert(0, GdcLaunchDependents())
        return new

    def visit(self, op: Op) -> None:
        """Rebuild one op; an access that waits for nothing in its block waits for the grids."""
        if _may_matter(op):
            self.start()
        if _is_free(op):
            new = with_parts(op.rebuilt(self.values, ()), token=self.start())
            self.builder.add(new)
            self.replace(op, *new.results)
        else:
            super().visit(op)

    def start(self) -> Value:
        """What stands for the end of the grids before."""
        if self._token is None:
            self._token = self.builder.add(GdcWait()).result_token
        return self._token


def _start(waiting: _Waiting, op: MakeToken) -> None:
    """A token that waits for nothing in its block."""
    waiting.replace(op, waiting.start())


def _may_matter(op: Op) -> bool:
    """Whether an op is more than a number: accesses, prints, choices, and the end."""
    return op.effect is not Effect.NONE or bool(op.regions)


def _is_free(op: Op) -> bool:
    """Whether an access or a print waits for nothing in its block."""
    return "token" in op.part_names and op.__dict__["token"] is None
