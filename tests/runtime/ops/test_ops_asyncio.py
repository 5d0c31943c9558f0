"""Operations in asyncio: submitted at once, waited for without the loop, safe when cancelled."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
import runtime_names as tw
from runtime_doubles import NoWork, operation, put, updates

from tilewright.errors import DriverError, LaunchError, OutOfBoundsError

pytestmark = pytest.mark.usefixtures("device")


def add_one(z):
    return operation("add_one", lambda array: np.add(array, 1, out=array), updates(z))


def test_await_gives_the_result(device):
    z = tw.zeros(4)

    async def main():
        (result,) = await put(z, 3)
        return result

    assert asyncio.run(main()) is z
    assert z.numpy().tolist() == [3.0] * 4
    assert device.stream.issued == 0  # awaited operations take the streams of the policy


def test_await_submits_before_it_first_yields(device):
    z = tw.zeros(1)

    async def main():
        streams = [device.policy.next_stream() for _ in range(4)]
        holds = [stream.hold() for stream in streams]
        op = put(z, 1)
        waiting = op.__await__()
        next(waiting)  # the first suspension
        assert op.state is tw.State.SUBMITTED
        for hold in holds:
            hold.release()
        waiting.close()
        await op

    asyncio.run(main())
    assert z.numpy().tolist() == [1.0]


def test_the_loop_goes_on_while_an_operation_runs(device):
    z = tw.zeros(1)
    gate = threading.Event()

    async def main():
        op = operation("slow", lambda _: gate.wait(), updates(z))
        task = asyncio.ensure_future(op)
        turns = 0
        while not task.done():
            turns += 1
            await asyncio.sleep(0)
            if turns == 5:
                gate.set()
        return turns

    assert asyncio.run(main()) >= 5


def test_gather_overlaps_independent_operations(cpu):
    tensors = [tw.zeros(1) for _ in range(4)]
    meeting = threading.Barrier(4)  # passed only if all four run at the same time

    async def main():
        ops = [operation("meet", lambda _: meeting.wait(), updates(z)) for z in tensors]
        return await asyncio.gather(*ops)

    assert len(asyncio.run(main())) == 4


def test_gather_orders_what_conflicts():
    z = tw.zeros(1)

    async def main():
        for _ in range(3):
            await asyncio.gather(add_one(z), asyncio.sleep(0))
        await put(z, 10).then(lambda r: add_one(r[0]))
        return await z

    assert asyncio.run(main()) is z
    assert z.numpy().tolist() == [11.0]


def test_a_submitted_operation_is_only_waited_for(device):
    z = tw.zeros(1)

    async def main():
        op = put(z, 1).submit()
        await op
        with pytest.raises(LaunchError, match="has handed its result over already"):
            await op
        closed = put(z, 2)
        closed.close()
        with pytest.raises(LaunchError, match="was closed and cannot be run"):
            await closed

    asyncio.run(main())
    assert device.stream.issued == 2


def failing(z):
    return operation(
        "failing", lambda _: None, updates(z), failure=lambda: OutOfBoundsError("index 9")
    )


def test_failures_reach_every_await():
    z, y = tw.zeros(1), tw.zeros(1)

    async def main():
        with pytest.raises(OutOfBoundsError, match="index 9"):
            await failing(z)
        await put(z, 1)
        results = await asyncio.gather(failing(z), put(y, 2), return_exceptions=True)
        assert isinstance(results[0], OutOfBoundsError)
        assert results[1] == (y,)
        with pytest.raises(OutOfBoundsError, match="index 9"):
            await z

    asyncio.run(main())


def test_a_cancelled_wait_leaves_the_work_in_its_stream(device):
    z = tw.zeros(1)

    async def main():
        streams = [device.policy.next_stream() for _ in range(4)]
        holds = [stream.hold() for stream in streams]
        task = asyncio.ensure_future(put(z, 4))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_awaited(z), 0.01)
        for hold in holds:
            hold.release()

    asyncio.run(main())
    assert z.numpy().tolist() == [4.0]


def test_what_ran_out_of_time_is_awaited_again(device):
    """A timeout ends the wait and nothing else: a later wait gets the result."""
    z = tw.zeros(1)

    async def main():
        stream = device.new_stream()
        hold = stream.hold()
        op = put(z, 5).submit(stream)
        for _ in range(2):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await op
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(op, 0.01)
        assert not op.done
        hold.release()
        return await op

    assert asyncio.run(main()) == (z,)


def test_tasks_in_a_group(device):
    """An exception in one task cancels the waits of the others; their work goes on."""
    z, y = tw.zeros(1), tw.zeros(1)
    held = device.new_stream()

    async def main():
        async with asyncio.TaskGroup() as group:
            group.create_task(_awaited(put(z, 6).submit(held)))
            group.create_task(_awaited(failing(y)))

    hold = held.hold()
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(main())
    assert [type(error) for error in caught.value.exceptions] == [OutOfBoundsError]
    hold.release()
    assert z.numpy().tolist() == [6.0]


async def _awaited(tensor):
    return await tensor


def test_a_loop_that_is_gone_is_not_told(device):
    z = tw.zeros(1)
    streams = [device.policy.next_stream() for _ in range(4)]
    holds = [stream.hold() for stream in streams]
    loop = asyncio.new_event_loop()
    with pytest.raises(asyncio.TimeoutError):
        loop.run_until_complete(asyncio.wait_for(asyncio.ensure_future(put(z, 4), loop=loop), 0.01))
    loop.close()
    for hold in holds:
        hold.release()
    assert z.numpy().tolist() == [4.0]


def test_what_is_awaited_makes_no_stream_of_its_own(device):
    # A driver may wait for the streams that there are before it makes another.
    z = tw.zeros(1)
    streams = [device.policy.next_stream() for _ in range(4)]

    async def main():
        await put(z, 4)

    asyncio.run(main())
    assert set(device.streams) == set(streams)


def test_several_loops_in_several_threads():
    tensors = [tw.zeros(1) for _ in range(3)]
    failures = []

    def run(z):
        async def main():
            for _ in range(50):
                await add_one(z)

        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=run, args=(z,)) for z in tensors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [z.numpy().tolist() for z in tensors] == [[50.0]] * 3


def test_on_paper_a_poller_says_when_a_gpu_has_got_there(driver, cuda):
    z = tw.zeros(4)

    async def main():
        op = z.wait  # nothing written yet
        op()
        work = tw.make_operation("nothing", cuda, (), NoWork(), z)
        return await work

    assert asyncio.run(main()) is z
    assert driver.calls("record") == []  # it was over before a task had to be told
    driver.patient = True

    async def patient():
        work = tw.make_operation("nothing", cuda, (), NoWork(), z)
        task = asyncio.ensure_future(work)
        await asyncio.sleep(0.002)
        assert not task.done()
        driver.patient = False
        return await task

    assert asyncio.run(patient()) is z
    assert len(driver.calls("record")) == 1


def test_on_paper_a_lost_gpu_is_told_to_every_await(driver, cuda, monkeypatch):
    def lost(*_):
        raise DriverError("cuEventQuery failed with CUDA_ERROR_ILLEGAL_ADDRESS (700)")

    driver.patient = True

    async def main():
        task = asyncio.ensure_future(tw.make_operation("nothing", cuda, (), NoWork(), None))
        await asyncio.sleep(0.002)  # by then the poller has it
        for name in ("query_event", "query_stream", "synchronize_stream"):
            monkeypatch.setattr(driver, name, lost)
        with pytest.raises(DriverError, match="700"):
            await asyncio.wait_for(task, 20)

    asyncio.run(main())
    monkeypatch.undo()


def test_on_paper_the_poller_ends_with_the_process(driver, cuda):
    async def main():
        driver.patient = True
        task = asyncio.ensure_future(tw.make_operation("nothing", cuda, (), NoWork(), None))
        await asyncio.sleep(0.002)  # by then the poller has it
        driver.patient = False
        await task

    before = set(threading.enumerate())
    asyncio.run(main())
    (poller,) = set(threading.enumerate()) - before
    assert poller.name == "tilewright poller"
    cuda.backend.end()
    assert not poller.is_alive()
    asyncio.run(main())  # late waits are watched all the same
    cuda.backend.end()


def test_on_paper_a_wait_lets_other_tasks_submit_first(driver, cuda):
    seen = []

    async def one(name):
        operation = tw.make_operation("nothing", cuda, (), NoWork(), None).submit()
        seen.append(f"{name} submitted")
        await operation
        seen.append(f"{name} done")

    async def main():
        tasks = [asyncio.ensure_future(one(name)) for name in ("first", "second")]
        await asyncio.sleep(0)
        driver.patient = False  # a turn is over, and no wait took longer than that
        await asyncio.gather(*tasks)

    driver.patient = True
    asyncio.run(main())
    assert seen == ["first submitted", "second submitted", "first done", "second done"]
    assert driver.calls("record") == []  # nor was the poller needed
