"""Functions of several launches, called again and again on a GPU on paper.

The first calls are chains. Later ones come to one sequence, which is submitted in one critical
section, and which holds, orders and refuses what the chain does.
"""

from __future__ import annotations

from threading import Thread

import numpy as np
import paper_kernels
import pytest
from paper_kernels import SIZE, numbers

import tilewright as tw
from tilewright import f32
from tilewright.errors import BorrowError, DriverError, LaunchError
from tilewright.jit.plans.plan import BoundLaunch
from tilewright.runtime.ops.sequence import SequenceWork


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
    assert isinstance(operation.work, SequenceWork)
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
    assert isinstance(operation.work, SequenceWork)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_launch_that_is_refused(gpu, thrice, x, number):
    operation = thrice(x)
    work = operation.work.parts[number].work
    launch = work.launch

    def refused(*_):
        raise DriverError("no")

    work.launch = refused
    try:
        with pytest.raises(DriverError, match="no"):
            operation.submit()
    finally:
        work.launch = launch
    assert names(gpu).count("launch") == number
    with pytest.raises(DriverError, match="no"):
        operation.sync()
    assert thrice(x).sync().numpy().tolist() == numbers(3)
    tw.fill(x, 1.0).sync()  # nothing holds it


def test_on_another_stream(cuda, thrice, x):
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
def test_a_later_step_reads_a_tensor_that_another_operation_holds(fork, pair, is_first):
    """As for a chain: a built writer of it is in the way when the sequence is submitted."""
    x, y = pair
    built = [tw.fill(y, 1.0)] if is_first else []
    operation = fork(x, y)
    assert isinstance(operation.work, SequenceWork)
    built = built or [tw.fill(y, 1.0)]
    with pytest.raises(BorrowError, match="fill"):
        operation.submit()
    built[0].close()
    assert fork(x, y).sync()[1].numpy().tolist() == numbers(6)


def test_a_later_step_reads_a_tensor_that_is_written_elsewhere(gpu, cuda, fork, one_more, pair):
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
def test_work_behind_it_elsewhere_waits(gpu, cuda, fork, one_more, pair, times, which):
    gpu.patient = True
    for _ in range(times):
        fork(*pair).submit()
    operation = fork(*pair)
    assert isinstance(operation.work, SequenceWork)
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
    tw.fill(x, 1.0).sync()  # nothing holds it


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


@pytest.mark.parametrize("calls", [1, 8])
def test_a_tensor_of_a_later_step_may_be_read_and_written_before_it_runs(fork, one_more, calls):
    """The first step alone holds its tensors, however often the function was called."""
    x, y = tensor(), tensor(5)
    for _ in range(calls):
        fork(x, y).sync()
    operation = fork(x, y)
    assert isinstance(getattr(operation, "work", None), SequenceWork) == (calls > 1)
    one_more(y.partition(SIZE), tensor(1)).sync()
    assert y.numpy().tolist() == numbers(2)
    assert operation.sync()[1].numpy().tolist() == numbers(3)


def test_memory_of_outputs_that_are_dropped_comes_back(gpu, thrice, x):
    """The free list gives the same addresses again, and the launches are bound to them."""
    addresses = set()
    for number in range(12):
        operation = thrice(x)
        if number > 4:
            assert [type(one.work) for one in operation.work.parts] == [BoundLaunch] * 3
        result = operation.sync()
        addresses.add(result.address)
        assert result.numpy().tolist() == numbers(3)
        del operation, result
    assert len(addresses) <= 3
    assert gpu.calls("allocate", "free") == []


# --- in the middle of it --------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, 2])
def test_calls_from_a_finaliser_in_the_middle_are_refused(gpu, cuda, fork, pair, number):
    """The collector runs where it likes; here between a launch and the end of the submission."""
    operation, refused, y = fork(*pair), [], tensor()
    work = operation.work.parts[number].work
    launch, elsewhere = work.launch, cuda.new_stream()
    text = r"cuda:0 is in the middle of one_more, which this call has interrupted"

    def collected(*given):
        launch(*given)
        for call in (
            lambda: tw.fill(pair[1], 1.0).submit(elsewhere),
            lambda: tw.fill(y, 1.0),
            lambda: fork(*pair),
            y.numpy,
        ):
            with pytest.raises(LaunchError, match=text):
                call()
            refused.append(call)

    work.launch = collected
    gpu.log.clear()
    try:
        operation.submit()
    finally:
        work.launch = launch
    assert len(refused) == 4
    assert names(gpu) == ["launch"] * 3
    b, c = operation.sync()
    assert b.numpy().tolist() == numbers(2)
    assert c.numpy().tolist() == numbers(6)
    for one in (*pair, y):
        tw.fill(one, 1.0).sync()  # nothing holds it


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_launch_that_a_signal_interrupts(gpu, cuda, thrice, x, number):
    """The sequence is given up, and its uses count, as the driver has got the launch."""
    operation = thrice(x)
    work = operation.work.parts[number].work
    launch = work.launch

    def interrupted(*given):
        launch(*given)
        raise KeyboardInterrupt

    work.launch = interrupted
    try:
        with pytest.raises(KeyboardInterrupt):
            operation.submit()
    finally:
        work.launch = launch
    assert names(gpu) == ["launch"] * (number + 1)
    with pytest.raises(LaunchError, match="was given up, as its submission was interrupted"):
        operation.sync()
    tw.fill(x, 1.0).submit(cuda.new_stream())  # ordered behind the launches that read it
    assert names(gpu)[-3:] == ["record", "wait", "fill"]


def test_two_threads_run_it_once(gpu, thrice, x):
    operation, ran = thrice(x), []

    def submit():
        try:
            ran.append(operation.submit())
        except LaunchError as error:
            assert "runs once and was submitted already" in str(error)  # noqa: PT017

    threads = [Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ran == [operation]
    assert names(gpu) == ["launch"] * 3
    assert operation.sync().numpy().tolist() == numbers(3)
