"""Random launches of real kernels against vector clocks: the quick ways to a launch keep the order.

A launch that was made before is found again by its handles, and one that is made over and over
only moves a fence on. So the handles here are few and used again and again, on few streams.
"""

from __future__ import annotations

import pytest
from test_runtime_order_model import COUNT, EACH, SEED, Program

import tilewright as tile
from tilewright import Mut, Ref, f32
from tilewright import runtime as tw
from tilewright.backends.cuda import program as assembler
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


@pytest.fixture(autouse=True)
def no_tileiras(monkeypatch):
    monkeypatch.setattr(assembler, "assemble", lambda *_: b"cubin")


def run(seed: int, streams: int = 3) -> Launches:
    program = Launches(seed, streams)
    try:
        program.run(EACH)
    except BaseException as error:
        error.add_note(f"Launches({seed}, {streams})")
        raise
    return program


def test_every_conflict_is_ordered_and_no_wait_is_in_vain(record_property):
    programs = [run(SEED * 1_000_003 + number) for number in range(COUNT // 4 // EACH)]
    submissions = sum(program.submissions for program in programs)
    waits = sum(program.driver.waits_put for program in programs)
    naive = sum(program.driver.naive_waits for program in programs)
    summary = f"{submissions:,} launches, {waits:,} waits inserted; {naive:,} without memory"
    record_property("waits", summary)
    print(f"\nseed {SEED}: {summary}")  # noqa: T201 (for those who run `make model`)
    assert 0 < waits < naive


@pytest.mark.parametrize("seed", range(2))
def test_on_one_stream_nothing_waits(seed):
    program = run(seed, streams=1)
    assert program.driver.calls("create_event", "record", "wait") == []
