"""Random safe kernels: the GPU gives what the CPU gives, results and failures alike."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

HERE = Path(__file__).parent
SEEDS = range(300)
ENOUGH = 200  # kernels that a launch is accepted of
WORKERS = min(os.cpu_count() or 1, 12)


def outcomes(seeds):
    """What a process of its own says about some seeds; one that never ends is told as such."""
    found = {}
    seeds = list(map(str, seeds))
    while seeds:
        command = [sys.executable, str(HERE / "random_agreement.py"), *seeds]
        paths = os.pathsep.join([str(HERE.parent), *sys.path])
        done = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        for line in done.stdout.splitlines():
            seed, _, said = line.partition(" ")
            found[int(seed)] = said
        last = next((s for s in seeds if found.get(int(s), "starts") == "starts"), None)
        if last is None:
            return found
        found[int(last)] = f"ended by {done.returncode}: {done.stderr[-2000:]}"
        seeds = seeds[seeds.index(last) + 1 :]
    return found


def test_the_gpu_agrees_with_the_cpu():
    shares = [SEEDS[first::WORKERS] for first in range(WORKERS)]
    with ThreadPoolExecutor(WORKERS) as pool:
        found = {seed: said for share in pool.map(outcomes, shares) for seed, said in share.items()}
    assert {seed: said for seed, said in found.items() if said not in ("agree", "-")} == {}
    assert sum(said == "agree" for said in found.values()) >= ENOUGH
