"""Foreign memory under threads and after a fork."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
from interop_kernels import known_ranges

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N

THREADS, STEPS = 6, 40


def test_many_threads_on_overlapping_views():
    """No update is lost, and whoever is refused is told why."""
    memory = np.zeros(256, np.float32)
    done = np.zeros((THREADS, 256), np.int64)
    ones = tw.ones((256,), f32)
    wrong: list[BaseException] = []

    def work(number: int) -> None:
        pick = random.Random(number)
        stream = tw.Device("cpu").new_stream()
        for _ in range(STEPS):
            start = pick.randrange(0, 192)
            part = memory[start : start + 64]
            try:
                if pick.random() < 0.3:
                    array = np.from_dlpack(tw.from_dlpack(part))
                    array += 1
                    del array
                else:
                    increment(part, ones[:64], stream)
            except tw.BorrowError:
                continue  # another thread has it in its hands
            except BaseException as error:  # noqa: BLE001
                wrong.append(error)
                return
            done[number, start : start + 64] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    tw.synchronize()
    assert (memory == done.sum(axis=0)).all()
    assert known_ranges() == []


@tw.kernel
def bump(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(z.load() + x.load_like(z))


def increment(part: np.ndarray, ones: tw.Tensor, stream: tw.Stream) -> None:
    bump(tw.partition(part, 16), ones).submit(stream)


def test_a_forked_child_goes_on():
    body = """
import os, sys
import numpy as np
import tilewright as tw
from interop_kernels import add
x, z = np.ones(64, np.float32), np.zeros(64, np.float32)
with tw.device("cpu"):
    add(tw.partition(z, 16), x, x).sync()
    held = tw.from_dlpack(x)
    child = os.fork()
    add(tw.partition(z, 16), x, held).sync()
    assert (z == 2).all()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print("both")
"""
    path = os.pathsep.join((str(Path(__file__).parent), *sys.path))
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-W", "error", "-c", body]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.stdout, ended.returncode) == ("both\n", 0), ended.stderr
