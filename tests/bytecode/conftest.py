"""Programs are those of the IR tests and of cuTile Python; frames are those of the fuzzer."""

import sys
from pathlib import Path

for _folder in ("ir", "cutile", "fuzz"):
    sys.path.insert(0, str(Path(__file__).parents[1] / _folder))
