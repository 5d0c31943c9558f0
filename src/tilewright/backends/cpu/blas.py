"""A limit of one BLAS thread for each matrix product while blocks run on threads of their own.

A BLAS that spreads a small product over all cores waits for every core, and blocks on several
threads, of one kernel or of several, would wait for each other there; so would a lone block for
cores that are busy otherwise (`cores`). The number of threads of NumPy's own OpenBLAS can be set;
with any other BLAS nothing is changed, and `can_limit` returns False. The limit is process-wide:
other threads that multiply at the same time use one core as well. (In threadpoolctl only the thread
that set a limit can remove it; here the first stream worker to start sets it, and the last to end,
often another one, restores the old number.)
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tilewright.runtime.devices.process import ForkedLock

__all__ = ["can_limit", "one_thread_each"]


class _Library(NamedTuple):
    get: Callable[[], int]
    set: Callable[[int], None]


class _Users:
    """Number of runs that hold the limit, and the number of threads before the first of them."""

    def __init__(self) -> None:
        self.lock = ForkedLock()
        self.count = 0
        self.before = 1


_users = _Users()


@cache
def _library() -> _Library | None:
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):
        for path in sorted(folder.glob("*openblas*")):
            found = _functions(path)
            if found is not None:
                return found
    return None


def _functions(path: Path) -> _Library | None:
    """Return the thread functions of an OpenBLAS, whose names depend on its build."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError:
        return None
    for form in ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads"):
        get = getattr(library, form.format("get"), None)
        set_ = getattr(library, form.format("set"), None)
        if get is not None and set_ is not None:
            set_.restype = None
            return _Library(get, set_)
    return None


def can_limit() -> bool:
    """Whether products can be limited to one thread."""
    return _library() is not None


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Limit every product of the process to one thread; uses may overlap."""
    library = _library()
    if library is None:
        yield
        return
    with _users.lock:
        if _users.count == 0:
            _users.before = library.get()
            library.set(1)
        _users.count += 1
    try:
        yield
    finally:
        with _users.lock:
            _users.count -= 1
            if _users.count == 0:
                library.set(_users.before)
