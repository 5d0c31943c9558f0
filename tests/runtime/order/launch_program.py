"""A random program of launches of two kernels; the last launch is often made again."""

from __future__ import annotations

import runtime_names as tw
from order_program import Program

import tilewright as tile
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N

PARTS = (slice(0, 64), slice(0, 32), slice(32, 64), slice(16, 48))


def shift(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + 1)


def grow(z: Mut[f32, B]) -> None:
    z.store(z.load() + 1)


class Launches(Program):
    """The same program with launches of two kernels; the last one is often made again."""

    WEIGHTS = Program.WEIGHTS | {"again": 60, "drop": 2, "read": 4}

    def __init__(self, seed: int, streams: int = 3) -> None:
        super().__init__(seed, streams)
        self.driver.kernels |= {
            "shift": ((8, 4, 8, 4), lambda *_: None),
            "grow": ((8, 4), lambda *_: None),
        }
        # A kernel is loaded once for a GPU of one name, and each program has a GPU of its own.
        self.shift, self.grow = tile.kernel(shift), tile.kernel(grow)
        self.last = self.choose(), self.stream()

    def let_go(self) -> None:
        super().let_go()
        self.last = (), self.streams[0]

    def create(self) -> list[tw.Tensor]:
        """A root is its views: the handles that launches are found again by."""
        root = tw.zeros(64, f32, device=self.device)
        return [root if part == PARTS[0] else root[part] for part in PARTS]

    def view(self) -> tw.Tensor:
        return self.draw.choice(self.draw.choice(self.roots))

    def choose(self) -> tuple[tw.Tensor, ...]:
        z, x = self.view(), self.view()
        apart = z.storage is not x.storage or not z.region.overlaps(x.region)
        return (z, x) if apart and z.shape == x.shape else (z,)

    def launch(self, handles: tuple[tw.Tensor, ...]) -> tuple[tw.DeviceOp, list]:
        z, *inputs = handles
        kernel = self.shift if inputs else self.grow
        return kernel(z.partition(16), *inputs), [(z, True), *((x, False) for x in inputs)]

    def build(self) -> tuple[tw.DeviceOp, list]:
        handles = self.choose()
        self.last = handles, self.stream()
        return self.launch(handles)

    def again(self) -> None:
        handles, stream = self.last
        for _ in range(self.draw.randint(1, 4)):
            operation, self.driver.subject = self.launch(handles)
            operation.submit(stream)
            self.submissions += 1
        self.driver.subject = ()
