"""What a launch says about padding."""

from __future__ import annotations

import warnings
from typing import Any

from running import run

import tilewright as tw
from tilewright import PaddingWarning


def warned(kernel: tw.Kernel, out: Any, tile: Any, *arguments: Any, **constants: Any) -> list[str]:
    """The texts of all padding warnings of a launch, which gives no other."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", tw.ExtentWarning)
        run(kernel, out, tile, *arguments, **constants)
    assert all(issubclass(warning.category, PaddingWarning) for warning in caught)
    return [str(warning.message) for warning in caught]
