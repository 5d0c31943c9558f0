"""A capture of torch's stays whole, whatever we do meanwhile, in its thread or in another."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from gpu_kernels import GPU, add

import tilewright as tw
from tilewright import Mut, f32
from tilewright.dims import B

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.gpu

LENGTH = 1024


class Ours:
    """What we may be asked for while somebody captures; each gives an array of threes."""

    def __init__(self):
        self.x, self.y, self.z = (tw.full((LENGTH,), value, f32, device=GPU) for value in (1, 2, 0))
        self.launches()
        self.waiting()

    def op(self, z=None):
        return add((self.z if z is None else z).partition(256), self.x, self.y)

    def launches(self):
        for _ in range(100):
            self.op().submit()
        return self.z.numpy()

    def waiting(self):
        for _ in range(100):
            self.op().sync()
        return self.z.numpy()

    def asking(self):
        op = self.op().submit()
        while not op.done:
            pass
        return self.z.numpy()

    def awaiting(self):
        outputs = [tw.empty((LENGTH,), f32, device=GPU) for _ in range(20)]

        async def all_of_them():
            await asyncio.gather(*map(self.op, outputs))

        asyncio.run(all_of_them())
        return outputs[-1].numpy()

    def making(self):
        made = tw.empty((LENGTH,), f32, device=GPU)
        self.op(made).submit()
        return made.numpy()

    def filling(self):
        made = tw.zeros((LENGTH,), f32, device=GPU)
        tw.fill(made, 3.0).sync()
        return made.numpy()

    def uploading(self):
        return tw.from_numpy(np.full(LENGTH, 3.0, np.float32), device=GPU).numpy()

    def loading(self):
        @tw.kernel
        def threes(z: Mut[f32, B]) -> None:
            z.store(tw.full((B,), 3.0, f32))

        threes(self.z.partition(256)).sync()
        return self.z.numpy()

    def streaming(self):
        other = self.z.device.new_stream()
        self.op().submit(other)
        self.op().submit()
        return self.z.numpy()

    def counting(self):
        pool = self.z.device.pool
        pool.reset_highest()
        assert pool.statistics().used >= 3 * LENGTH * 4
        return self.launches()

    def pooling(self):
        with tw.pool(tw.Pool(self.z.device, release_threshold=1 << 20)):
            return self.making()

    def replaying(self):
        with tw.graph() as graph:
            graph.record(self.op())
        graph.launch().sync()
        return self.z.numpy()


ACTIONS = [name for name in vars(Ours) if not name.startswith("_") and name != "op"]


def in_this_thread(action):
    return action()


def in_another_thread(action):
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(action).result()


@pytest.mark.parametrize("where", [in_this_thread, in_another_thread])
@pytest.mark.parametrize("name", ACTIONS)
def test_a_capture_stays_whole(name, where):
    ours = Ours()
    numbers = torch.zeros(16, device="cuda")
    numbers.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        numbers.add_(1)
        found = where(getattr(ours, name))
        numbers.add_(1)
    np.testing.assert_array_equal(found, np.full(LENGTH, 3.0, np.float32))
    for _ in range(3):
        graph.replay()
    np.testing.assert_array_equal(numbers.cpu().numpy(), np.full(16, 7.0, np.float32))


FIRST_USE = """
import torch
numbers = torch.zeros(16, device="cuda")
numbers.add_(1)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    numbers.add_(1)
    import tilewright as tw
    assert tw.ones(256, device="cuda:0").numpy().sum() == 256
    numbers.add_(1)
graph.replay()
assert numbers.cpu()[0] == 3
"""


def test_a_capture_stays_whole_when_we_are_used_for_the_first_time():
    subprocess.run([sys.executable, "-c", FIRST_USE], check=True, timeout=120)
