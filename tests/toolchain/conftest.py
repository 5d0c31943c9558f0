"""The hand-built programs are those of the IR tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "ir"))
