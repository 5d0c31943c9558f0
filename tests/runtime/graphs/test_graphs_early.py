"""Which kernels of a CUDA graph may start before the one before them has ended."""

from __future__ import annotations

import pytest
import runtime_names as tw
from paper_launches import FunctionWork, add_one_kernel, load
from runtime_doubles import reads, updates

from tilewright.errors import LaunchError


@pytest.fixture
def copies(driver, cuda):
    """Operations of a kernel that waits itself, and of one that does not."""

    def make(name, waits):
        function = load(driver, name, add_one_kernel, waits=waits)

        def operation(z, x):
            work = FunctionWork(function, (z, x))
            return tw.make_operation("copy", cuda, (updates(z), reads(x)), work, None)

        return operation

    return make("waiting", True), make("plain", False)


def added(driver):
    """How the kernels of a graph were added, in order."""
    return [(call, before) for call, _, before in driver.calls("add_launch", "add_early")]


def test_a_kernel_that_waits_starts_early_behind_one_kernel(driver, copies):
    waiting, plain = copies
    a, b, c, d = (tw.full(8, number) for number in range(4))
    with tw.graph() as made:
        made.record(plain(b, a))
        made.record(waiting(c, b))
        made.record(waiting(d, c))
    assert added(driver) == [("add_launch", ()), ("add_early", (0,)), ("add_early", (1,))]
    made.launch().submit()
    assert d.numpy()[0] == 3


def test_others_wait_for_the_end(driver, copies):
    waiting, plain = copies
    a, b, c, d = (tw.full(8, number) for number in range(4))
    with tw.graph() as made:
        made.record(waiting(b, a))
        made.record(plain(c, b))  # does not wait itself
        made.record(waiting(d, b))  # behind one kernel
        made.record(waiting(b, d))  # behind both that read
    kinds = [call for call, _ in added(driver)]
    assert kinds == ["add_launch", "add_launch", "add_early", "add_launch"]


def test_what_is_no_kernel_has_ended(driver, copies):
    waiting, _ = copies
    a, b = tw.full(8, 1), tw.full(8, 2)
    with tw.graph() as made:
        made.record(tw.fill(a, 5.0))
        made.record(waiting(b, a))
    assert added(driver) == [("add_launch", (0,))]


def test_a_node_that_starts_early_never_gets_a_kernel_that_does_not_wait(driver, copies):
    waiting, plain = copies
    a, b, c = (tw.full(8, number) for number in range(3))
    with tw.graph() as made:
        made.record(waiting(b, a))
        made.record(waiting(c, b))
    made.update(waiting(c, b), node=1)
    assert len(driver.calls("set_launch")) == 1
    other = plain(c, b)
    with pytest.raises(LaunchError, match="compiled for other arguments"):
        made.update(other, node=1)
    other.close()
    assert len(driver.calls("set_launch")) == 1
    made.launch().submit()
    assert c.numpy()[0] == 2
