"""Arrays of other libraries that launches get again and again, and the handles on them.

To make a handle means to look at the array, to find its addresses among those that are known and
to tell which others overlap it. So the handle of a torch tensor stays for as long as the tensor
does, which it does not keep alive, and as long as that lies as it lay: it can be resized, and
given other memory, at any time, so that is looked at whenever it is passed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from tilewright.runtime.foreign_arrays import ForeignArray, Form
from tilewright.runtime.tensor import Tensor
from tilewright.runtime.torch_tensors import find_guard, find_torch_form

__all__ = ["passed_before", "remember_passed"]


class _Passed(ref[Any]):
    """How a tensor lay when it was passed, and the handle on it."""

    __slots__ = ("address", "form", "guard", "handle", "number", "times")

    address: int
    form: Form
    guard: Callable[[Any], bool] | None  # tells whether it still has that form
    handle: Tensor
    number: int
    times: int  # that it was passed again


_OFTEN = 3  # times from which it pays to have a guard
_passed: dict[int, _Passed] = {}  # by the identity of the tensor, which may be another one's later
_FEW = 4  # tensors that may be passed before all are looked at


class _Turns:
    """How many may still be passed before that."""

    left = _FEW


_turns = _Turns()


def passed_before(array: Any) -> Tensor | None:
    """The handle on a tensor that was passed before and lies as it lay."""
    found = _passed.get(id(array))
    if found is None:
        return None
    alive: Any = found()
    guard = found.guard
    if (
        alive is array
        and array.data_ptr() == found.address
        and ((guard is not None and guard(array)) or _lies_alike(array, found))
        and found.handle.__class__ is Tensor  # and was not moved away
    ):
        return found.handle
    return None


def _lies_alike(array: Any, found: _Passed) -> bool:
    """Whether dtype, shape and strides are those of the handle."""
    is_alike = find_torch_form(array.dtype, array.shape, array.stride()) is found.form
    if is_alike:
        found.times += 1
        if found.times == _OFTEN:
            found.guard = find_guard(array)
    return is_alike


def remember_passed(array: Any, handle: Tensor, lies: ForeignArray) -> None:
    """Keep the handle on a tensor, as long as that lives and lies like this."""
    made = _Passed(array, _forget)
    made.number, made.handle = id(array), handle
    made.address, made.form = lies.address, lies.form
    made.guard, made.times = None, 0
    _passed[made.number] = made
    _turns.left -= 1
    if _turns.left < 0:
        _look_around()


def _forget(gone: _Passed) -> None:
    # The collector may run this anywhere: no lock, and no call of a driver.
    if _passed.get(gone.number) is gone:
        _passed.pop(gone.number, None)


def _look_around() -> None:
    """Let go of memory that tensors have left, whenever as many were passed as there are."""
    entries = list(_passed.values())
    _turns.left = len(entries) + _FEW
    for found in entries:
        array: Any = found()
        if array is not None and array.data_ptr() != found.address:
            _forget(found)
