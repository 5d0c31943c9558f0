"""Random Python as the body of kernels: every kind of node of the grammar, at every place.

A form is a piece of source with holes, `{e}` for an expression and `{s}` for statements; forms are
put into each other at random, whether that makes sense or not. Only text that Python itself
compiles is given out.
"""

import ast
import re
import textwrap
import warnings
from random import Random

__all__ = ["every_form", "mutated_module", "random_module"]

HEADER = """
from __future__ import annotations

import enum
import math
import typing

import numpy as np

import tilewright as tw
from tilewright import Accum, Const, Mapped, Mut, Ref, bool_, f16, f32, i32, u32
from tilewright.dims import B, BM, D, N, T

LIST, ARRAY, TUPLE = [1, 2], np.zeros(3), (1, (2.5, f32))


class Side(enum.Enum):
    LEFT = "left"


def plain(a, b=2, *rest, c=3, **named):
    return a
"""

KERNEL = """

@tw.kernel
def kernel_{number}(
    z: Mut[f32, B], w: Mapped[f32, BM], x: Ref[f32, N], ids: Ref[i32, N],
    alpha: f32, i: i32, u: u32, *, C: Const[int] = 4,
) -> None:
    t, ti, xs, zs = x.load_like(z), ids.load_like(z), x.partition(8), z.partition(4)
    tb = t > 0.5
{body}
"""

HELPER = """

def helper_{number}(t, ti, i, *more, x=None, **named):
{body}
    return t
"""

LEAVES = (
    "0", "1", "-1", "2**31", "10**400", "0x_ff", "1.5", "1e999", "1e-400", "2j", "True", "None",
    "...", "'text'", "b'bytes'", "''", "t", "ti", "tb", "alpha", "i", "u", "x", "z", "w", "xs",
    "zs", "q", "C", "N", "B", "D", "T", "f32", "i32", "bool_", "tw", "math", "np", "math.pi",
    "LIST", "ARRAY", "TUPLE", "Side", "Side.LEFT", "plain", "nothing", "range", "len", "print",
    "type", "object", "__name__", "__debug__", "__builtins__", "self", "tw.Tile", "tw.dims",
    "Ref", "typing.Any",
)  # fmt: skip

EXPRESSIONS = (
    "({e})", "({e} + {e})", "({e} - {e})", "({e} * {e})", "({e} / {e})", "({e} // {e})",
    "({e} % {e})", "({e} ** {e})", "({e} @ {e})", "({e} << {e})", "({e} >> {e})", "({e} & {e})",
    "({e} | {e})", "({e} ^ {e})", "(-{e})", "(+{e})", "(~{e})", "(not {e})", "({e} and {e})",
    "({e} or {e} or {e})", "({e} < {e})", "({e} == {e} != {e})", "({e} <= {e} > {e} >= {e})",
    "({e} is {e})", "({e} is not None)", "({e} in {e})", "({e} not in {e})",
    "({e} if {e} else {e})", "(q := {e})", "(lambda: {e})", "(lambda a, /, b=1, *c, d=2, **k: {e})",
    "(lambda q: {e})({e})", "(lambda *a: a)({e}, {e})", "{e}()", "{e}({e})", "{e}({e}, *{e})",
    "{e}(**{e})", "{e}(a={e})", "{e}({e}, axis={e})", "{e}({e} for q in {e})", "[{e}, {e}]",
    "[*{e}]", "({e}, *{e})", "({e},)", "()", "[]", "{{}}", "{{{e}: {e}}}", "{{**{e}}}",
    "{{{e}, {e}}}", "[{e} for q in {e}]", "[{e} for q in {e} if {e} for i in {e}]",
    "{{{e} for q in {e}}}", "{{q: {e} for q in {e}}}", "({e} for q in {e})", "f'{{{e}}}'",
    "f'{{{e}!r:>10}} and {{{e}:{{{e}}}}}'", "f'{{{e}=}}'", "{e}.shape", "{e}.dtype", "{e}.T",
    "{e}.nothing", "{e}.__class__", "{e}._private", "{e}.item()", "{e}.load()", "{e}.index",
    "{e}.value", "{e}[{e}]", "{e}[:]", "{e}[{e}:{e}]", "{e}[{e}:{e}:{e}]", "{e}[..., None]",
    "{e}[:, None]", "{e}[{e}, {e}]", "{e}[*{e}]", "{e}[::-1]", "{e}[()]", "(yield)", "(yield {e})",
    "(yield from {e})", "(await {e})", "tw.where({e}, {e}, {e})", "tw.sum({e})", "tw.exp({e})",
    "tw.zeros({e}, {e})", "tw.full({e}, {e}, {e})", "tw.arange({e})", "tw.mma({e}, {e}, {e})",
    "tw.static_range({e})", "tw.reduce({e}, {e}, identity={e})", "tw.require({e})", "tw.cat({e})",
    "tw.scan({e}, lambda a, b: {e}, identity={e})", "x.gather({e})", "x.windows({e}, step={e})",
    "x.load_like({e})", "z.store({e})", "zs.store({e}, {e})", "xs[{e}]", "xs.clip({e}, {e})",
    "{e}.astype({e})", "{e}.reshape({e})", "{e}.permute({e}, {e})", "plain({e}, b={e})",
    "range({e}, {e}, {e})", "len({e})", "min({e}, {e})", "max({e})", "abs({e})", "int({e})",
    "float({e})", "bool({e})", "f16({e})", "print({e}, {e})", "print({e}, sep={e})", "type({e})",
    "isinstance({e}, {e})", "getattr({e}, 'shape')", "super().{n}", "tw.unsafe({e})",
    "tw.kernel({e})", "w.indices()", "w.indices_within(({e}, {e}))", "helper_0({e}, {e}, {e})",
    "helper_0({e}, {e}, {e}, {e}, x={e})", "'{n}'.join({e})", "{e}\\\n + {e}", "(1_000).real",
)  # fmt: skip

STATEMENTS = (
    "{e}", "q = {e}", "q = p = {e}", "q, p = {e}", "(q, (p, r)) = {e}", "[q, p] = {e}",
    "q, *p = {e}", "*q, = {e}", "q: {e} = {e}", "q: int", "(q): i32 = {e}", "q.field = {e}",
    "q.field: int = {e}", "q[{e}] = {e}", "t[{e}:{e}] = {e}", "q += {e}", "t **= {e}", "z += {e}",
    "q @= {e}", "xs[{e}] += {e}", "q.field -= {e}", "del q", "del q, t", "del q[{e}]", "del q.x",
    "pass", "assert {e}", "assert {e}, {e}", "assert ({e}, 'message')", "raise", "raise {e}",
    "raise {e} from {e}", "return", "return {e}", "global q", "global G\nG = {e}", "nonlocal q",
    "import math", "import os.path as q", "from math import *", "from math import pi as q",
    "break", "continue", "if {e}:\n{s}", "if {e}:\n{s}\nelse:\n{s}",
    "if {e}:\n{s}\nelif {e}:\n{s}\nelse:\n{s}", "while {e}:\n{s}", "while {e}:\n{s}\nelse:\n{s}",
    "while True:\n{s}\n    break", "for q in {e}:\n{s}", "for q, p in {e}:\n{s}",
    "for q in range({e}):\n{s}", "for q in tw.static_range(3):\n{s}", "for q in (t, i, {e}):\n{s}",
    "for q.x in {e}:\n{s}", "for t[0] in {e}:\n{s}", "for q in {e}:\n{s}\nelse:\n{s}",
    "for at in w.indices():\n{s}\n    w.store(t, at)", "for t in w.indices():\n{s}",
    "async for q in {e}:\n{s}", "with {e}:\n{s}", "with {e} as q, {e}:\n{s}",
    "with tw.unsafe('reason'):\n{s}", "async with {e}:\n{s}", "try:\n{s}\nexcept {e}:\n{s}",
    "try:\n{s}\nexcept Exception as q:\n{s}\nelse:\n{s}\nfinally:\n{s}", "try:\n{s}\nfinally:\n{s}",
    "try:\n{s}\nexcept* {e}:\n{s}", "def q():\n{s}", "def q(a, /, b=1, *c, d=2, **k):\n{s}",
    "def q(a: {e} = {e}) -> {e}:\n{s}", "@{e}\ndef q():\n{s}", "async def q():\n{s}",
    "def q():\n    nonlocal t\n{s}", "def q(t):\n{s}\n    return t\nq = q({e})", "class q:\n{s}",
    "class q({e}, metaclass={e}):\n{s}", "@{e}\nclass q:\n    field: {e} = {e}",
    "match {e}:\n    case 1:\n    {s}\n    case [a, *b] if {e}:\n    {s}\n    case _:\n    {s}",
    "match {e}:\n    case {{'a': 1, **rest}} | None:\n    {s}",
    "match {e}:\n    case Side(value=q) as p:\n    {s}",
    "type_ = {e}; q = type_", "'docstring'", "...", "if True: q = {e}; p = q",
    "q = lambda: (yield)", "z.store(t)", "return z.store({e})", "tw.static_assert({e}, {e})",
)  # fmt: skip

_HOLE = re.compile(r"\{([esn])\}")


class _Writer:
    """Fills the holes of forms; deeper ones with less and less."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def expression(self, depth: int) -> str:
        """An expression of that depth at most."""
        if depth <= 0 or self._random.random() < 0.25:
            return self._random.choice(LEAVES)
        return self._filled(self._random.choice(EXPRESSIONS), depth - 1)

    def statement(self, depth: int) -> str:
        """A statement, with others inside."""
        simple = "q = {e}" if depth <= 0 else self._random.choice(STATEMENTS)
        return self._filled(simple, depth - 1)

    def suite(self, depth: int) -> str:
        """The statements under a colon."""
        lines = [self.statement(depth) for _ in range(self._random.randint(1, 2))]
        return "\n".join(textwrap.indent(line, "    ") for line in lines)

    def _filled(self, form: str, depth: int) -> str:
        def fill(hole: re.Match[str]) -> str:
            if hole[1] == "n":
                return self._random.choice(("shape", "q", "store"))
            return self.suite(depth) if hole[1] == "s" else self.expression(depth)

        return _HOLE.sub(fill, form).replace("{{", "{").replace("}}", "}")


def _is_python(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            ast.parse(text)
            compile(text, "random", "exec")
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError):
        return False
    return True


def every_form() -> list[str]:
    """Each form once, inside a function, with names in its holes."""
    forms = [f"q = {form}" for form in (*EXPRESSIONS, *LEAVES)]
    found = []
    for form in (*forms, *STATEMENTS):
        text = _HOLE.sub(lambda hole: "    pass" if hole[1] == "s" else "q", form)
        text = text.replace("{{", "{").replace("}}", "}")
        body = textwrap.indent(f"while q:\n{textwrap.indent(text, '    ')}", "    ")
        found.append(f"async def f():\n{body}\n")
    return found


def random_module(seed: int, count: int) -> str:
    """The text of a module with that many kernels."""
    random = Random(seed)
    writer = _Writer(random)
    parts = [HEADER]
    helper = HELPER.format(number=0, body="    pass")
    while len(parts) <= count:
        depths = [random.randint(1, 3) for _ in range(random.randint(1, 3))]
        body = "\n".join(map(writer.statement, depths))
        indented = textwrap.indent(body, "    ")
        if random.random() < 0.2:
            text = HELPER.format(number=0, body=indented)
            if _is_python(HEADER + text):
                helper = text
            continue
        text = KERNEL.format(number=len(parts), body=indented)
        if _is_python(HEADER + text):
            parts.append((helper + text).replace("helper_0", f"helper_{len(parts)}"))
    return "".join(parts)


# --- kernels that are right, with something in them exchanged -----------------------------------

BODIES = (
    """
total = tw.zeros((8,), f32)
for k in range(xs.num_tiles(0)):
    total = total + xs[k]
z.store(total)
""",
    """
at_most = i
while at_most > 3:
    at_most = at_most // 2
    if at_most == 5:
        break
z.store(t * f32(at_most))
""",
    """
def twice(a):
    if i > 2:
        return a + a
    return a
z.store(twice(t) + twice(alpha))
""",
    """
f = (lambda by: lambda a: a * by)(alpha) if i > 1 else (lambda by: lambda a: a * by)(2.0)
z.store(f(t))
""",
    """
for at in w.indices():
    k, = at
    w.store(x.partition(8)[xs.clip(k, 0)] + alpha, at)
z.store(t)
""",
    """
pair = (t, i)
for k in tw.static_range(3):
    pair = (pair[0] + k, pair[1] + 1)
z.store(pair[0] * f32(pair[1]))
""",
    """
best, place = tw.max(t), tw.argmax(t)
assert best > 0, 'message'
print(f'{best} at {place:d}')
z.store(tw.where(tw.arange(8) == place, best, t))
""",
    """
zs.store(tw.ones((4,), f32), 0)
if i > 0 and u < 3 or alpha == 1:
    zs.store(tw.zeros((4,), f32), 1)
else:
    return
""",
    """
m = tw.mma(t.reshape(2, 4), t.reshape(4, 2), tw.zeros((2, 2), f32))
z.store(t + tw.sum(m))
""",
    """
s = tw.reduce((t, tw.arange(8)), lambda a, i, b, j: (a + b, i + j), identity=(0.0, 0))
z.store(t * s[0])
""",
    """
c = tw.scan(t, lambda a, b: a + b, identity=0.0)
z.store(c.astype(f16).astype(f32)[:, None].reshape(8))
""",
    """
g = x.gather(ti, mask=tb, padding=2)
for k in range(i, 0, -1):
    g = g - f32(k) if k % 2 == 0 else g
z.store(g)
""",
    """
tw.require(N > 4)
v = x.windows(8, step=2)
z.store(v[v.clip(i, 0)] ** 2 / (1 + tw.abs(t)))
""",
    """
found = -1
for k in range(10):
    if k * k > i:
        found = k
        break
z.store(tw.full((8,), found, i32).astype(f32))
""",
)


class _Exchange(ast.NodeTransformer):
    """Puts other expressions and statements in the place of some, or takes them out."""

    def __init__(self, random: Random, pool: list[ast.expr], rate: float) -> None:
        self._random, self._pool, self._rate = random, pool, rate

    def generic_visit(self, node: ast.AST) -> ast.AST | None:
        super().generic_visit(node)
        if self._random.random() > self._rate:
            return node
        if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return self._random.choice(self._pool)
        if isinstance(node, (ast.operator, ast.cmpop, ast.unaryop, ast.boolop)):
            kinds = _SIGNS[type(node).__mro__[1]]
            return self._random.choice(kinds)()
        return node


_SIGNS = {
    kind: kind.__subclasses__() for kind in (ast.operator, ast.cmpop, ast.unaryop, ast.boolop)
}


def mutated_module(seed: int, count: int) -> str:
    """Kernels that are right but for what was exchanged in them."""
    random = Random(seed)
    writer = _Writer(random)
    bodies = [ast.parse(body) for body in BODIES]
    parts = [HEADER]
    while len(parts) <= count:
        pool = [node for body in bodies for node in ast.walk(body) if isinstance(node, ast.expr)]
        pool = [node for node in pool if isinstance(getattr(node, "ctx", ast.Load()), ast.Load)]
        if random.random() < 0.5:
            text = writer.expression(1)
            if _is_python(text):
                pool = [*random.sample(pool, 10), ast.parse(text, mode="eval").body]
        body = ast.parse(random.choice(BODIES))
        changed = _Exchange(random, pool, random.choice((0.02, 0.05, 0.15))).visit(body)
        try:
            text = ast.unparse(changed)
        except (ValueError, RecursionError, AttributeError):
            continue
        text = KERNEL.format(number=len(parts), body=textwrap.indent(text, "    "))
        if _is_python(HEADER + text):
            parts.append(text.replace("helper_0", "plain"))
    return "".join(parts)
