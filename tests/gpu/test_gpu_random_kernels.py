"""Random safe kernels: the GPU gives what the CPU gives, results and failures alike.

All operations are built before the first one runs, so that the assemblers work side by side.
"""

from random import Random

import pytest
from random_kernels import Output, random_kernel
from random_launches import Launch, load_kernel

import tilewright as tw

pytestmark = pytest.mark.gpu

SEEDS = range(300)
ENOUGH = 200  # kernels that are not refused


def answer(operation, outputs):
    """What an operation leaves, or how it fails: the block that reports is not defined."""
    try:
        operation.sync()
    except tw.OutOfBoundsError as failure:
        return type(failure), failure.block, failure.line, failure.axis, failure.index
    except tw.KernelFailure as failure:
        return (type(failure),)
    return [tensor.numpy().tolist() for tensor in outputs]


def built(kernel, launch, device):
    """The operation on a device, or the class of its refusal."""
    with tw.device(device):
        try:
            return launch.build(kernel)
        except (tw.CompileError, tw.LaunchError) as refusal:
            return type(refusal)


def agree(one, other):
    if isinstance(one, tuple) and isinstance(other, tuple) and one[1:2] != other[1:2]:
        return one[0] is other[0]
    return one == other


def test_the_gpu_agrees_with_the_cpu(tmp_path):
    waiting = []
    for seed in SEEDS:
        random, output = Random(seed), list(Output)[seed % len(Output)]
        source = random_kernel(random, output)
        kernel = load_kernel(tmp_path, source)
        for launch in (Launch(random, output) for _ in range(3)):
            both = [built(kernel, launch, device) for device in ("cpu", "cuda:0")]
            if isinstance(both[0], type) or isinstance(both[1], type):
                assert both[0] is both[1], f"seed {seed}: only one device refuses\n{source}"
            else:
                waiting.append((seed, source, both))
                break
    assert len(waiting) >= ENOUGH
    for seed, source, both in waiting:
        found = [answer(*one) for one in both]
        assert agree(*found), f"seed {seed}: the CPU gives {found[0]}, the GPU {found[1]}\n{source}"
