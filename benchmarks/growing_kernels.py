"""Kernels of a chosen size: k branches, k nested loops, k arguments, and so on.

A family is a function from k to the source of a kernel `grown` and of its helpers. All families
take the same arguments (`launch`), so that one program can compile, run, time or count them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tilewright as tw
from tilewright import DeviceOp, LaunchError, OutOfBoundsError, i32

__all__ = ["FAMILIES", "MOST", "compiled", "define", "launch"]

_HEAD = """import tilewright as tw
from tilewright import Const, Mut, Ref, i32
from tilewright.dims import B, M, N
"""
_ENTRY = """
@tw.kernel
def grown(z: Mut[i32, B], x: Ref[i32, N], y: Ref[i32, M], n: i32, m: i32) -> None:
    xs, ids = x.partition(B), y.partition(1)
    t = n
"""
_STORE = "    z.store(xs[t])\n"


def _repeated(*lines: str) -> Callable[[int], str]:
    """A body of repeated lines; `{i}` is the number of the repetition."""

    def source(k: int) -> str:
        body = "".join(f"    {line.format(i=i)}\n" for i in range(k) for line in lines)
        return f"{_HEAD}{_ENTRY}{body}{_STORE}"

    return source


def _once(make: Callable[[int], str], before: str = "", helpers: str = "") -> Callable[[int], str]:
    """A body of one growing statement."""

    def source(k: int) -> str:
        return f"{_HEAD}{helpers}{_ENTRY}{before}    {make(k)}\n{_STORE}"

    return source


def _nested(head: str, last: str) -> Callable[[int], str]:
    """Nested statements."""

    def source(k: int) -> str:
        lines = [f"{'    ' * (i + 1)}{head.format(i=i)}" for i in range(k)]
        lines += [f"{'    ' * (k + 1)}{last}", ""]
        return _HEAD + _ENTRY + "\n".join(lines) + _STORE

    return source


def _nested_while(k: int) -> str:
    lines = []
    for i in range(k):
        indent = "    " * (i + 1)
        lines += [f"{indent}c{i} = 0", f"{indent}while c{i} < 1:", f"{indent}    c{i} += 1"]
    lines += ["    " * (k + 1) + "t = (t + 1) % 4", ""]
    return _HEAD + _ENTRY + "\n".join(lines) + _STORE


def _elifs(k: int) -> str:
    arms = "".join(f"    elif m == {i}:\n        t = n + {i}\n" for i in range(k))
    return f"{_HEAD}{_ENTRY}    if m < 0:\n        t = 0\n{arms}    else:\n        t = 1\n{_STORE}"


def _early_returns(k: int) -> str:
    arms = "".join(
        f"    if ids[{i}].item() > m:\n        z.store(xs[{i}])\n        return\n" for i in range(k)
    )
    return f"{_HEAD}{_ENTRY}{arms}{_STORE}"


def _breaks(k: int) -> str:
    arms = "".join(f"        if t == {100 + i}:\n            break\n" for i in range(k))
    return f"{_HEAD}{_ENTRY}    while t > m:\n{arms}        t -= 1\n{_STORE}"


def _carried(k: int) -> str:
    start = "".join(f"    c{i} = {i}\n" for i in range(k))
    turn = "".join(f"        c{i} = c{(i + 1) % k} + 1\n" for i in range(k))
    return f"{_HEAD}{_ENTRY}{start}    for i in range(m):\n{turn}    t = c0 % 4\n{_STORE}"


def _called(k: int) -> str:
    """Helpers that call each other."""
    helpers = "\ndef f0(t, m):\n    return t + 1 if t < m else t\n"
    for i in range(1, k):
        helpers += f"\n\ndef f{i}(t, m):\n    return f{i - 1}(t, m) + 1 if t < m else t\n"
    return f"{_HEAD}{helpers}\n{_ENTRY}    t = f{k - 1}(t, m)\n{_STORE}"


def _tensors(k: int) -> str:
    extra = ", ".join(f"x{i}: Ref[i32, N]" for i in range(k))
    entry = _ENTRY.replace("n: i32", f"{extra}, n: i32")
    body = "".join(f"    t += x{i}.partition(1)[n].item()\n" for i in range(k))
    return f"{_HEAD}{entry}{body}{_STORE}"


def _outputs(k: int) -> str:
    extra = ", ".join(f"z{i}: Mut[i32, B]" for i in range(k))
    entry = _ENTRY.replace("n: i32", f"{extra}, n: i32")
    body = "".join(f"    z{i}.store(xs[n])\n" for i in range(k))
    return f"{_HEAD}{entry}{body}{_STORE}"


def _search(k: int) -> str:
    body = f"""    lo, hi = 0, n
    for _ in tw.static_range({k}):
        mid = (lo + hi) // 2
        left = xs[mid].item() > 5 if False else ids[mid].item() > 5
        lo, hi = (lo if left else mid), (mid if left else hi)
    t = lo
"""
    return f"{_HEAD}{_ENTRY}{body}{_STORE}"


def _row(joiner: str, part: str) -> Callable[[int], str]:
    return lambda k: joiner.join(part.format(i=i) for i in range(k))


_SUM, _ALL, _ANY = _row(" + ", "m"), _row(" and ", "m > {i}"), _row(" or ", "m > {i}")
_COMPARED, _LISTED = _row(" < ", "(n + {i})"), _row(", ", "n + m * {i}")

# The families, each with the source of the kernel of size k.
FAMILIES: dict[str, Callable[[int], str]] = {
    "branches": _repeated("if m > {i}:", "    t += 1"),
    "branches on data": _repeated("if ids[{i}].item() > 0:", "    t += 1"),
    "two arms": _repeated("if m > {i}:", "    t = t + m", "else:", "    t = t - n"),
    "ternaries": _repeated("t = t + 1 if t < m else t - 1"),
    "chosen truths": lambda k: _repeated("b = n > {i} if b else m > {i}")(k)
    .replace("    t = n\n", "    t = n\n    b = n > m\n")
    .replace(_STORE, "    t = 1 if b else 0\n" + _STORE),
    "minima of branches": _repeated("t = min(t + {i}, n - 1) if m > {i} else t"),
    "unrolled search": _search,
    "unrolled steps": lambda k: _repeated(f"for i in tw.static_range({k}):",
                                          "    t = t + i if m > i else t")(1),
    "nested if": _nested("if m > {i}:", "t += 1"),
    "nested for": _nested("for i{i} in range(m - 2):", "t = (t + 1) % 4"),
    "nested for with carried": _nested("for i{i} in range(n, 21 + {i} % 2):", "t = min(t + 1, n)"),
    "nested while": _nested_while,
    "arguments of min": _once(lambda k: f"t = min({_LISTED(k)})"),
    "arguments of max": _once(lambda k: f"t = max({_LISTED(k)})"),
    "chained min": _repeated("t = min(t + 1, m * {i})"),
    "multiplications": _repeated("t = t * t + t"),
    "products of sums": _repeated("t = (t + m) * (t + n)"),
    "quotients": _repeated("t = t // 3 + t % 5"),
    "shifts": _repeated("t = (t << 1) + (t >> 2)"),
    "clamps": _repeated("t = max(min(t + m, n), {i})"),
    "comparisons": _once(lambda k: f"t = 1 if {_COMPARED(k)} else 0"),
    "row of and": _once(lambda k: f"t = 1 if {_ALL(k)} else 0"),
    "row of or": _once(lambda k: f"t = 1 if {_ANY(k)} else 0"),
    "sum": _once(lambda k: f"t = {_SUM(k)}"),
    "sum of different terms": _once(lambda k: f"t = {_LISTED(k).replace(',', ' +')}"),
    "parentheses": _once(lambda k: f"t = {'(m + ' * k}n{')' * k}"),
    "nested calls": _once(lambda k: f"t = {'min(m, ' * k}n{')' * k}"),
    "nested tuples": _once(lambda k: f"p = {'(t, ' * k}n{')' * k}"),
    "tuple through branches": lambda k: _repeated("p = (p[1], p[0] + 1) if m > {i} else p")(k)
    .replace("    t = n\n", "    p = (n, m)\n")
    .replace(_STORE, "    t = p[0]\n" + _STORE),
    "members carried": lambda k: _once(lambda k: f"p = ({_LISTED(k)},)")(k).replace(
        _STORE, f"    for i in range(m):\n        p = (*p[1:], p[0])\n    t = p[0]\n{_STORE}"),
    "pairs of pairs": lambda k: _repeated("p = (p, p)")(k.bit_length())
    .replace("    t = n\n", "    t = p = n\n")
    .replace(_STORE, f"    for i in range(m):\n        p = (p[1], p[0])\n{_STORE}"),
    "composed functions": lambda k: _repeated("f = then(f, {i})")(k)
    .replace(_HEAD, f"{_HEAD}\n\ndef then(f, i):\n    return lambda a: f(a) + i\n\n")
    .replace("    t = n\n", "    t, f = n, lambda a: a\n")
    .replace(_STORE, f"    t = f(t)\n{_STORE}"),
    "helpers in a row": lambda k: _repeated("t = step(t, m)")(k).replace(
        _HEAD, f"{_HEAD}\n\ndef step(t, m):\n    return t + 1 if t < m else t\n\n"),
    "helpers in helpers": _called,
    "accesses": _repeated("t += ids[n + {i}].item()"),
    "guarded accesses": _repeated("if t < m + {i}:", "    t += ids[t].item()"),
    "elif": _elifs,
    "early returns": _early_returns,
    "breaks": _breaks,
    "names carried": _carried,
    "loops in a row": _repeated("for i in range(m):", "    t = (t + i) % 4"),
    "inputs": _tensors,
    "outputs": _outputs,
}  # fmt: skip
# Largest k of a family: Python nests 20 loops, and 100 blocks, in one function.
MOST = {name: 18 for name in FAMILIES if name.startswith(("nested for", "nested while"))}
MOST |= {"nested if": 90}


def define(family: str, k: int, folder: Path) -> Any:
    """The kernel of a family and a size, from a file of its own."""
    path = folder / f"{family.replace(' ', '_')}_{k}.py"
    path.write_text(FAMILIES[family](k))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.grown


def launch(family: str, k: int, kernel: Any) -> DeviceOp[Any]:
    """A launch of the kernel, which compiles it."""
    x, y, z = tw.ones((4096,), i32), tw.ones((4096,), i32), tw.zeros((4,), i32)
    more: tuple[Any, ...] = ()
    if family == "inputs":
        more = tuple(tw.ones((4096,), i32) for _ in range(k))
    elif family == "outputs":
        more = tuple(tw.zeros((4,), i32).partition(4) for _ in range(k))
    operation: DeviceOp[Any] = kernel(z.partition(4), x, y, *more, 20, 3)
    return operation


def compiled(family: str, k: int, kernel: Any) -> None:
    """Compile a kernel; a refused launch is ignored."""
    try:
        launch(family, k, kernel).sync()
    except (LaunchError, OutOfBoundsError):
        return  # its numbers grow with k as well
