"""Functions of several launches, called again and again on a GPU on paper.

From the fourth call on, all launches are put on the stream at once, unless something is in the way:
then it is the chain that it was at first.
"""

from __future__ import annotations

import numpy as np
import paper_kernels
import pytest
from paper_kernels import SIZE, numbers
from tilewright.runtime.ops.series import Series

import tilewright as tw
from tilewright import f32
from tilewright.errors import BorrowError, DriverError


@pytest.fixture
def gpu(driver, cuda, monkeypatch):
    return paper_kernels.set_up(driver, monkeypatch)


@pytest.fixture
def one_more(gpu):
    return paper_kernels.one_more()


@pytest.fixture
def thrice(one_more):
    """A function with two tensors between its launches."""

    @tw.function
    def thrice(x: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
        out, a, b = (tw.empty(x.shape, f32, device=x.device) for _ in range(3))
        return (
            one_more(a.partition(SIZE), x)
            .then(lambda _: one_more(b.partition(SIZE), a))
            .then(lambda _: one_more(out.partition(SIZE), b))
            .giving(out)
        )

    return thrice


@pytest.fixture
def fork(one_more):
    """A function whose second step are two launches, the second of another tensor."""

    @tw.function
    def fork(x: tw.Tensor, y: tw.Tensor) -> tw.DeviceOp[tuple[tw.Tensor, tw.Tensor]]:
        a, b, c = (tw.empty(x.shape, f32, device=x.device) for _ in range(3))
        both = lambda _: tw.zip(one_more(b.partition(SIZE), a), one_more(c.partition(SIZE), y))  # noqa: E731
        return one_more(a.partition(SIZE), x).then(both).giving((b, c))

    return fork


def tensor(ahead=0):
    return tw.from_numpy(np.float32(numbers(ahead)))


@pytest.fixture
def x(gpu, thrice):
    made = tensor()
    for _ in range(6):
        thrice(made).sync()
    operation = thrice(made)
    assert isinstance(operation, Series)
    operation.sync()
    gpu.log.clear()
    return made


def names(gpu):
    return [entry[0] for entry in gpu.log]


def test_nothing_is_asked_of_the_driver_but_launches(gpu, thrice, x):
    for _ in range(10):
        thrice(x).submit()
    assert names(gpu) == ["launch"] * 30
    assert thrice(x).sync().numpy().tolist() == numbers(3)


def test_each_result_is_what_it_should_be(thrice, x):
    y = x
    for call in range(10):
        y = thrice(y).sync()
        assert y.numpy().tolist() == numbers(3 * call + 3)


def test_results_that_are_kept(thrice, x):
    kept = [thrice(x).submit() for _ in range(10)]
    results = [operation.sync() for operation in kept]
    assert len({result.address for result in results}) == 10
    for result in results:
        assert result.numpy().tolist() == numbers(3)


def test_two_at_once(gpu, fork):
    x, y = tensor(), tensor(5)
    for _ in range(8):
        operation = fork(x, y)
        b, c = operation.sync()
        assert b.numpy().tolist() == numbers(2)
        assert c.numpy().tolist() == numbers(6)
        del b, c
    assert isinstance(operation, Series)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_launch_that_is_refused(gpu, thrice, x, number):
    operation = thrice(x)
    ready, _ = operation._launches[number]
    launch = ready.launch

    def refused(*_):
        raise DriverError("no")

    ready.launch = refused
    try:
        with pytest.raises(DriverError, match="no"):
            operation.submit()
    finally:
        ready.launch = launch
    assert names(gpu).count("launch") == number
    with pytest.raises(DriverError, match="no"):
        operation.sync()
    assert thrice(x).sync().numpy().tolist() == numbers(3)
    tw.fill(x, 1.0).sync()  # nobody holds it


def test_on_another_stream_it_is_a_chain(cuda, thrice, x):
    gpu_stream = cuda.new_stream()
    for _ in range(3):
        assert thrice(x).sync_on(gpu_stream).numpy().tolist() == numbers(3)
    assert thrice(x).sync().numpy().tolist() == numbers(3)


@pytest.fixture
def pair(fork):
    """Two tensors, and the function called for them until its launches are put at once."""
    x, y = tensor(), tensor(5)
    for _ in range(8):
        fork(x, y).sync()
    return x, y


@pytest.mark.parametrize("is_first", [False, True])
def test_what_a_later_step_reads_is_held_by_somebody_else(fork, pair, is_first):
    """As for a chain: whoever writes it, and has not said when, is in the way when it is put."""
    x, y = pair
    built = [tw.fill(y, 1.0)] if is_first else []
    operation = fork(x, y)
    assert isinstance(operation, Series)
    built = built or [tw.fill(y, 1.0)]
    with pytest.raises(BorrowError, match="fill"):
        operation.submit()
    built[0].close()
    assert fork(x, y).sync()[1].numpy().tolist() == numbers(6)


def test_what_a_later_step_reads_is_written_elsewhere(gpu, cuda, fork, one_more, pair):
    x, y = pair
    gpu.patient = True
    one_more(y.partition(SIZE), tensor(1)).submit(cuda.new_stream())
    gpu.log.clear()
    operation = fork(x, y).submit()
    assert "wait" in names(gpu)
    gpu.patient = False
    assert operation.sync()[1].numpy().tolist() == numbers(3)


@pytest.mark.parametrize("times", [0, 1, 2])
@pytest.mark.parametrize("which", [0, 1])
def test_whoever_comes_behind_it_elsewhere_waits(gpu, cuda, fork, one_more, pair, times, which):
    gpu.patient = True
    for _ in range(times):
        fork(*pair).submit()
    operation = fork(*pair)
    assert isinstance(operation, Series)
    operation.submit()
    gpu.log.clear()
    other = cuda.new_stream()
    one_more(pair[which].partition(SIZE), tensor(1)).submit(other)
    assert "wait" in names(gpu)
    gpu.patient = False
    assert operation.sync()[which].numpy().tolist() == numbers((2, 6)[which])


def test_what_the_first_step_reads_is_held(thrice, x):
    operation = thrice(x)
    with pytest.raises(BorrowError, match="one_more"):
        tw.fill(x, 1.0)
    operation.close()
    tw.fill(x, 1.0).sync()


def test_it_is_recorded_as_the_launches_that_it_is(thrice, x):
    operation = thrice(x)
    with tw.graph() as graph:
        graph.record(operation)
    graph.launch().sync()
    graph.launch().sync()
    assert thrice(x).sync().numpy().tolist() == numbers(3)


def test_more_steps_behind_it(thrice, one_more, x):
    z = tw.empty(SIZE, f32)
    whole = thrice(x).then(lambda y: one_more(z.partition(SIZE), y)).giving(z)
    assert whole.sync().numpy().tolist() == numbers(4)
    pair = tw.zip(thrice(x), thrice(x)).sync()
    assert [one.numpy().tolist() for one in pair] == [numbers(3)] * 2


def test_one_that_is_never_run(thrice, x):
    operation = thrice(x)
    with pytest.warns(RuntimeWarning, match="was never run"):
        del operation
    tw.fill(x, 1.0).sync()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_others_that_were_built_meanwhile(thrice, x, order):
    built = thrice(x), thrice(x)
    for which in order:
        assert built[which].sync().numpy().tolist() == numbers(3)
    tw.fill(x, 1.0).sync()  # nobody holds it


@pytest.mark.parametrize("calls", [1, 8])
def test_while_a_graph_is_recorded(fork, one_more, calls):
    """Refused as the chain is: a later step reads what the graph writes, which has not run."""
    x, y, z = tensor(), tensor(), tensor()
    for _ in range(calls):
        fork(x, y).sync()
    operation = fork(x, y)
    with tw.graph() as graph:
        graph.record(one_more(y.partition(SIZE), z))
        with pytest.raises(tw.TilewrightError, match="record"):
            operation.submit()


# --- what comes in between ------------------------------------------------------------------------


class Ended:
    """Something that does as it likes when it ends."""

    def __init__(self, act):
        self.act = act

    def __del__(self):
        self.act()


def test_what_a_submission_ends_may_build_an_operation(cuda, thrice, x):
    y, built = tensor(), []
    operation = thrice(x)
    with cuda.lock:
        cuda.stream.keep(Ended(lambda: built.append(tw.fill(y, 1.0))))
        cuda.stream.advance()
    cuda.stream.queue.completed()
    assert operation.sync().numpy().tolist() == numbers(3)
    with pytest.raises(BorrowError):
        tw.fill(y, 2.0)
    built.pop().close()
    tw.fill(x, 1.0).close()  # nobody holds it


def test_a_finaliser_may_launch_between_two_launches(cuda, gpu, fork, monkeypatch):
    """The collector runs where it likes; here it writes what the second step reads, elsewhere."""
    x, y = tensor(), tensor(5)
    for _ in range(8):
        fork(x, y).sync()
    operation, launch, elsewhere = fork(x, y), gpu.launch, cuda.new_stream()
    assert isinstance(operation, Series)

    def collected(*given):
        monkeypatch.setattr(gpu, "launch", launch)
        launch(*given)
        with pytest.raises(BorrowError):
            tw.fill(x, 1.0)
        tw.fill(y, 1.0).submit(elsewhere)

    monkeypatch.setattr(gpu, "launch", collected)
    gpu.log.clear()
    operation.submit()
    assert [entry[0] for entry in gpu.calls("launch", "fill", "wait")] == [
        "launch", "fill", "launch", "wait", "launch"
    ]  # fmt: skip
    assert operation.sync()[1].numpy().tolist() == [2.0] * SIZE


@pytest.mark.parametrize("number", [0, 1])
def test_a_finaliser_may_not_write_what_an_earlier_launch_uses(cuda, gpu, fork, pair, number):
    """The collector runs in the last launch: all of those before hold what they have, too."""
    operation, refused = fork(*pair), []
    last, (_, held) = operation._launches[2][0], operation._launches[number]
    launch, elsewhere = last.launch, cuda.new_stream()

    def collected(*given):
        launch(*given)
        for tensor in held:
            with pytest.raises(BorrowError, match="one_more"):
                tw.fill(tensor, 1.0).submit(elsewhere)
            refused.append(tensor)

    last.launch = collected
    try:
        operation.submit()
    finally:
        last.launch = launch
    assert refused == list(held)
    b, c = operation.sync()
    assert b.numpy().tolist() == numbers(2)
    assert c.numpy().tolist() == numbers(6)
    assert not cuda.told
    for tensor in held:
        tw.fill(tensor, 1.0).close()  # nobody holds it


def test_a_signal_behind_the_last_launch(cuda, gpu, thrice, x, monkeypatch):
    operation = thrice(x)
    out = operation._launches[2][1][0]

    def interrupted(*_):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(Series, "_leave", interrupted)
    with pytest.raises(KeyboardInterrupt):
        operation.submit()
    assert names(gpu) == ["launch"] * 3
    gpu.log.clear()
    with pytest.raises(tw.LaunchError, match="the launch was interrupted"):
        out.numpy()
    tw.fill(x, 1.0).submit(cuda.new_stream())
    assert names(gpu)[-3:] == ["record", "wait", "fill"]


def test_two_threads_run_it_once(cuda, gpu, thrice, x):
    """One of them on another stream, where it is a chain, and the other one comes in between."""

    class Late(Series):
        __slots__ = ()

        def run(self, stream, ends):
            self.submit()
            return super().run(stream, ends)

    operation = thrice(x)
    operation.__class__ = Late
    with pytest.raises(tw.LaunchError, match="runs once and was submitted already"):
        operation.submit(cuda.new_stream())
    assert names(gpu) == ["launch"] * 3
    assert operation.sync().numpy().tolist() == numbers(3)
