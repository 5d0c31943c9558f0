"""Memory that is taken while a signal handler raises, at every point, on a GPU on paper."""

from __future__ import annotations

import itertools

import pytest
import runtime_names as tw
from interrupt_points import Interrupt, InterruptPoints

from tilewright.dtypes import f32
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.memory.creation import fill_by

pytestmark = [
    pytest.mark.filterwarnings("ignore:operation copy.* was never run"),
    # Python ignores an exception in a finaliser.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def taken(copy, x, out, stream):
    made = tw.empty(8)
    yield made
    copy(made, x).submit()


def lazy(copy, x, out, stream):
    made = tw.empty(8), tw.empty(8)
    yield from made
    for one in made:
        copy(one, x).submit(stream)


def filled(copy, x, out, stream):
    made = tw.full(8, 3.0)
    yield made
    copy(out, made).submit()


def made_by_an_operation(copy, x, out, stream):
    made = fill_by(8, f32, lambda tensor, on: copy(tensor, x).submit(on))
    yield made
    copy(out, made).submit()


def interrupt(at, program, kept):
    """Run a program, interrupted at a point; whether it passed that point."""
    points = InterruptPoints(at)
    try:
        with points:
            for tensor in program:
                kept.append(tensor)
    except Interrupt:
        pass
    return points.where is not None


@pytest.mark.parametrize("program", [taken, lazy, filled, made_by_an_operation])
def test_tensors_have_memory_of_their_own(cuda, copy, program):
    x, out, stream = tw.full(8, 3.0), tw.zeros(8), cuda.new_stream()
    for at in itertools.count():
        for on in (None, stream, None):  # memory on the free lists of both
            copy(tw.empty(8), x).submit(on)
        kept: list[tw.Tensor] = []
        goes_on = interrupt(at, program(copy, x, out, stream), kept)
        others = [tw.empty(8) for _ in range(6)]
        for number, tensor in enumerate(others):
            copy(tensor, x).submit((None, stream)[number % 2])
        for tensor in kept:
            if program in (taken, lazy):  # its contents are those of the interrupted launch
                copy(tensor, x).submit()
            copy(out, tensor).submit()
        for tensor in (*kept, *others):
            assert tensor.address
            assert tensor.numpy().tolist() == [3.0] * 8
        alive = {tensor.storage for tensor in (x, out, *kept, *others)}
        assert len({storage.address for storage in alive}) == len(alive)
        if not goes_on:
            return


def test_a_stream_is_listed_once_it_is_complete(cuda):
    for at in itertools.count():
        points = InterruptPoints(at)
        try:
            with points:
                Stream(cuda)
        except Interrupt:
            pass
        tw.copy(tw.zeros(8), tw.ones(8)).submit(cuda.streams[-1] if cuda.streams else None).sync()
        if points.where is None:
            return
