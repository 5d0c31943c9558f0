"""Arrays of other libraries that launches get again and again, and the handles on them.

To make a handle means to look at the array, to find its addresses among those that are known and
to tell which others overlap it. So the handle of a torch tensor stays for as long as the tensor
does, which it does not keep alive, and as long as that lies as it lay: it can be resized, and
given other memory, at any time, so that is looked at whenever it is passed.

Most tensors are new, though, and come to places where others like them have been, as memory is
given out again in every step of a loop. So a handle that nobody but this table had when its tensor
died is *vacant*: it waits at its place for the next tensor there. The memory has gone back then as
that of any other that is dropped, and the handle knows nothing of the tensor that was.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any, NamedTuple
from weakref import getweakrefcount

from tilewright.runtime.interop.array import Form, adopt_at
from tilewright.runtime.interop.torch_tensors import (
    Passed,
    find_guard,
    find_memory,
    find_torch_form,
    locate,
)
from tilewright.runtime.memory.reference_counts import ALONE, COUNTS
from tilewright.runtime.memory.tensor import Tensor

__all__ = ["ASKED", "ASKING", "PASSED", "pass_anew", "passed_before"]

# The handle of a tensor, the weak reference to that, where it lay, and what tells whether it lies
# as it did, or says no though it does.
Known = tuple[Tensor, Passed, int, Callable[[Any], bool]]
# By the identity of the tensor, which may be another one's later.
PASSED: dict[int, Known] = Passed.table
_OFTEN = 4  # times that no guard knew a tensor, from which it pays to have one
_FEW = 4  # tensors that may be passed before all are looked at
_VACANT = 8192  # handles that may wait for tensors of one form


class _Turns:
    """How many may still be passed before that."""

    left = _FEW


_turns = _Turns()


class _Latest:
    """How the tensors lie that were passed last: what tells it, the form, and the device.

    That twice, as torch calls it and as we do.
    """

    known: tuple[Callable[[Any], bool] | None, Any, Any, Any] = (None, None, None, None)


_latest = _Latest()


def passed_before(array: Any) -> Tensor | None:
    """The handle on a tensor that was passed before and lies as it lay."""
    known = PASSED.get(id(array))
    if known is None:
        return None
    handle, was, first, guard = known
    given: Any = was()
    if (
        given is array
        and given.data_ptr() == first
        and handle.__class__ is Tensor  # and not moved away
        and (guard(given) or _lies_alike(given, known))
    ):
        return handle
    return None


# The same as Python text, for functions that ask it in every launch: `_anew` gives the handle of an
# array that was never passed, and where it was `_again` looks closer.
ASKED = """
        {handle} = {array}
        if {array}.__class__ is not _Tensor:
            {handle}, _was, _first, _guard = _passed.get(_id({array}), _nothing)
            if _was() is not {array}:
                {handle} = _anew({array})
            elif (
                {array}.data_ptr() != _first
                or {handle}.__class__ is not _Tensor
                or not _guard({array})
            ):
                {handle} = _again({array})"""


def _cannot_tell(array: Any) -> bool:
    del array
    return False


# The names in that text. An array that was never passed is none that is made just now.
ASKING: dict[str, Any] = {
    "_Tensor": Tensor,
    "_id": id,
    "_nothing": (None, object, 0, _cannot_tell),
    "_passed": PASSED,
}


def _lies_alike(array: Any, known: Known) -> bool:
    """Whether dtype, shape and strides are those of the handle, and nothing is to be negated."""
    handle, was, first, guard = known
    storage: Any = handle.storage
    form: Form = storage.origin.form
    is_alike = find_torch_form(array.dtype, array.shape, array.stride()) is form
    if is_alike and not array.is_neg():
        form.misses = misses = form.misses + 1
        if misses >= _OFTEN and misses.bit_count() == 1:  # other kinds of tensors may lie so, too
            form.guard = find_guard(array)
        if form.guard is not guard and form.guard is not None and PASSED.get(id(array)) is known:
            PASSED[id(array)] = handle, was, first, form.guard
        return True
    return False


def pass_anew(array: Any) -> Tensor:
    """A handle on a tensor that has none, as long as that lives and lies like this."""
    guard, form, there, device = _latest.known
    # The guard tells negations apart as well; with one GPU nobody can try whether it does several.
    if guard is not None and guard(array) and array.device == there:
        address = array.data_ptr()
    else:
        device, form, address = locate(array)
        guard = form.guard
        if guard is not None and guard(array):
            _latest.known = (guard, form, array.device, device)
    made = Passed(array, _forget)
    made.array = array.detach()
    made.number = number = id(array)
    made.written, made.required_grad = None, array.requires_grad
    made.memory, made.needed = find_memory(array, form)
    with device.lock:
        if device.is_barred:
            device.check_open()
        if device.notes:
            device.settle_notes()  # first: the tensor that was here last may have died just now
        place = form.places.get((device, address, False))
        if place is not None and place.vacant:
            handle: Tensor = place.vacant.pop()
            form.vacancies -= 1
            storage: Any = handle.storage
            storage.take(made)
        else:
            handle = adopt_at(made, device, form, address)
    PASSED[number] = handle, made, address, form.guard or _cannot_tell
    _turns.left -= 1
    if _turns.left < 0:
        _look_around()
    return handle


def _forget(gone: Passed) -> None:
    # The collector may run this anywhere: no lock, and no call of a driver.
    known = PASSED.get(gone.number)
    if known is None or known[1] is not gone:  # but another tensor's, which has come since
        return
    handle = known[0]
    if handle.__class__ is not Tensor:
        PASSED.pop(gone.number, None)
        return
    storage: Any = handle.storage
    # The table and a variable have the handle, the handle and a variable the storage: nobody is
    # left who could pass it to anything. A partition, an operation or a view would be counted, and
    # so would whoever nobody has thought of.
    is_alone = getrefcount(handle) == ALONE and getrefcount(storage) == ALONE
    PASSED.pop(gone.number, None)  # first: another thread may settle the note at once
    if is_alone and COUNTS and storage.nbytes and not getweakrefcount(handle):
        storage.is_vacant = True
        storage.device.notes.append(_Vacated(handle))


class _Vacated(NamedTuple):
    """A note: a handle whose tensor is gone, and that nobody else has."""

    handle: Tensor
    may_be_repeated: bool = False  # a handle that is dropped instead is as good

    def settle(self) -> None:
        """Let the memory go, and have the handle wait at its place."""
        handle = self.handle
        storage: Any = handle.storage
        storage.leave()
        place = storage.origin
        form: Form = place.form
        if place.is_known and form.vacancies < _VACANT:
            place.vacant.append(handle)
            form.vacancies += 1


def _look_around() -> None:
    """Let go of memory that tensors have left, whenever as many were passed as there are."""
    everybody = list(PASSED.values())  # which makes nothing else: the collector would take some out
    _turns.left = len(everybody) + _FEW
    for known in everybody:
        _, was, first, _ = known
        array: Any = was()
        if array is not None and array.data_ptr() != first and PASSED.get(was.number) is known:
            PASSED.pop(was.number, None)
