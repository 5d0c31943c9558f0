"""Source files that a cold launch crosses: from the call to the bound launch.

    python benchmarks/launch_files.py [--show]

One process fills a fresh disk cache; another one launches the kernel for the first time, finds it
on disk, and launches it until the launch is bound. Files count in which a function of the package
is called, generated ones included. Needs the assembler, no GPU: the driver does nothing.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from unittest import mock

import kernels
from fresh_process import fresh_processes
from null_gpu import NullDriver

import tilewright as tw
from tilewright.backends.cuda import device as cuda_device

__all__ = ["main"]

LAUNCHES = 3  # the second one with the same tensors is bound, and the third finds it
PACKAGE = Path(tw.__file__).parent


def _crossed() -> Counter[str]:
    """The calls of functions of the package, by file."""
    found: Counter[str] = Counter()
    add = tw.kernel(deny_checks=True)(kernels.add)

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_function = event == "call" and code.co_flags & inspect.CO_NEWLOCALS
        if is_function and code.co_filename.startswith(str(PACKAGE)):
            found[str(Path(code.co_filename).relative_to(PACKAGE))] += 1

    with mock.patch.object(cuda_device, "open_driver", return_value=NullDriver()):
        z, x, y = (tw.zeros((4096,), tw.f32, device="cuda") for _ in range(3))
        for _ in range(LAUNCHES):
            sys.setprofile(note)
            add(z.partition(1024), x, y).submit()
            sys.setprofile(None)
    return found


def main() -> None:
    """Print the number of files, and with `--show` the calls in each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        sys.stdout.write(json.dumps(_crossed()))
        return
    with tempfile.TemporaryDirectory() as folder, fresh_processes() as processes:
        for _ in range(2):
            text = processes.run([__file__, "--once"], TILEWRIGHT_CACHE=folder)
    found: dict[str, int] = json.loads(text)
    if options.show:
        for file, calls in sorted(found.items()):
            print(f"{calls:6}  {file}")
    print(f"{len(found)} files, {sum(found.values())} calls")


if __name__ == "__main__":
    main()
