"""Memory pools: counted, limited, and emptied of dropped tensors before a refusal."""

from __future__ import annotations

import gc

import pytest
import runtime_names as tw
from runtime_doubles import NoWork, put, writes

from tilewright.errors import LaunchError, OutOfMemoryError
from tilewright.runtime.memory.pool import Pool, pool


def test_statistics_follow_tensors(cpu):
    mine = Pool(cpu)
    with pool(mine) as chosen:
        assert chosen is mine
        z = tw.zeros(256)
        assert mine.statistics().used == 0  # no bytes before the first use
        put(z, 1).sync()
    assert mine.statistics() == (1024, 1024, 1024, 1024)
    elsewhere = tw.zeros(256)
    put(elsewhere, 1).sync()
    assert mine.statistics().used == 1024
    assert cpu.pool.statistics().used == 1024
    del z
    cpu.synchronize()
    assert mine.statistics()[:2] == (0, 1024)
    mine.reset_highest()
    assert mine.statistics().highest_used == 0


def test_a_tensor_keeps_the_pool_it_was_made_in(cpu):
    small = Pool(cpu, limit=16)
    with pool(small):
        z = tw.zeros(8)
    with pytest.raises(OutOfMemoryError, match="a pool of 16 bytes"):
        put(z, 1).submit()


def test_a_pool_serves_its_own_device(cpu):
    mine, theirs = Pool(cpu), Pool(tw.Device("cpu:1"))
    with pool(mine), pool(theirs):
        here, there = tw.zeros(256), tw.zeros(128, device="cpu:1")
        for tensor in (here, there):
            put(tensor, 1).sync()
    assert (mine.statistics().used, theirs.statistics().used) == (1024, 512)


def test_dropped_memory_is_freed_before_a_refusal(cpu):
    mine = Pool(cpu, limit=4096)
    hold = cpu.stream.hold()
    with pool(mine):
        z = tw.zeros(1024)
        put(z, 1).submit()
        del z  # in flight: its bytes go back when the stream has got there
        hold.release()
        y = tw.zeros(1024)
        put(y, 2).sync()
    assert y.numpy().sum() == 2048
    assert mine.statistics() == (4096, 4096, 4096, 4096)


def test_cycles_are_collected_before_a_refusal(cpu):
    gc.disable()
    try:
        with pool(Pool(cpu, limit=4096)):
            z = tw.zeros(1024)
            put(z, 1).sync()
            cycle = [z]
            cycle.append(cycle)
            del z, cycle
            put(tw.zeros(1024), 2).sync()
    finally:
        gc.enable()


def test_a_refusal_names_the_tensor_and_the_largest_holders(cpu):
    with pool(Pool(cpu, limit=3 << 20)):
        large, small = tw.zeros((512, 1024)), tw.zeros(100)
        put(large, 1).sync()
        put(small, 1).sync()
        wanted = tw.zeros((1024, 1024))
        op = put(wanted, 1)
        with pytest.raises(OutOfMemoryError) as caught:
            op.submit()
    first, held, biggest, next_one, way_out = str(caught.value).splitlines()
    assert first.startswith("a pool of 3145728 bytes, of which 2097552 are in use, has no room")
    assert "it was for f32[1024, 1024] (4.0 MiB), made at " in first
    assert "test_memory_pools.py:" in first
    assert held == "2 tensors hold 2.0 MiB of cpu; the largest:"
    assert biggest.startswith("  2.0 MiB  f32[512, 1024], made at ")
    assert next_one.startswith("  400 bytes  f32[100], made at ")
    assert way_out == "drop tensors that are not needed any more, or use smaller tensors"
    put(small, 3).sync()  # nothing is lost
    assert small.numpy().sum() == 300


def test_numbers_of_bytes_are_checked(device):
    with pytest.raises(LaunchError, match="limit=-1: it is a number of bytes"):
        Pool(device, limit=-1)
    with pytest.raises(LaunchError, match="release_threshold=-5: it is a number of bytes"):
        Pool(device, release_threshold=-5)
    assert "used=0" in repr(Pool(device))


def test_on_paper_a_gpu_has_a_pool_of_its_own(driver, cuda):
    z = tw.zeros(64)
    put_nothing(z).submit()
    assert driver.calls("create_pool") == [("create_pool", 0)]
    assert cuda.pool.backend.handle["threshold"] == 2**64 - 1
    other = Pool(cuda, release_threshold=1 << 20, limit=1 << 30)
    assert other.backend.handle == {"limit": 1 << 30, "threshold": 1 << 20}
    other.trim(64)
    assert driver.calls("trim") == [("trim", 64)]


def put_nothing(z):
    return tw.make_operation("nothing", z.device, (writes(z),), NoWork(), z)
