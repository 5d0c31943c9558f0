"""The files to start from are those of the IR tests, of cuTile Python and of the cache."""

import sys
from pathlib import Path

for _folder in ("ir", "cutile", "jit"):
    sys.path.insert(0, str(Path(__file__).parents[1] / _folder))
