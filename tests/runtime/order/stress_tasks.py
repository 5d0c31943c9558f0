"""Tasks of the stress test: workers that also await, cancel and give up waiting."""

from __future__ import annotations

import asyncio
from typing import Any

from stress_model import locked, plan_of
from stress_workers import Worker

from tilewright import OutOfBoundsError


class AsyncWorker(Worker):
    """A task: it also awaits, cancels and gives up waiting."""

    async def run(self, count: int) -> None:
        for _ in range(count):
            if self.draw.random() < 0.4:
                self.done += 1
                await self.awaited()
            else:
                self.act()
            await asyncio.sleep(0)
        self.end()

    async def awaited(self) -> None:
        steps = [self.step(self.own_cell)]
        plan = plan_of(steps[0])
        with locked(plan.cells):
            if plan.may_fail() or not self.builds(plan):
                return
        task = asyncio.ensure_future(plan.operation)
        await asyncio.sleep(0)  # submitted now, on a stream of the policy
        plan.release()
        plan.apply()
        plan.operation = None
        self.world.happened.append("awaited")
        await self.draw.choice((self._to_the_end, self._cancelled, self._too_late))(task, steps[0])

    async def _to_the_end(self, task: Any, step: Any) -> None:
        try:
            await task
        except OutOfBoundsError:
            assert step.fails, "it says that it failed, and it cannot have"
        else:
            assert not step.fails, "it failed, and does not say so"

    async def _cancelled(self, task: Any, step: Any) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _too_late(self, task: Any, step: Any) -> None:
        try:
            await asyncio.wait_for(task, 1e-4)
        except (TimeoutError, OutOfBoundsError):
            return
