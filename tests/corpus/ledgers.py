"""Short ways to run a kernel of the corpus and to ask what became of its checks."""

import numpy as np
import pytest
from checked_twice import REAL_LAUNCH

import tilewright as tw
from tilewright.check.ledger import Outcome
from tilewright.kernel import Kernel

X = np.arange(64, dtype=np.int32)


def tensor(values):
    return tw.from_numpy(np.asarray(values, np.int32))


def outcomes(kernel: Kernel, *args, subject: str | None = None, **kwargs) -> list[Outcome]:
    """Where the checks of a call were settled, in program order; of one tensor, if it is named."""
    ledgers, specialized = [], Kernel.specialized

    def noted(*call):
        compiled = specialized(*call)
        ledgers.append(compiled.ledger)
        return compiled

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "specialized", noted)
        REAL_LAUNCH(kernel, None, args, kwargs).close()
    return [e.outcome for e in ledgers[0].entries if subject is None or e.subject == subject]


def line_of(kernel: Kernel, text: str) -> int:
    """The line of a kernel's source that holds a text."""
    lines = kernel.source.file.lines
    first, last = kernel.source.node.lineno, kernel.source.node.end_lineno
    return next(n for n in range(first, last + 1) if text in lines[n - 1])
