"""What a launch needs to know about a compiled kernel, as bytes.

Places in the source are written as the function they belong to, one of those that the kernel was
made of, so that they point into the reader's files. Only our own data classes are read back: bytes
that name anything else are refused.
"""

from __future__ import annotations

import io
import pickle
from enum import Enum
from types import FunctionType
from typing import Any

from tilewright.analysis import operations
from tilewright.check import launch, ledger, padding
from tilewright.frontend.capture import source_file
from tilewright.jit.compiled import LaunchFacts
from tilewright.passes import place_checks
from tilewright.source import SourceFile

__all__ = ["PARTS", "member", "read_facts", "write_facts"]

# What facts are made of is found by name; loaded with this module, it costs no reader anything.
PARTS = (launch, ledger, operations, padding, place_checks)

_OURS = "tilewright."
_PLAIN = {"frozenset", "set"}  # of Python's own


def write_facts(facts: LaunchFacts, functions: tuple[FunctionType, ...]) -> bytes:
    """The facts as bytes; `functions` are the kernel and its helpers."""
    target = io.BytesIO()
    _Writer(target, functions).dump(facts)
    return target.getvalue()


def read_facts(data: bytes, functions: tuple[FunctionType, ...]) -> LaunchFacts:
    """The facts again; raises `pickle.UnpicklingError` for bytes that are not ours."""
    found = _Reader(io.BytesIO(data), functions).load()
    if not isinstance(found, LaunchFacts):
        raise pickle.UnpicklingError("these are no facts about a kernel")
    return found


def member(kind: type[Enum], name: str) -> Enum:
    """A member of an enumeration, which is written by its name: its value may be anything."""
    return kind[name]


class _Writer(pickle.Pickler):
    def __init__(self, target: io.BytesIO, functions: tuple[FunctionType, ...]) -> None:
        super().__init__(target, protocol=5)
        paths = {function.__code__.co_filename: n for n, function in enumerate(functions)}
        self._numbers = paths

    def reducer_override(self, obj: Any) -> Any:
        """Members of enumerations by name."""
        return (member, (type(obj), obj.name)) if isinstance(obj, Enum) else NotImplemented

    def persistent_id(self, obj: Any) -> int | None:
        """A source file by the number of a function in it."""
        return self._numbers[obj.path] if isinstance(obj, SourceFile) else None


class _Reader(pickle.Unpickler):
    def __init__(self, source: io.BytesIO, functions: tuple[FunctionType, ...]) -> None:
        super().__init__(source)
        self._functions = functions
        self._files: dict[int, SourceFile] = {}

    def persistent_load(self, pid: Any) -> SourceFile:
        """The file of a function as it is here."""
        if not isinstance(pid, int) or not 0 <= pid < len(self._functions):
            raise pickle.UnpicklingError(f"there is no function {pid!r}")
        if pid not in self._files:
            self._files[pid] = source_file(self._functions[pid])
        return self._files[pid]

    def find_class(self, module: str, name: str) -> Any:
        """Our own classes, and the few of Python's that ours are written with."""
        if module.startswith(_OURS) or (module == "builtins" and name in _PLAIN):
            found = super().find_class(module, name)
            if isinstance(found, type) or found is member:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} has no place here")
