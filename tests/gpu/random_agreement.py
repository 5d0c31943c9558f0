"""Runs random kernels on the CPU and on the GPU and says, line by line, whether they agree.

A program of its own, given seeds: a kernel that never ends takes only this process with it. Each
seed has one line when it starts and one when it is done; `-` says that no launch was accepted.
"""

import faulthandler
import signal
import sys
import tempfile
from pathlib import Path
from random import Random

from random_kernels import Output, random_kernel
from random_launches import Launch, load_kernel

import tilewright as tw

LIMIT = 60  # seconds for one kernel: front end, assembler and both runs


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


def compared(seed: int, folder: Path) -> str:
    """`agree`, `-`, or what differs."""
    random, output = Random(seed), list(Output)[seed % len(Output)]
    kernel = load_kernel(folder, random_kernel(random, output))
    for launch in (Launch(random, output) for _ in range(3)):
        both = [built(kernel, launch, device) for device in ("cpu", "cuda:0")]
        if isinstance(both[0], type) or isinstance(both[1], type):
            if both[0] is not both[1]:
                return f"only one device refuses: {both}"
            continue
        found = [answer(*one) for one in both]
        return "agree" if agree(*found) else f"CPU {found[0]}, GPU {found[1]}"
    return "-"


def main(seeds: list[str]) -> None:
    faulthandler.enable()
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            signal.alarm(LIMIT)  # ends the process, also while it waits for the GPU
            say(f"{seed} starts")
            say(f"{seed} {compared(int(seed), Path(folder))}")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
