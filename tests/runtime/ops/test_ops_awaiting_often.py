"""Waiting without blocking, often: dropped, idle and busy in turns, from many threads and loops."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
import runtime_names as tw
from runtime_doubles import copy, operation, put, updates

pytestmark = pytest.mark.usefixtures("device")


def add(z, number):
    return operation("add", lambda array: np.add(array, number, out=array), updates(z))


def test_waits_dropped_in_flight_leave_what_comes_later_right(device):
    streams = [device.policy.next_stream() for _ in range(4)]
    tensors = [tw.full(8, n) for n in range(32)]
    for tensor in tensors:
        tensor.wait()

    async def main():
        holds = [stream.hold() for stream in streams]
        tasks = [asyncio.ensure_future(add(tensor, 100)) for tensor in tensors]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended)
        for hold in holds:
            hold.release()
        for tensor in tensors:
            await add(tensor, 1000)

    asyncio.run(main())
    for n, tensor in enumerate(tensors):
        assert tensor.numpy().tolist() == [1100.0 + n] * 8


def test_idle_and_busy_in_turns():
    z = tw.zeros(4)

    async def main():
        for _ in range(200):
            await add(z, 1)
            await asyncio.sleep(0)

    asyncio.run(main())
    assert z.numpy().tolist() == [200.0] * 4


def test_threads_with_loops_of_their_own_do_not_mix_their_results(device):
    found = {}

    async def pipeline(number):
        x, z = tw.full(16, number), tw.zeros(16)
        for _ in range(20):
            (result, _) = await copy(z, x)
            assert result is z
            await add(x, 1)
        return (await z).numpy()[0]

    def work(number):
        with tw.device(device):
            found[number] = asyncio.run(pipeline(number))

    threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {100 * n: 100.0 * n + 19 for n in range(8)}


def test_two_threads_record_at_once_and_a_third_makes_streams(cpu):
    start, results = threading.Barrier(3), {}

    def record(number):
        with tw.device(cpu):
            z = tw.full(4, number)
            start.wait()
            with tw.graph() as g:
                for _ in range(20):
                    g.record(add(z, 1))
            g.launch().sync()
            results[number] = z.numpy()[0]

    def make_streams():
        with tw.device(cpu):
            z = tw.zeros(4)
            start.wait()
            for _ in range(10):
                put(z, 7).sync_on(cpu.new_stream())
            results["streams"] = z.numpy()[0]

    threads = [threading.Thread(target=record, args=(n,)) for n in (100, 200)]
    threads.append(threading.Thread(target=make_streams))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {100: 120.0, 200: 220.0, "streams": 7.0}
