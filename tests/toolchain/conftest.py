"""The hand-built programs are those of the IR tests, the products those of the benchmarks."""

import sys
from pathlib import Path

_REPOSITORY = Path(__file__).parents[2]
for _folder in ("tests/ir", "tests/gpu", "benchmarks"):
    sys.path.insert(0, str(_REPOSITORY / _folder))
