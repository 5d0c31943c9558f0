"""Random safe kernels as source text: loops, branches, index arithmetic, pieces and their parts.

Every name that a statement uses has a value there, loops are short, and shapes fit; whether an
index lies inside its axis is left to chance.
"""

from collections.abc import Callable
from random import Random
from string import Formatter

__all__ = ["RandomKernel", "random_kernel"]

TILE = 4  # of every tile of the kernel: B
PART = 2  # of a piece

_SCALARS = (
    "({one} + {other})", "({one} - {other})", "({one} * {number})", "({one} * {other})",
    "({one} // {number})", "({one} % {number})", "({one} // {other})", "({one} % {other})",
    "min({one}, {other})", "max({one}, {other})", "(-{one})", "abs({one})", "tw.cdiv({one}, 2)",
    "({one} & {other})", "({one} | {other})", "({one} ^ 1)", "({one} << 1)", "(i32({one}) >> 1)",
    "(i32({one}) >> ({other} & 3))", "({one} if {condition} else {other})",
    "clip({one}, {cut}.num_tiles(0))", "ids.partition(1)[0].item()", "tw.sum(ms[{one}, {other}])",
    "tw.sum(ms[clip({one}, ms.num_tiles(0)), 0])", "(i32({one}).astype(i64) * 3).astype(i32)",
    "i32({one}).astype(i8).astype(i32)", "(i32({one}).astype(u8).astype(i32) // 2)",
    "i32({one}).astype(u32).astype(i32)", "(i32({one}).astype(u32) // 2).astype(i32)",
    "(i32({one}).astype(u32).astype(i32) // {number})",
    "(i32({one}).astype(u32).astype(i32) % {number})",
    "(i32({one}).astype(u32).astype(i32) & {other})",
    "((i32({one}).astype(u32) % 3).astype(i32) + {other})",
    "tw.minimum(i32({one}).astype(u32), 5).astype(i32)",
    "tw.maximum(i32({one}).astype(u32), i32({other}).astype(u32)).astype(i32)",
    "(w // 2).astype(i32)", "(u + 1).astype(i32)", "(u // 3).astype(i32)",
    "seek({one}, {other}, xs)", "seek({one}, {other}, {cut})", "less(steps({one}, {other}))",
)  # fmt: skip
_CONDITIONS = (
    "({one} and {other})", "({one} or {other})", "(not {one})", "flag", "(u < 3)", "(w >= 0)",
    "(0 <= {scalar} < {cut}.num_tiles(0))", "(i32({scalar}).astype(i64) + 1 > 0)",
    "(i32({scalar}).astype(u32) < {cut}.num_tiles(0).astype(u32))",
)  # fmt: skip
_TILES = (
    "({one} + {other})", "({one} * 3)", "({one} - i32({scalar}))", "xs[{scalar}]", "ys[{scalar}]",
    "{cut}[clip({scalar}, {cut}.num_tiles(0))]", "twice({one})", "({one} // 2)", "({one} % 5)",
    "tw.where({one} > {other}, {other}, {one})", "({one} if {condition} else {other})",
    "({one} + tw.sum({other}))", "tw.full((B,), {scalar}, i32)", "({one} ^ tw.arange(B))",
)  # fmt: skip


class RandomKernel:
    """The text of one kernel, built line by line."""

    def __init__(self, random: Random, *, walked: bool) -> None:
        self._r = random
        self._walked = walked
        self._fresh = 0
        self._lines: list[str] = []
        self._depth = 1
        self._scalars = ["a", "b", "N", "M", "C", "w.astype(i32)"]
        self._tiles: list[str] = []
        self._counters: list[str] = []
        self._loops = 0  # around the current line
        self.source = self._kernel()

    # --- text ---

    def _say(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    def _name(self, prefix: str) -> str:
        self._fresh += 1
        return f"{prefix}{self._fresh}"

    def _kernel(self) -> str:
        kind = "Mapped" if self._walked else "Mut"
        self._say("xs = x.partition(B)")
        self._say("ys = y.partition(B)")
        self._say(f"ms = m.partition(B, {PART})")
        self._say("ps = xs if C > 1 else ys")
        self._say("t0 = tw.full((B,), a, i32)")
        self._say("s0 = 0")
        self._tiles.append("t0")
        self._scalars.append("s0")
        if self._walked:
            self._body(2)
            self._say("for at in z.indices():")
            self._depth += 1
            self._loops += 1
            self._scalars.append("at[0]")
            self._body(self._r.randint(1, 4))
            self._say(f"z.store({self._tile()}, at)")
            self._depth -= 1
            self._loops -= 1
            self._scalars.remove("at[0]")
        else:
            self._say(f"zs = z.partition({PART})")
            self._scalars.append("z.index[0]")
            self._body(self._r.randint(2, 6))
            self._say(f"z.store({self._tile()} + z.load())")
            self._body(self._r.randint(0, 3))
        head = (
            f"def kernel(z: {kind}[i32, B], x: Ref[i32, N], y: Ref[i32, M], "
            "m: Ref[i32, N, M], ids: Ref[i32, K], a: i32, b: i32, u: u32, w: i64, flag: bool_, "
            "*, C: Const[int]) -> None:"
        )
        return "\n".join(
            (
                "from __future__ import annotations",
                "G = 3",
                "def clip(v, n):",
                "    return max(min(v, n - 1), 0)",
                "def twice(t):",
                "    u = t + t",
                "    return u",
                *self._helpers(),
                "@tw.kernel",
                head,
                *self._lines,
                "",
            )
        )

    def _helpers(self) -> list[str]:
        """Functions that return from the middle of branches and loops."""
        inner = RandomHelper(self._r)
        less = ["def less(pair):", "    first, second = pair", "    return first - second"]
        return [*inner.lines("seek", "{one}"), *inner.lines("steps", "{one}, {other}"), *less]

    # --- expressions ---

    def _filled(self, form: str, one: Callable[[], str], depth: int) -> str:
        """A form with its places filled: one and other, a condition, a number, a partition."""
        parts = {
            "one": one, "other": one, "condition": lambda: self._condition(depth),
            "scalar": lambda: self._scalar(depth),
            "cut": lambda: self._r.choice(("xs", "ys", "ps")),
            "number": lambda: str(self._r.choice((1, 2, 3, -2, -3))),
        }  # fmt: skip
        wanted = {name for _, name, _, _ in Formatter().parse(form) if name}
        return form.format(**{name: parts[name]() for name in sorted(wanted)})

    def _scalar(self, depth: int = 2) -> str:
        """An i32 scalar, or a number."""
        r = self._r
        if depth <= 0 or r.random() < 0.3:
            names = [*self._scalars, *self._counters, *self._counters]
            return r.choice([*names, str(r.randint(-3, 9)), "B", "G", "xs.num_tiles(0)"])
        return self._filled(r.choice(_SCALARS), lambda: self._scalar(depth - 1), depth - 1)

    def _condition(self, depth: int = 1) -> str:
        r = self._r
        if depth <= 0 or r.random() < 0.5:
            sign = r.choice(("<", "<=", ">", ">=", "==", "!="))
            return f"({self._scalar(depth)} {sign} {self._scalar(depth)})"
        return self._filled(r.choice(_CONDITIONS), lambda: self._condition(depth - 1), depth - 1)

    def _tile(self, depth: int = 2) -> str:
        """A tile of B integers."""
        r = self._r
        if depth <= 0 or r.random() < 0.25:
            return r.choice(self._tiles)
        return self._filled(r.choice(_TILES), lambda: self._tile(depth - 1), depth)

    # --- statements ---

    def _body(self, length: int) -> None:
        for _ in range(length):
            self._statement()

    def _statement(self) -> None:
        r = self._r
        kinds = [self._set_scalar, self._set_tile, self._change, self._leave]
        weights = [3, 3, 3, 1]
        if not self._walked:
            kinds += [self._store_piece, self._store_part, self._load_part]
            weights += [1, 2, 2]
        if self._depth <= 3:
            kinds += [self._branch, self._loop, self._while]
            weights += [2, 2, 1]
        r.choices(kinds, weights)[0]()

    def _set_scalar(self) -> None:
        name = self._name("s")
        self._say(f"{name} = {self._scalar()}")
        self._scalars.append(name)

    def _set_tile(self) -> None:
        name = self._name("t")
        self._say(f"{name} = {self._tile()}")
        self._tiles.append(name)

    def _change(self) -> None:
        """Give a name that has a value another one."""
        r = self._r
        if r.random() < 0.5:
            name = r.choice(self._tiles)
            self._say(f"{name} = {self._tile()}")
        else:
            own = [name for name in self._scalars if name.startswith("s")]
            name = r.choice(own)
            form = r.choice(("{} = {}", "{} += {}", "{} -= {}", "{}, t0 = {}, t0 + 1"))
            self._say(form.format(name, self._scalar()))

    def _block(self, head: str) -> None:
        scalars, tiles = list(self._scalars), list(self._tiles)
        self._say(head)
        self._depth += 1
        self._body(self._r.randint(1, 3))
        self._depth -= 1
        self._scalars, self._tiles = scalars, tiles

    def _branch(self) -> None:
        self._block(f"if {self._condition()}:")
        if self._r.random() < 0.5:
            self._block("else:")

    def _loop(self) -> None:
        r = self._r
        counts = ("xs.num_tiles(0)", "ys.num_tiles(0)", "ms.num_tiles(1)", "zs.num_tiles(0)")
        bound = r.choice((*counts[: 3 if self._walked else 4], "3", f"min({self._scalar(1)}, 4)"))
        held = f"max(min({self._scalar(1)}, 5), -2)"
        bounds = r.choice(
            (bound, f"0, {bound}", f"1, {bound}", f"{held}, 5", "0, 7, 3", "-1, 3",
             f"{held}, -2, -1", "xs.num_tiles(0) - 1, -1, -1", f"0, {held}, 2", "4, -1, -3")
        )  # fmt: skip
        counter = self._name("c")
        self._counters.append(counter)
        self._loops += 1
        self._block(f"for {counter} in range({bounds}):")
        self._loops -= 1
        self._counters.remove(counter)

    def _while(self) -> None:
        """A loop that its own counter ends at last."""
        counter = self._name("k")
        self._say(f"{counter} = 0")
        self._loops += 1
        head = self._r.choice(("{0} < 4 and {1}", "{1} and {0} < 3", "True"))
        self._say(f"while {head.format(counter, self._condition())}:")
        self._depth += 1
        self._say(f"{counter} += 1")
        self._say(f"if {counter} > 3:")
        self._say("    break")
        scalars, tiles = list(self._scalars), list(self._tiles)
        self._counters.append(counter)
        self._body(self._r.randint(1, 3))
        self._counters.remove(counter)
        self._scalars, self._tiles = scalars, tiles
        self._depth -= 1
        self._loops -= 1

    def _leave(self) -> None:
        """Go somewhere else, on some paths."""
        ways = ["break", "continue", "break", "continue", "return"] if self._loops else ["return"]
        self._say(f"if {self._condition()}:")
        if self._r.random() < 0.3:
            self._depth += 1
            self._change()
            self._depth -= 1
        self._say(f"    {self._r.choice(ways)}")

    def _store_piece(self) -> None:
        form = self._r.choice(
            ("z.store({0})", "z.store({0}) if {1} else z.store({2})", "{1} and z.store({0})")
        )
        self._say(form.format(self._tile(), self._condition(), self._tile()))

    def _store_part(self) -> None:
        index = self._r.choice((self._scalar(1), "0", "zs.num_tiles(0) - 1"))
        self._say(f"zs.store(tw.full(({PART},), {self._scalar(1)}, i32), {index})")

    def _load_part(self) -> None:
        own = [name for name in self._scalars if name.startswith("s")]
        index = self._r.choice((self._scalar(1), "0", "zs.num_tiles(0) - 1"))
        self._say(f"{self._r.choice(own)} = tw.sum(zs[{index}])")


_HELPER_NUMBERS = ("p", "q", "r", "r", "(p + q)", "(r - p)", "(q * 2)", "max(p, q)", "1", "-2", "5")

_HELPER_LOADS = ("tw.sum(cut[p])", "tw.sum(cut[clip(r, cut.num_tiles(0))])")


class RandomHelper:
    """Functions of two numbers, and perhaps a partition, that may return anywhere."""

    def __init__(self, random: Random) -> None:
        self._r = random

    def lines(self, name: str, result: str) -> list[str]:
        """The text of one function; every path returns what `result` makes of two numbers."""
        self._result, self._fresh, self._has_cut = result, 0, name == "seek"
        parameters = "p, q, cut" if name == "seek" else "p, q"
        body = [*self._body(2, 3, loops=0), f"return {self._value()}"]
        return [f"def {name}({parameters}):", "    r = p", *(f"    {line}" for line in body)]

    def _value(self) -> str:
        return self._result.format(one=self._number(), other=self._number())

    def _number(self) -> str:
        return self._r.choice(_HELPER_NUMBERS + (_HELPER_LOADS if self._has_cut else ()))

    def _condition(self) -> str:
        return f"{self._number()} {self._r.choice(('<', '>', '==', '!='))} {self._number()}"

    def _body(self, depth: int, length: int, loops: int) -> list[str]:
        found = [self._statement(depth, loops) for _ in range(self._r.randint(1, length))]
        return [line for lines in found for line in lines]

    def _statement(self, depth: int, loops: int) -> list[str]:
        r = self._r
        if depth == 0 or r.random() < 0.35:
            ways = [f"return {self._value()}", *(("break", "continue") if loops else ())]
            set_one = f"{r.choice('pqr')} = {self._number()} + i32(0)"
            return r.choice(
                ([set_one], [set_one], [f"if {self._condition()}:", f"    {r.choice(ways)}"])
            )
        self._fresh += 1
        i = f"i{self._fresh}"
        if r.random() < 0.4:
            inner = self._body(depth - 1, 2, loops)
            other = self._body(depth - 1, 2, loops) if r.random() < 0.5 else ["pass"]
            if r.random() < 0.4:
                inner.append(f"return {self._value()}")
            return [f"if {self._condition()}:", *_indented(inner), "else:", *_indented(other)]
        inner = self._body(depth - 1, 3, loops + 1)
        if r.random() < 0.5:
            return [f"for {i} in range(max(min({self._number()}, 4), -3)):", *_indented(inner)]
        head = r.choice((f"{i} < 3", f"{i} < 4 and {self._condition()}", "True"))
        count = [f"{i} += 1", f"if {i} > 3:", "    break"]
        return [f"{i} = 0", f"while {head}:", *_indented([*count, *inner])]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def random_kernel(random: Random, *, walked: bool = False) -> str:
    """The source text of a module with one kernel, `kernel`."""
    return RandomKernel(random, walked=walked).source
