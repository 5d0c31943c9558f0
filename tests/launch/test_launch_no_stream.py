"""What is no stream is refused, whichever way a launch takes; zero is the number of a stream."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mut, f32, kernels
from tilewright.dims import B
from tilewright.errors import LaunchError

MESSAGE = (
    "a stream has `__cuda_stream__`, and int has not: give one of ours, or the stream object of the"
    " other library and not its number"
)


@tw.kernel
def count(z: Mut[f32, B]) -> None:
    z.store(z.load() + 1.0)


def first(z):
    return count(z.partition(64))


def prepared(z):
    for _ in range(3):
        count(z.partition(64)).sync()
    return count(z.partition(64))


def planned(z):
    other = tw.zeros(64)
    other.wait()
    for _ in range(3):
        count(other.partition(64)).sync()
    return count(z.partition(64))


def replayed(z):
    with tw.graph() as graph:
        graph.record(count(z.partition(64)))
    graph.launch().sync()
    return graph.launch()


def called(z):
    for _ in range(3):
        kernels.softmax(z).sync()
    return kernels.softmax(z)


@pytest.mark.parametrize("build", [first, prepared, planned, replayed, called])
@pytest.mark.parametrize("number", [0, 1])
def test_a_number_is_no_stream(build, number):
    z = tw.zeros(64)
    z.wait()
    op = build(z)
    with pytest.raises(LaunchError) as refused:
        op.submit(number)
    assert str(refused.value) == MESSAGE
    op.submit(z.device.stream).sync()  # nothing was lost
    assert np.isfinite(z.numpy()).all()
