"""A clock that says what a test wants: how fast a candidate is stands in a table."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.bench import Effort, Timer
from tilewright.dims import B, N
from tilewright.tune import Config, Space, key_of
from tilewright.tune.plans import SearchPlan
from tilewright.tune.task import Task, poison, relative_error

SPACE = Space(B=(4, 8, 16, 32))
QUICK = SearchPlan(
    near=math.inf,
    first=Effort(repetitions=2, warmup=0.0, rounds=1),
    last=Effort(repetitions=2, warmup=0.0),
)


@tw.kernel
def doubled(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) * 2.0)


class FakeClock:
    """Runs what it is given once, and answers with the time that a test has for it."""

    def __init__(self, last: list[Config], seconds: Callable[[Config], float]) -> None:
        self._last = last
        self._seconds = seconds
        self.asked: list[Config] = []

    def measure(self, subject, before, repetitions, batch):
        subject.put(0)
        self.asked.append(self._last[-1])
        return [self._seconds(self._last[-1])] * repetitions


class Bench:
    """A task on the CPU device with a clock of its own; a test replaces what it is about."""

    def __init__(self, seconds, configs=None, build=None):
        self.x = np.arange(50, dtype=np.float32)
        self.input = tw.from_numpy(self.x, device="cpu")
        self.output = tw.zeros((50,), f32, device="cpu")
        self.built: list[Config] = []
        self.clock = FakeClock(self.built, seconds)
        self._build = build or self.double
        self.task = Task(
            kernel="doubled",
            key=key_of(f32, (50,)),
            configs=tuple(configs or SPACE),
            build=self.build,
            error=lambda _: relative_error(self.output.numpy(), 2 * self.x),
            limit=1e-6,
            device=tw.Device("cpu"),
            source="a digest",
            prepare=partial(poison, self.output),
        )

    def build(self, config):
        self.built.append(config)
        return self._build(config)

    def double(self, config):
        return doubled(self.output.partition(config["B"]), self.input)

    def timer(self, effort):
        return Timer(self.task.device.stream, effort, clock=self.clock)
