"""Short ways to run a kernel of the corpus and to ask what became of its checks."""

import numpy as np
from compiled_kernels import compiled_kernels

import tilewright as tw
from tilewright.check.ledger import Rung
from tilewright.check.placement import Placement
from tilewright.kernel import Kernel

X = np.arange(64, dtype=np.int32)


def tensor(values):
    return tw.from_numpy(np.asarray(values, np.int32))


def outcomes(kernel: Kernel, *args, subject: str | None = None, **kwargs) -> list[Rung]:
    """Where the checks of a call were settled, in program order; of one tensor, if it is named."""
    kernel(*args, **kwargs).close()
    compiled = compiled_kernels(kernel)
    *_, last = [made for (placement, *_), made in compiled if placement is Placement.EARLIEST]
    entries = last.ledger.entries
    return [entry.outcome for entry in entries if subject is None or entry.subject == subject]


def line_of(kernel: Kernel, text: str) -> int:
    """The line of a kernel's source that holds a text."""
    lines = kernel.source.file.lines
    first, last = kernel.source.node.lineno, kernel.source.node.end_lineno
    return next(n for n in range(first, last + 1) if text in lines[n - 1])
