"""The same rules on a real GPU: fills, copies, launches, waits between streams, records."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading

import numpy as np
import pytest
import runtime_names as tw
from runtime_doubles import reads, writes

from tilewright.backends.cuda.driver import missing_driver
from tilewright.backends.cuda.module import POINTER, CudaFunction
from tilewright.dtypes import DTYPES, IN_TILES_ONLY, Element, f32, f64, numpy_dtype
from tilewright.errors import DriverError, LaunchError, OutOfMemoryError
from tilewright.runtime.memory.pool import Pool, pool

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(missing_driver() is not None, reason=f"{missing_driver()}"),
]

# One block an element: z[i] = x[i] * scale + shift, and the first block writes a record.
PTX = """
.version 8.0
.target {target}
.address_size 64
.visible .entry scale(.param .u64 z, .param .u64 x, .param .f32 scale, .param .u32 shift,
                      .param .u64 record)
{{
  .reg .b64 %a<6>; .reg .b32 %r<6>; .reg .f32 %f<5>; .reg .pred %p;
  ld.param.u64 %a0, [z]; ld.param.u64 %a1, [x]; ld.param.u64 %a2, [record];
  ld.param.f32 %f0, [scale]; ld.param.u32 %r0, [shift];
  mov.u32 %r1, %ctaid.x; mul.wide.u32 %a3, %r1, 4;
  add.u64 %a4, %a1, %a3; ld.global.f32 %f1, [%a4];
  cvt.rn.f32.s32 %f2, %r0; fma.rn.f32 %f3, %f1, %f0, %f2;
  add.u64 %a5, %a0, %a3; st.global.f32 [%a5], %f3;
  setp.ne.u32 %p, %r1, 0; @%p bra done;
  setp.eq.u64 %p, %a2, 0; @%p bra done;
  mov.u32 %r2, 7; st.global.u32 [%a2], %r2;
done: ret;
}}
"""
KINDS = (POINTER, POINTER, Element.F32, Element.I32, POINTER)


@pytest.fixture(scope="module")
def cuda():
    return tw.Device("cuda:0")


@pytest.fixture(autouse=True)
def on_gpu(cuda):
    with tw.device(cuda):
        yield


@pytest.fixture(scope="module")
def scale(cuda, tmp_path_factory):
    if shutil.which("ptxas") is None:
        pytest.skip("ptxas is not on PATH")
    folder = tmp_path_factory.mktemp("ptx")
    (folder / "k.ptx").write_text(PTX.format(target=cuda.target))
    command = ["ptxas", f"-arch={cuda.target}", "k.ptx", "-o", "k.cubin"]
    subprocess.run(command, cwd=folder, check=True)
    cubin = (folder / "k.cubin").read_bytes()
    function = CudaFunction(cuda.backend.driver, cubin, "scale", KINDS)

    class Work:
        def __init__(self, z, x, factor, shift, record):
            self.given = (z, x, factor, shift, record)

        def enqueue(self, stream):
            z, x, factor, shift, record = self.given
            where = 0 if record is None else record.address
            function.launch(stream, z.size, (z.address, x.address, factor, shift, where), ())

    def build(z, x, factor=1.0, shift=0, record=None, failure=None):
        work = Work(z, x, factor, shift, record)
        return tw.make_operation("scale", cuda, (writes(z), reads(x)), work, z, failure=failure)

    return build


@pytest.mark.parametrize(
    "dtype", [d for d in DTYPES if d not in IN_TILES_ONLY], ids=lambda dtype: dtype.label
)
def test_fills(dtype):
    values = tw.ones((3, 5), dtype).numpy()
    assert values.dtype == numpy_dtype(dtype)
    assert values.astype(np.float32).tolist() == [[1.0] * 5] * 3


def test_wide_fills_and_copies():
    assert tw.full(1001, 0.1, f64).numpy().tolist() == [0.1] * 1001
    values = np.random.default_rng(0).normal(size=(37, 53))
    tensor = tw.from_numpy(values)
    assert np.array_equal(tensor.numpy(), values)
    assert np.array_equal(tensor[3:30, 7:50].numpy(), values[3:30, 7:50])
    assert tw.zeros((0, 4)).numpy().shape == (0, 4)


def test_a_thousand_launches(scale):
    x, z = tw.zeros(4096), tw.zeros(4096)
    for _ in range(500):
        scale(z, x, 1.0, 1).submit()
        scale(x, z, 1.0, 1).submit()
    assert set(x.numpy()) == {1000.0}


def test_streams_wait_for_each_other(cuda, scale):
    streams = [cuda.new_stream() for _ in range(3)]
    size = 1 << 16
    tensors = [tw.full(size, float(number), f32) for number in range(3)]
    expected = [np.full(size, number, np.float32) for number in range(3)]
    for step in range(120):
        z, x = step % 3, (step * 7 + 1) % 3
        if z == x:
            continue
        scale(tensors[z], tensors[x], 0.5, step).submit(streams[(step * 5) % 3])
        expected[z] = expected[x] * np.float32(0.5) + np.float32(step)
        scale(tw.empty(size), tensors[z]).submit(streams[step % 3])  # dropped in flight
    for tensor, values in zip(tensors, expected, strict=True):
        assert np.array_equal(tensor.numpy(), values)


def test_threads_without_a_context(scale):
    results = []

    def work():
        with tw.device("cuda:0"):
            z = tw.zeros(64)
            scale(z, tw.ones(64), 3.0).submit()
            results.append(z.numpy()[0])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [3.0] * 4


def test_threads_without_a_context_make_outputs_and_drop_them(scale):
    x, found = tw.ones(64), []
    x.wait()

    def work():
        for number in range(20):  # each frees the memory of the one before
            z = scale(tw.empty(64, device=x.device), x, float(number)).sync()
        found.append(z.numpy().tolist())

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[19.0] * 64] * 2


def test_a_graph_is_replayed_by_threads_without_a_context(scale):
    z, x = tw.zeros(64), tw.ones(64)
    with tw.graph() as graph:
        for number in range(5):  # side by side, behind one start, but for the last
            graph.record(scale(z[number * 8 : number * 8 + 8], x[:8], number))
        graph.record(scale(z[:8], x[:8], 7.0))
    threads = [threading.Thread(target=lambda: graph.launch().sync()) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    assert z.numpy()[:40:8].tolist() == [7.0, 1.0, 2.0, 3.0, 4.0]


def test_a_record_is_read_after_the_fence(cuda, scale):
    record = cuda.new_record()
    assert record.read() == (0,) * 16
    z = tw.zeros(64)

    def failure():
        return LaunchError(f"word {record.read()[0]}") if record.read()[0] else None

    op = scale(z, tw.ones(64), 2.0, 0, record, failure).submit()
    for observer in (z.numpy, op.sync, cuda.synchronize):
        with pytest.raises(LaunchError, match="word 7"):
            observer()
    cuda.synchronize()
    scale(z, tw.ones(64), 4.0).sync()
    assert z.numpy()[0] == 4


def test_memory_is_given_back(scale):
    chunk = 1 << 28  # 1 GiB of f32; far more in all than the GPU has
    x = tw.ones(8)
    for _ in range(400):
        scale(tw.empty(chunk)[:8], x).submit()
    tw.synchronize()


def test_out_of_memory_names_the_tensor():
    with pytest.raises(OutOfMemoryError) as caught:
        tw.zeros((1 << 20, 1 << 20)).numpy()
    assert "it was for f32[1048576, 1048576] (4.0 TiB), made at" in str(caught.value)
    assert tw.ones(4).numpy()[0] == 1


def test_there_is_no_such_gpu():
    with pytest.raises(DriverError, match="there is no GPU number 63"):
        tw.Device("cuda:63")


def test_a_bad_cubin_is_a_driver_error(cuda):
    with pytest.raises(DriverError, match=r"loading the kernel k failed: .*INVALID_IMAGE.*cache"):
        CudaFunction(cuda.backend.driver, b"not a cubin", "k", ())


def test_the_pool_of_a_gpu_counts_our_bytes_and_keeps_its_limit(cuda):
    mine = Pool(cuda, limit=64 << 20)
    with pool(mine):
        z = tw.zeros(1 << 20)
        z.wait()
        z.numpy()
        assert mine.statistics().used >= 4 << 20
        with pytest.raises(OutOfMemoryError, match=r"it was for f32\[1073741824\]"):
            tw.zeros(1 << 30).numpy()
    del z
    cuda.synchronize()
    assert mine.statistics().used == 0
    assert mine.statistics().reserved > 0
    mine.trim()
    assert mine.statistics().reserved == 0


def test_operations_are_awaited_on_a_gpu(cuda, scale):
    pairs = [(tw.zeros(1 << 16), tw.full(1 << 16, n)) for n in range(16)]

    async def doubled(z, x):
        first = await scale(z, x, 2.0)
        hold = cuda.stream.hold()  # nothing awaited runs on the current stream
        await scale(z, x, 2.0, 1).then(lambda result: scale(x, result))
        hold.release()
        return first

    async def main():
        return await asyncio.gather(*(doubled(z, x) for z, x in pairs))

    assert asyncio.run(main()) == [z for z, _ in pairs]
    assert [float(x.numpy()[-1]) for _, x in pairs] == [2.0 * n + 1 for n in range(16)]


def test_a_wait_in_asyncio_does_not_stop_the_loop(cuda, scale):
    x, z = tw.ones(1 << 10), tw.zeros(1 << 10)

    async def main():
        streams = [cuda.policy.next_stream() for _ in range(4)]
        holds = [stream.hold() for stream in streams]
        task = asyncio.ensure_future(scale(z, x, 3.0))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not task.done()
        for hold in holds:
            hold.release()
        await task

    asyncio.run(main())
    assert z.numpy()[0] == 3.0


@pytest.mark.parametrize("nbytes", [4, 4096, 4100, 1 << 22, (1 << 25) + 4, 100_000_000])
def test_contents_of_any_size_go_there_and_back(nbytes):
    values = np.random.default_rng(nbytes).integers(0, 1 << 31, nbytes // 4).astype(np.int32)
    x = tw.from_numpy(values)
    assert np.array_equal(x.numpy(), values)
    assert np.array_equal(x[1::2].numpy(), values[1::2])


def test_contents_in_flight_do_not_stop_a_loop(cuda):
    """An upload behind a stream that is held: to submit it takes no time, however long it is."""
    values = np.arange(1 << 22, dtype=np.float32)
    z = tw.zeros(1 << 22)
    z.numpy()

    async def main():
        holds = [cuda.policy.next_stream().hold() for _ in range(4)]
        task = asyncio.ensure_future(tw.copy(z, tw.from_numpy(values)))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not task.done()
        for hold in holds:
            hold.release()
        await task

    asyncio.run(main())
    assert np.array_equal(z.numpy(), values)
