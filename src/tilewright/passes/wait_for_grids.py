"""Grid waits: kernels that may start before the grids they depend on have ended.

    before                              after
    %b = get_tile_block_id              gdc_launch_dependents_tko
    %t = make_token                     %b = get_tile_block_id
    %x = load_view_tko %v[%b]           %t = gdc_wait_tko
                                        %x = load_view_tko %v[%b] token = %t

A GPU has a gap between the last block of one grid and the first of the next. A grid whose code
waits for the grids before it avoids the gap: its blocks are resident on the multiprocessors as soon
as those of the grid before leave, compute their coordinates, and wait there. Tokens order all
accesses after the wait, so no memory is accessed sooner than by a kernel that starts later. No
branch precedes the wait, so no block ends without it: a grid that has ended has waited for all
before it. The next grid may start from the first op on, since its wait is for the end of this grid,
not for that op.

The hints of a kernel select this pass, because tileiras schedules some loops differently, and not
always better, in a kernel that waits. The launch relies on it: `backends.cuda` starts only kernels
early for which `waits_for_grids` holds. Runs after all passes that read tokens.
"""

from __future__ import annotations

from tilewright.ir.function import Function, Module
from tilewright.ir.op import Effect, Op, Value
from tilewright.ir.ops.dependencies import GdcLaunchDependents, GdcWait
from tilewright.ir.ops.memory import MakeToken
from tilewright.ir.rewrite import Rewriter, with_parts

__all__ = ["wait_for_grids", "waits_for_grids"]


def wait_for_grids(function: Function) -> Function:
    """Order every access after the grids before."""
    return _WaitInserter().function(function)


def waits_for_grids(module: Module) -> bool:
    """Whether every block of all entries waits first, so that they may start early."""
    return all(map(_waits_first, module.functions))


def _waits_first(function: Function) -> bool:
    done = (op for op in function.body.ops if not isinstance(op, GdcLaunchDependents))
    return isinstance(next(filter(_may_matter, done), None), GdcWait)


class _WaitInserter(Rewriter):
    """Adds the wait before the first visible op, and its token to every access without one."""

    def __init__(self) -> None:
        super().__init__({MakeToken: _start})
        self._token: Value | None = None

    def function(self, function: Function) -> Function:
        """The whole function; the next grids may start at once."""
        new = super().function(function)
        new.body.ops.insert(0, GdcLaunchDependents())
        return new

    def visit(self, op: Op) -> None:
        """Rebuild one op; an access without a token in its block waits for the grids."""
        if _may_matter(op):
            self.start()
        if _is_free(op):
            new = with_parts(op.rebuilt(self.values, ()), token=self.start())
            self.builder.add(new)
            self.replace(op, *new.results)
        else:
            super().visit(op)

    def start(self) -> Value:
        """The token for the end of the grids before."""
        if self._token is None:
            self._token = self.builder.add(GdcWait()).result_token
        return self._token


def _start(waiting: _WaitInserter, op: MakeToken) -> None:
    """Replace a fresh token by that of the wait."""
    waiting.replace(op, waiting.start())


def _may_matter(op: Op) -> bool:
    """Whether an op is more than arithmetic: accesses, prints, branches, and the end."""
    return op.effect is not Effect.NONE or bool(op.regions)


def _is_free(op: Op) -> bool:
    """Whether an access or a print waits for nothing in its block."""
    return "token" in op.part_names and op.__dict__["token"] is None
