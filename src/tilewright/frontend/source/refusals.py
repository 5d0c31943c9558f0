"""Unsupported Python constructs: their names, and the nearest supported ones."""

from __future__ import annotations

import ast

__all__ = ["REFUSALS"]

# By AST node: the name of the construct, and the alternative.
REFUSALS: dict[type[ast.AST], tuple[str, str]] = {
    ast.AsyncFunctionDef: ("`async def`", "a kernel waits for nothing: use `def`"),
    ast.AsyncFor: ("`async for`", "a kernel waits for nothing: use `for`"),
    ast.AsyncWith: ("`async with`", "a kernel waits for nothing"),
    ast.Await: ("`await`", "a kernel waits for nothing; its launch can be awaited on the host"),
    ast.ClassDef: ("a class", "define it at module level"),
    ast.Delete: ("`del`", "a name ends with its function"),
    ast.Dict: ("a dictionary", "use a tuple, or separate names"),
    ast.DictComp: ("a dictionary comprehension", "use a `for` loop"),
    ast.GeneratorExp: ("a generator", "use a `for` loop that carries a value"),
    ast.Global: ("`global`", "a kernel writes through Mut and Mapped parameters only"),
    ast.Import: ("`import`", "import at the top of the module"),
    ast.ImportFrom: ("`import`", "import at the top of the module"),
    ast.In: ("`in`", "compare with `==` and join with `or`"),
    ast.Is: ("`is`, except `is None`,", "compare with `==`"),
    ast.IsNot: ("`is not`, except `is not None`,", "compare with `!=`"),
    ast.List: ("a list", "use a tuple"),
    ast.ListComp: (
        "a list comprehension",
        "use a `for` loop, or tile operations on all elements at once",
    ),
    ast.Match: ("`match`", "use `if`/`elif`"),
    ast.NamedExpr: ("`:=`", "assign on a line of its own"),
    ast.Nonlocal: ("`nonlocal`", "a kernel writes through Mut and Mapped parameters only"),
    ast.NotIn: ("`not in`", "compare with `!=` and join with `and`"),
    ast.Raise: ("`raise`", "report with `assert`, or refuse launches with `tw.require(…)`"),
    ast.Set: ("a set", "use a tuple"),
    ast.SetComp: ("a set comprehension", "use a `for` loop"),
    ast.Slice: ("a slice", "cut a tensor into tiles with `.partition(…)` and index the tiles"),
    ast.Starred: ("`*` in this place", "name every item"),
    ast.Try: ("`try`", "a kernel has no exceptions; failed checks are raised on the host"),
    ast.TryStar: ("`try`", "a kernel has no exceptions; failed checks are raised on the host"),
    ast.Yield: ("`yield`", "write results to a Mut or a Mapped with `.store(tile)`"),
    ast.YieldFrom: ("`yield from`", "write results to a Mut or a Mapped with `.store(tile)`"),
}
