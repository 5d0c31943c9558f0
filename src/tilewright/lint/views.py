"""Views of tensors in the host check: the elements that a slice or a reshape reaches.

Bounds that are spelled out are followed along the first axis. A slice with other bounds may be
empty, so nothing is certain about it.
"""

from __future__ import annotations

import ast
import itertools
from dataclasses import replace

from tilewright.lint.values import (
    PART,
    UNSURE,
    WHOLE,
    ConstantValue,
    ItemsValue,
    Region,
    RowRange,
    TensorValue,
    Value,
)

__all__ = ["rows_of", "sliced", "viewed"]

_numbers = itertools.count(-1, -1)  # handles of views; those of new tensors are positive
_FAR = 1 << 62  # past the end of every axis


def viewed(tensor: TensorValue) -> TensorValue:
    """Another handle on all elements of a tensor, with other axes."""
    return replace(tensor, handle=next(_numbers), rows=None, is_dense=False)


def sliced(tensor: TensorValue, index: ast.expr) -> TensorValue:
    """The handle that an index gives."""
    first, *rest = index.elts if isinstance(index, ast.Tuple) else [index]
    is_literal = all(_is_literal(one) for one in (first, *rest))
    region: Region = UNSURE
    if tensor.region is not UNSURE and is_literal:
        region = PART
        if tensor.region is WHOLE and not rest:
            region = _rows(tensor, first)
        elif all(_is_whole(one) for one in (first, *rest)):
            region = tensor.region
    return TensorValue(next(_numbers), tensor.memory, region)


def rows_of(shape: Value) -> int | None:
    """The first extent of a shape that is spelled out; 0 if the shape has no elements."""
    extents = shape.values if isinstance(shape, ItemsValue) else (shape,)
    numbers = [one.value if isinstance(one, ConstantValue) else None for one in extents]
    if 0 in numbers:
        return 0
    return numbers[0] if numbers and isinstance(numbers[0], int) else None


def _rows(tensor: TensorValue, index: ast.expr) -> Region:
    """The rows of a whole tensor that a literal index reaches."""
    extent = tensor.rows
    if _is_whole(index):
        return WHOLE
    if isinstance(index, ast.Slice):
        low, high = _number(index.lower, 0), _number(index.upper, _FAR)
        if _number(index.step, 1) != 1:
            return PART
    else:
        number = _number(index, None)
        if number is None:  # a new axis, or `...`
            return PART
        low, high = number, number + 1 or _FAR
    if low is None or high is None:
        return UNSURE
    if extent is None:
        return RowRange(low, high) if 0 <= low < high else PART
    rows = range(extent)[low:high]
    return RowRange(rows.start, rows.stop) if rows else UNSURE


def _number(node: ast.expr | None, default: int | None) -> int | None:
    """An integer that is spelled out; the default of a bound that is left out."""
    if node is None:
        return default
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if type(value) is int else None


def _is_literal(node: ast.expr) -> bool:
    """Whether an index is spelled out."""
    if isinstance(node, ast.Slice):
        bounds = (node.lower, node.upper, node.step)
        return all(one is None or _number(one, None) is not None for one in bounds)
    return _number(node, None) is not None or (
        isinstance(node, ast.Constant) and node.value in (None, ...)
    )


def _is_whole(node: ast.expr) -> bool:
    """Whether an index leaves its axis as it is."""
    if isinstance(node, ast.Slice):
        return node.lower is None and node.upper is None and node.step is None
    return isinstance(node, ast.Constant) and node.value is ...
