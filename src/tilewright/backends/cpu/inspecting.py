"""Inspections on the CPU: the tiles of a block as NumPy arrays, and the debugger's stop.

The debugger stops in a frame with the file and the line of the kernel, whose names are the arrays:
`breakpoint()` runs there, so pdb, and every editor that sets `sys.breakpointhook`, shows the
kernel's source. A change of an array in the debugger changes nothing in the kernel.
"""

from __future__ import annotations

import ast
from types import CodeType
from typing import Any

import numpy as np

from tilewright.dtypes import DType, numpy_dtype
from tilewright.ir.inspections import InspectedNames, Sighting

__all__ = ["observe"]


def observe(shown: InspectedNames, *values: Any) -> None:
    """Give the names of a block to their observer."""
    arrays = tuple(map(_own_array, values, shown.dtypes))
    (shown.observer or _stop)(shown.sighting(arrays))


def _own_array(value: Any, dtype: type[DType]) -> Any:
    """A copy in the author's dtype; a scalar is a NumPy scalar."""
    found, wanted = np.array(value), numpy_dtype(dtype)
    if found.dtype != wanted:  # integers of the IR have no sign
        is_same_size = found.dtype.itemsize == wanted.itemsize
        found = found.view(wanted) if is_same_size else found.astype(wanted)
    return found if found.ndim else found[()]


def _stop(sighting: Sighting) -> None:
    names = {**sighting.names, "__name__": sighting.kernel, "__block__": sighting.block}
    exec(_stopping_code(sighting), names)


def _stopping_code(sighting: Sighting) -> CodeType:
    """`breakpoint()` at the line of the kernel, and nothing at the next one, where pdb stops."""
    stop = ast.parse("breakpoint()\npass")
    for statement, line in zip(stop.body, (sighting.span.line, sighting.next_line), strict=True):
        for node in ast.walk(statement):
            if hasattr(node, "lineno"):
                node.lineno = node.end_lineno = line  # type: ignore[attr-defined]
    code = compile(stop, sighting.span.file.path, "exec")
    return code.replace(co_name=sighting.kernel)
