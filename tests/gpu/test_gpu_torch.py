"""torch tensors on the GPU: without copies, on torch's streams, compiled and recorded."""

import threading

import numpy as np
import pytest
from gpu_kernels import GPU, add

import tilewright as tw
from tilewright import Mut, Ref, bf16, f8e4m3fn, f8e5m2, f16, f32, kernels
from tilewright.dims import B, N, T
from tilewright.dtypes import numpy_dtype
from tilewright.runtime.interop import torch_tensors

torch = pytest.importorskip("torch", reason="needs torch")
cu = pytest.importorskip("cuda.bindings.driver", reason="needs the `cuda` extra")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a torch with CUDA"),
]

LENGTH = 1 << 16


@tw.kernel(deny_checks=True)
def widen(z: Mut[f32, B], x: Ref[T, N]) -> None:
    z.store(x.load_like(z).astype(f32))


@pytest.fixture
def tensors():
    torch.manual_seed(7)
    x, y = (torch.randint(0, 100, (LENGTH,), device=GPU).float() for _ in range(2))
    return x, y, torch.zeros_like(x)


def test_on_the_current_stream(tensors):
    x, y, z = tensors
    for _ in range(100):
        add(tw.partition(z, 128), x, y).submit()
        x.copy_(z)
    assert torch.equal(z, x)


def test_on_a_side_stream(tensors):
    x, y, z = tensors
    wanted = x * 2 + y
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.mul_(2)
        add(tw.partition(z, 128), x, y).submit()
        found = z.clone()
    side.synchronize()
    assert torch.equal(found, wanted)


def test_on_a_stream_of_ours(tensors):
    x, y, z = tensors
    ours = tw.Device(GPU).new_stream()
    for _ in range(50):
        x.add_(1)
        add(tw.partition(z, 128), x, y).submit(ours)
        y.copy_(z)  # torch waits for our stream
    torch.cuda.synchronize()
    assert torch.equal(z, y)


def test_copies_and_fills(tensors):
    x, y, z = tensors
    ours = tw.copy(tw.zeros((LENGTH,), f32, device=GPU), x).sync()
    x.zero_()
    assert tw.copy(z, ours).submit().sync() is z
    wanted = z.clone()
    assert torch.equal(torch.from_dlpack(tw.from_dlpack(z).clone()), wanted)
    tw.fill(y[100:200], 3.0).submit()
    wanted = y.clone()
    wanted[100:200] = 3.0
    assert torch.equal(y, wanted)
    tw.copy(x[::2], z[1::2]).submit()  # by a kernel
    assert torch.equal(x[::2], z[1::2])
    assert not x[1::2].any()


def test_half_precision_and_views(tensors):
    x, y, _ = (tensor.bfloat16() for tensor in tensors)
    z = torch.zeros(2 * LENGTH, device=GPU, dtype=torch.bfloat16)
    add(tw.partition(z[LENGTH:], 128), x, y).sync()
    assert torch.equal(z[LENGTH:], x + y)
    assert not z[:LENGTH].any()


def test_functions_of_the_library():
    """On the stream that is torch's, with an output of torch's or of ours."""
    a, b = (torch.randn(300, 300, device=GPU) for _ in range(2))
    out, side = torch.empty_like(a), torch.cuda.Stream()
    for _ in range(5):
        kernels.matmul(a, b, out=out).submit()
        assert torch.allclose(out, a @ b, atol=1e-3)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            a.add_(1)
            made = torch.from_dlpack(kernels.softmax(a).submit().sync())
            assert torch.allclose(made, a.softmax(-1), atol=1e-6)
        torch.cuda.current_stream().wait_stream(side)


def test_recorded_into_a_graph_of_torch(tensors):
    x, y, z = tensors
    add(tw.partition(z, 128), x, y).sync()  # compiled and loaded before
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add(tw.partition(z, 128), x, y).submit()
        x.copy_(z)
    wanted = x.clone()
    for _ in range(3):
        graph.replay()
        wanted = wanted + y
    torch.cuda.synchronize()
    assert torch.equal(x, wanted)


def test_compiled(tensors):
    x, y, _ = tensors
    op = tw.torch_op(
        add, "tilewright_gpu::add", tiles={"z": 128}, outputs=lambda x, y: torch.empty_like(x)
    )
    function = torch.compile(lambda x, y: op(x, y) * 2, backend="aot_eager", fullgraph=True)
    assert torch.equal(function(x, y), (x + y) * 2)


def test_round_trips(tensors):
    x = tw.from_numpy(np.arange(LENGTH, dtype=np.float32), device=GPU)
    t = torch.from_dlpack(x)
    assert t.data_ptr() == x.address
    t.add_(1)
    with pytest.raises(tw.BorrowError, match="is in use"):
        x.numpy()
    del t
    assert (x.numpy() == np.arange(LENGTH, dtype=np.float32) + 1).all()
    back = tw.from_dlpack(tensors[0])
    assert back.address == tensors[0].data_ptr()
    assert np.array_equal(back.numpy(), tensors[0].cpu().numpy())
    exported = x.export()
    assert torch.as_tensor(exported, device=GPU).data_ptr() == x.address


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (f16, torch.float16),
        (bf16, torch.bfloat16),
        (f8e4m3fn, torch.float8_e4m3fn),
        (f8e5m2, torch.float8_e5m2),
    ],
)
def test_narrow_floats_both_ways(ours, theirs):
    values = np.array([0.0, 1.0, -2.0, 0.5] * 64, np.float32)
    x = tw.from_numpy(values.astype(numpy_dtype(ours)), device=GPU)
    taken = torch.from_dlpack(x)
    assert (taken.dtype, taken.data_ptr()) == (theirs, x.address)
    assert np.array_equal(taken.float().cpu().numpy(), values)
    del taken
    given, z = torch.tensor(values, device=GPU).to(theirs), torch.zeros(len(values), device=GPU)
    back = tw.from_dlpack(given)
    assert (back.dtype, back.address) == (ours, given.data_ptr())
    widen(tw.partition(z, 64), given).submit()  # the tensor itself, on torch's stream
    assert torch.equal(z, given.float())
    widen(tw.partition(z, 64), x).sync()
    assert np.array_equal(z.cpu().numpy(), values)


# --- threads with another context, or none --------------------------------------------------------


@pytest.mark.parametrize("where", ["default", "side"])
@pytest.mark.parametrize("is_another", [False, True])
def test_a_thread_without_our_context(tensors, is_another, where):
    """torch's default stream is that of the thread's context, whichever that is."""
    x, y, z = tensors
    stream = torch.cuda.current_stream() if where == "default" else torch.cuda.Stream()
    w = torch.zeros_like(z)
    for _ in range(4):
        add(tw.partition(z, 128), x, y).submit()
    with tw.graph() as graph:
        graph.record(add(tw.partition(w, 128), x, y))
    z.zero_()
    torch.cuda.synchronize()
    errors = []

    def launch(context):
        cu.cuCtxSetCurrent(context)
        for _ in range(3):
            add(tw.partition(z, 128), x, y).submit()
            cu.cuCtxSetCurrent(context)
        operation = add(tw.partition(z, 128), x, y)
        cu.cuCtxSetCurrent(context)
        operation.submit()
        cu.cuCtxSetCurrent(context)
        while not operation.done:
            cu.cuCtxSetCurrent(context)
        graph.launch().submit().sync()

    def run():
        try:
            before = cu.cuCtxGetCurrent()[1]
            context = cu.cuCtxCreate(None, 0, cu.cuDeviceGet(0)[1])[1] if is_another else 0
            with torch.cuda.stream(stream):
                launch(context)
                cu.cuCtxSetCurrent(before)
        except BaseException as error:  # noqa: BLE001 (raised by the test)
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not errors, errors
    torch.cuda.synchronize()
    assert torch.equal(z, x + y)
    assert torch.equal(w, x + y)


# --- memory that is dropped while the GPU works on it ---------------------------------------------


def test_whose_allocator_it_is():
    assert torch_tensors._is_allocated_by_torch(torch.zeros(8, device=GPU)[2:])
    assert not torch_tensors._is_allocated_by_torch(torch.zeros(8))
    ours = tw.zeros(8, f32, device=GPU)
    taken = torch.from_dlpack(ours)
    assert not torch_tensors._is_allocated_by_torch(taken)


@pytest.mark.parametrize("where", ["current", "side", "ours"])
def test_outputs_that_are_dropped_at_once(tensors, where):
    """They go back to torch, and are given to nobody who would write to them too early."""
    x, y, _ = tensors
    wanted = x + y
    ours = tw.Device(GPU).new_stream() if where == "ours" else None
    side = torch.cuda.Stream() if where == "side" else torch.cuda.current_stream()
    torch.cuda.synchronize()
    before, kept = torch.cuda.memory_allocated(), []
    with torch.cuda.stream(side):
        for number in range(300):
            if number % 50 == 0:
                torch.cuda._sleep(10_000_000)  # the GPU is behind
            z = torch.empty(LENGTH, device=GPU)
            add(tw.partition(z, 128), x, y).submit(ours)
            if number % 60 == 0:
                kept.append(z.clone() if ours is None else z)
            del z
            torch.full((LENGTH,), 7.0, device=GPU)  # which may get the memory next
    held = torch.cuda.memory_allocated() - before
    torch.cuda.synchronize()
    tw.synchronize()
    assert all(torch.equal(one, wanted) for one in kept)
    assert held <= (len(kept) + 8) * 4 * LENGTH
