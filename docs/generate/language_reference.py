"""Pages about the kernel language: its functions, the methods of its objects, its parameters."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from typing import Any

from page_text import ROOT, block, call, page, prose, sentence, table

import tilewright as tw
from tilewright.lang import functions, unsafe
from tilewright.lang.builtin import Builtin
from tilewright.lang.hints import Hints

sys.path.append(str(ROOT / "tests/language"))
import function_cases as cases

__all__ = ["functions_page", "methods_page", "parameters_page"]

SETS = {
    cases.FLOATS: "floats",
    cases.INTEGERS: "integers",
    cases.NUMBERS: "integers and floats",
    cases.BITS: "integers and bool",
    cases.COMPUTED: "integers, floats and bool",
    cases.STORED: "every dtype of a tensor",
}
NAMES = """Floats are f16, bf16, f32 and f64; integers are i8 to i64 and u8 to u64. Operands of one
call have one dtype, numbers without a dtype aside; [dtypes](dtypes.md) has the conversions."""

OBJECTS = {
    tw.Ref: "x", tw.Partition: "p", tw.Mut: "z", tw.MutPartition: "parts", tw.Mapped: "z",
    tw.Index: "at", tw.Accum: "s", tw.Tile: "t",
}  # fmt: skip
SIGNS = {
    "__add__": "a + b", "__sub__": "a - b", "__mul__": "a * b", "__truediv__": "a / b",
    "__floordiv__": "a // b", "__mod__": "a % b", "__pow__": "a ** b", "__and__": "a & b",
    "__or__": "a | b", "__xor__": "a ^ b", "__lshift__": "a << b", "__rshift__": "a >> b",
    "__lt__": "a < b", "__le__": "a <= b", "__gt__": "a > b", "__ge__": "a >= b",
    "__eq__": "a == b", "__ne__": "a != b", "__neg__": "-a", "__pos__": "+a",
    "__invert__": "~a", "__abs__": "abs(a)",
}  # fmt: skip


def functions_page() -> str:
    """Every function of the language, by the module that declares it."""
    parts = [
        "You call these functions inside a kernel, as `tw.sum(t)`. Some of them also make tensors "
        "on the host.",
        NAMES,
    ]
    for module in pkgutil.iter_modules(functions.__path__):
        declared = importlib.import_module(f"{functions.__name__}.{module.name}")
        parts += [f"## {module.name.capitalize()}", prose(declared)]
        parts += [_function(name, getattr(declared, name)) for name in declared.__all__]
    parts += ["## Unsafe", prose(unsafe), *(_function(n, f) for n, f in _unsafe())]
    return page("Functions", *parts)


def _unsafe() -> Iterator[tuple[str, Any]]:
    for name in unsafe.__all__:
        if isinstance(found := getattr(unsafe, name), Builtin):
            yield name, found


def _function(name: str, function: Builtin[..., Any]) -> str:
    lines = [f"### {name}", block(call(f"tw.{name}", function.signature), "py")]
    case = cases.ELEMENTWISE.get(function) or cases.ALONG_ROWS.get(function)
    if case is not None:
        result = f"; the result is {case.gives.label}" if case.gives else ""
        lines.append(f"*Takes {SETS[case.takes]}{result}.*")
    return "\n\n".join([*lines, prose(function)])


def methods_page() -> str:
    """Every attribute and method of the objects that a kernel meets."""
    parts = ["These are the objects of a kernel, with everything that you can ask of them."]
    for kind, name in OBJECTS.items():
        rows = [(f"`{shown}`", prose(member)) for shown, member in _members(kind, name)]
        parts += [
            f"## {kind.__name__}",
            prose(kind),
            table((f"of `{name}: {kind.__name__}`", "meaning"), rows),
        ]
    rows = [(f"`{SIGNS[name]}`", SETS[case.takes]) for name, case in cases.OPERATORS.items()]
    parts += ["## Operators of tiles", NAMES, table(("operator", "takes"), rows)]
    return page("Tiles, tensors and partitions", *parts)


def _members(kind: type, name: str) -> Iterator[tuple[str, Any]]:
    for attribute, member in vars(kind).items():
        if not getattr(member, "__doc__", None) or attribute in ("__doc__", "__bool__"):
            continue
        if isinstance(member, property):
            yield f"{name}.{attribute}", member
        elif attribute == "__getitem__":
            yield f"{name}[…]", member
        elif attribute == "__matmul__":
            yield f"{name} @ other", member
        elif attribute == "__iter__":
            yield f"i, j = {name}", member
        elif inspect.isfunction(member) and not attribute.startswith("_"):
            yield call(f"{name}.{attribute}", inspect.signature(member)), member


def parameters_page() -> str:
    """The kinds of parameters, dims, and the options of the decorator."""
    kinds = {
        "x: Ref[f32, M, N]": tw.Ref,
        "z: Mut[f32, Cut[M, BM], Cut[N, BN]]": tw.Mut,
        "z: Mapped[f32, Cut[M, BM], Cut[N, BN]]": tw.Mapped,
        "s: Accum[f32, N]": tw.Accum,
        "*, BK: Const[int] = 64": tw.Const,
        "p: Ptr[f32]": tw.Ptr,
    }
    rows = [(f"`{shown}`", sentence(kind)) for shown, kind in kinds.items()]
    rows.append(("`a: f32`", "A number, one of every dtype that has arithmetic."))
    dims = [(f"`{kind.__name__}`", prose(kind)) for kind in (tw.Dim, tw.Cut, tw.All)]
    return page(
        "Parameters of a kernel",
        "The annotation of a parameter says what a block may do with it.",
        table(("parameter", "meaning"), rows),
        "Numbers may also come as tuples, named tuples and frozen dataclasses of numbers.",
        "## Dims",
        table(("name", "meaning"), dims),
        "## Options of the decorator",
        prose(tw.kernel),
        "## Hints",
        prose(Hints),
    )
