"""Fingerprints of captured values and of the package, for keys that other processes compute too.

A fingerprint has no path and no time in it, so entries are portable between hosts. A kernel that
captures a value without a fingerprint is not cached on disk.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from enum import Enum
from functools import cache, partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.lang.builtin import Builtin
from tilewright.version import VERSION

__all__ = ["Unknown", "digest", "fingerprint", "package_fingerprint", "package_signature"]

_PACKAGE = Path(__file__).parents[2]


class Unknown(Exception):
    """A value that has no fingerprint."""


def digest(*parts: str | bytes) -> str:
    """A digest of several parts; each part is written with its length."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little") + data)
    return found.hexdigest()


def fingerprint(value: Any) -> str:
    """The fingerprint of a captured value; raises `Unknown` if it has none."""
    if isinstance(value, tuple):
        return digest(type(value).__qualname__, *map(fingerprint, value))
    if isinstance(value, type) and issubclass(value, DType):
        return f"dtype {value.__module__}.{value.__qualname__}"
    if isinstance(value, Enum):
        return digest("member", _class_text(type(value)), value._name_, fingerprint(value._value_))
    if isinstance(value, type) and issubclass(value, Enum):
        members = value.__members__.items()
        values = (fingerprint(member._value_) for _, member in members)
        return digest("enum", _class_text(value), *(name for name, _ in members), *values)
    if isinstance(value, np.generic):
        return digest("number", value.dtype.name, value.tobytes())
    if type(value) not in _TEXTS:
        raise Unknown(type(value).__name__)
    return _TEXTS[type(value)](value)


def _class_text(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _code(code: CodeType) -> str:
    """The bytecode of a function, with its lines and columns."""
    return digest(
        code.co_name,
        code.co_code,
        code.co_linetable,
        str(code.co_firstlineno),
        repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)),
        str(code.co_argcount),
        *(_constant(value) for value in code.co_consts),
    )


def _constant(value: Any) -> str:
    if isinstance(value, frozenset):
        return digest("frozenset", *sorted(map(_constant, value)))
    if value is Ellipsis or isinstance(value, (bytes, complex)):
        return f"{type(value).__name__} {value!r}"
    return fingerprint(value)


_TEXTS: dict[type, Callable[[Any], str]] = {
    bool: lambda value: f"bool {value}",
    int: lambda value: f"int {value}",
    float: lambda value: f"float {value.hex()}",
    str: lambda value: f"str {value}",
    type(None): lambda _: "None",
    CodeType: _code,
    FunctionType: lambda _: "function",  # code and defaults are captures of their own
    partial: lambda _: "partial",  # its function and arguments likewise
    ModuleType: lambda value: f"module {value.__name__}",
    Builtin: lambda value: f"builtin {value.name}",
    type: lambda value: f"type {_class_text(value)}",
    type(len): lambda value: f"built in {value.__module__}.{value.__qualname__}",
}


def package_signature() -> str:
    """Names, sizes and times of the package's files, which change whenever the files do.

    A cache hit spends most of its time here, so `scandir` reads the folders and no file is opened.
    """
    found = []
    open_ = [str(_PACKAGE)]
    while open_:
        with os.scandir(open_.pop()) as folder:
            for entry in folder:
                if entry.name.endswith(".py"):
                    seen = entry.stat()
                    found.append((entry.name, seen.st_size, seen.st_mtime_ns))
                elif "." not in entry.name and entry.is_dir():
                    open_.append(entry.path)
    return repr(sorted(found))


@cache
def package_fingerprint() -> str:
    """The fingerprint of the compiler: version and source of the package, and Python's version."""
    texts = (path.read_bytes() for path in sorted(_PACKAGE.rglob("*.py")))
    return digest(VERSION, f"{sys.version_info[:2]}", *texts)
