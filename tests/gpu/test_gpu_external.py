"""Kernels written by hand in PTX, as operations on the GPU: launches, chains, graphs, torch."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from gpu_kernels import GPU, add

import tilewright as tw
from tilewright import f32, i32, u32
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.external import ExternalModule, In, InOut, Out

pytestmark = pytest.mark.gpu

FILE = Path(__file__).parent / "external_kernels.ptx"
N = 1000


@pytest.fixture(autouse=True)
def on_gpu():
    with tw.device(GPU) as device:
        yield device


@pytest.fixture(params=["ptx", "cubin"])
def module(request, tmp_path, on_gpu) -> ExternalModule:
    if request.param == "ptx":
        return tw.external.load(FILE)
    cubin, tool = tmp_path / "kernels.cubin", find_toolchain().toolkit.ptxas
    subprocess.run([tool, f"-arch={on_gpu.target}", FILE, "-o", cubin], check=True)
    return tw.external.load(cubin.read_bytes())


@pytest.fixture
def saxpy(module):
    kernel = module.kernel(
        "saxpy", "below n it reads x and z and writes z", z=InOut(f32), x=In(f32), a=f32, n=i32
    )
    return kernel.grid(-(-N // 128), block=128)


@pytest.fixture
def arrays():
    generator = np.random.default_rng(5)
    return tuple(generator.integers(-50, 50, N).astype(np.float32) for _ in range(2))


def test_a_launch(saxpy, arrays):
    z, x = map(tw.from_numpy, arrays)
    assert saxpy.unsafe(z, x, 3.0, N).sync() == (z, x, 3.0, N)
    assert np.array_equal(z.numpy(), arrays[0] + 3 * arrays[1])


def test_the_driver_knows_its_parameters(module):
    z = tw.zeros((N,), f32)
    few = module.kernel("saxpy", "nothing", z=InOut(f32), n=i32).grid(1, block=1)
    with pytest.raises(tw.LaunchError, match="takes 4 parameters, of 8, 8, 4, 4 bytes, and is"):
        few.unsafe(z, 1)
    wide = module.kernel("turn", "nothing", z=tw.i32).grid(1, block=1)
    with pytest.raises(tw.LaunchError, match="is passed in 4 bytes, and the code takes 8 there"):
        wide.unsafe(1)


@pytest.mark.parametrize("shared_bytes", [4 * 256, 100 * 1024])
def test_threads_and_shared_memory(module, shared_bytes):
    turn = module.kernel("turn", "each block its own words", z=InOut(u32))
    values = np.arange(3 * 256, dtype=np.uint32)
    z = tw.from_numpy(values)
    turn.grid(1, 3, block=256, shared_bytes=shared_bytes).unsafe(z).sync()
    assert np.array_equal(z.numpy(), values.reshape(3, 256)[:, ::-1].reshape(-1))
    with pytest.raises(
        tw.LaunchError, match="bytes of shared memory here beside its declared ones"
    ):
        turn.grid(1, block=256, shared_bytes=10**6).unsafe(z)


def test_between_kernels_of_ours_and_on_other_streams(saxpy, arrays, on_gpu):
    z, x = map(tw.from_numpy, arrays)
    total, other = tw.zeros((N,), f32), on_gpu.new_stream()
    wanted = arrays[0].copy()
    for _ in range(20):
        saxpy.unsafe(z, x, 1.0, N).submit()
        add(total.partition(128), z, x).submit(other)
        saxpy.unsafe(z, total, 0.0, N).submit()
        wanted += arrays[1]
    assert np.array_equal(z.numpy(), wanted)
    assert np.array_equal(total.numpy(), wanted + arrays[1])


def test_in_chains_with_operations_as_arguments(saxpy, arrays):
    z, x = map(tw.from_numpy, arrays)
    saxpy.unsafe(tw.fill(z, 1), x, tw.value(2.0), N).then(
        lambda got: saxpy.unsafe(got[0], got[1], 1.0, N)
    ).sync()
    assert np.array_equal(z.numpy(), 1 + 3 * arrays[1])


def test_in_a_graph(saxpy, arrays):
    z, x = map(tw.from_numpy, arrays)
    with tw.graph() as graph:
        graph.record(tw.fill(z, 1))
        graph.record(saxpy.unsafe(z, x, 2.0, N))
    for _ in range(3):
        graph.launch().sync()
    assert np.array_equal(z.numpy(), 1 + 2 * arrays[1])


def test_a_node_that_is_changed(saxpy, arrays):
    z, x = map(tw.from_numpy, arrays)
    y = tw.full((N,), 7, f32)
    graph = saxpy.unsafe(z, x, 1.0, N).graph()
    graph.launch().sync()
    graph.update(saxpy.unsafe(z, y, 2.0, N))
    graph.launch().sync()
    assert np.array_equal(z.numpy(), arrays[0] + arrays[1] + 14)


def test_code_that_the_driver_does_not_take():
    text = FILE.read_text().replace("fma.rn.f32", "fma.bad.f32")
    broken = tw.external.load(text.encode()).kernel("saxpy", "never", z=Out(f32))
    with pytest.raises(tw.DriverError, match=r"loading the kernel saxpy failed: .*INVALID_PTX"):
        broken.grid(1, block=1).unsafe(tw.zeros((1,), f32))
    newer = re.sub(r"\.version .*", ".version 99.0", FILE.read_text())
    refused = tw.external.load(newer.encode()).kernel("saxpy", "never", z=Out(f32))
    with pytest.raises(tw.DriverError, match="loading the kernel saxpy failed"):
        refused.grid(1, block=1).unsafe(tw.zeros((1,), f32))
    tw.ones((4,), f32).numpy()  # the context goes on


def test_on_tensors_of_torch(saxpy, arrays):
    torch = pytest.importorskip("torch", reason="needs torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a torch with CUDA")
    z, x = (torch.from_numpy(array.copy()).to(GPU) for array in arrays)
    version = z._version
    saxpy.unsafe(z, x, 2.0, N).submit()
    z += 1  # on torch's stream, behind it
    assert np.array_equal(z.cpu().numpy(), arrays[0] + 2 * arrays[1] + 1)
    assert z._version > version + 1
    tw.synchronize()  # nothing can be waited for while torch records
    with torch.cuda.graph(recorded := torch.cuda.CUDAGraph()):
        saxpy.unsafe(z, x, 1.0, N).submit()
    recorded.replay()
    torch.cuda.synchronize()
    assert np.array_equal(z.cpu().numpy(), arrays[0] + 3 * arrays[1] + 1)
