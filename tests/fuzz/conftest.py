"""The files to start from are those of the IR tests and of cuTile Python."""

import sys
from pathlib import Path

for _folder in ("ir", "cutile"):
    sys.path.insert(0, str(Path(__file__).parents[1] / _folder))
