"""Random safe kernels as source text: loops, branches, index arithmetic, pieces and their parts.

Every name that a statement uses has a value there, loops are short, and shapes fit; whether an
index lies inside its axis is left to chance.
"""

import re
from collections.abc import Callable
from enum import Enum
from random import Random
from string import Formatter

from random_functions import RandomHelper

__all__ = ["Output", "RandomKernel", "random_kernel"]

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
    "{cut}.clip({one}, 0)", "ws.clip({one}, 0)", "{cut}.clip(w, 0)", "x.gather(i32({one})).item()",
    "m.gather(i32({one}), i32({other})).item()", "tw.sum(ws[{one}])", "tw.sum({cut}[w])",
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
    "ws[{scalar}]", "ws[ws.clip({scalar}, 0)]", "xs[w]", "ys[u]", "x.gather({one})",
    "x.gather(tw.arange(B) * 2 + i32({scalar}), mask={one} > 0)", "m.gather({one}, {other} % 3)",
    "m.gather(i32({scalar}), tw.arange(B), padding=7)", "{cut}[i32({scalar}).astype(i64) * 3]",
)  # fmt: skip
# An index that is not brought back, or a divisor that may be zero.
_MAY_FAIL = re.compile(r"[sx]\[(\{|w|u|i32)|\}\[(w|i32)|(//|%) \{other\}|seek")
_RANGES = ("(a, b)", "(0, b)", "(b, N)", "(-2, 9)", "(1, C + 1)", "(b, b + 2)", "(a, a)")


class Output(Enum):
    """How the kernel's output is cut."""

    PIECES = "Mut[i32, B]"
    WALKED = "Mapped[i32, B]"
    WHOLE = "Mut[i32, All]"

    @property
    def is_walked(self) -> bool:
        """Whether blocks walk it."""
        return self is Output.WALKED


class RandomKernel:
    """The text of one kernel, built line by line."""

    def __init__(self, random: Random, output: Output) -> None:
        self._r = random
        self._output = output
        self._fresh = 0
        self._lines: list[str] = []
        self._depth = 1
        self._scalars = ["a", "b", "N", "M", "C", "w.astype(i32)"]
        self._tiles: list[str] = []
        self._counters: list[str] = []
        self._loops = 0  # around the current line
        self._careful = random.random() < 0.5  # clips what it indexes with
        self.source = self._kernel()

    # --- text ---

    def _say(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    def _name(self, prefix: str) -> str:
        self._fresh += 1
        return f"{prefix}{self._fresh}"

    def _kernel(self) -> str:
        self._say("xs = x.partition(B)")
        self._say("ys = y.partition(B)")
        self._say(f"ms = m.partition(B, {PART})")
        self._say("ps = xs if C > 1 else ys")
        self._say("ws = x.windows(B, step=3)")
        self._say("t0 = tw.full((B,), a, i32)")
        self._say("s0 = 0")
        self._tiles.append("t0")
        self._scalars.append("s0")
        _BODIES[self._output](self)
        head = (
            f"def kernel(z: {self._output.value}, acc: Accum[i32, L], x: Ref[i32, N], "
            "y: Ref[i32, M], m: Ref[i32, N, M], ids: Ref[i32, K], a: i32, b: i32, u: u32, w: i64, "
            f"flag: bool_, *, C: Const[int], B: Const[int] = {TILE}) -> None:"
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

    def walked_body(self) -> None:
        """Visit the tiles of the output, or some of them."""
        self._body(2)
        within = self._r.random() < 0.4
        walk = f"indices_within({self._r.choice(_RANGES)})" if within else "indices()"
        self._say(f"for at in z.{walk}:")
        self._depth += 1
        self._loops += 1
        self._scalars.append("at[0]")
        self._body(self._r.randint(1, 4))
        self._say(f"z.store({self._tile()}, at)")
        self._depth -= 1
        self._loops -= 1
        self._scalars.remove("at[0]")

    def pieces_body(self) -> None:
        """Store the piece, and parts of it."""
        self._say(f"zs = z.partition({PART})")
        self._scalars.append("z.index[0]")
        self._body(self._r.randint(2, 6))
        self._say(f"z.store({self._tile()} + z.load())")
        self._body(self._r.randint(0, 3))

    def whole_body(self) -> None:
        """Store an axis of any extent part by part."""
        self._say(f"zs = z.partition({PART})")
        self._body(self._r.randint(2, 5))
        self._say("for part in range(zs.num_tiles(0)):")
        self._depth += 1
        self._loops += 1
        self._scalars.append("part")
        self._body(self._r.randint(0, 2))
        self._say(f"zs.store(zs[part] + tw.full(({PART},), {self._scalar()}, i32), part)")
        self._depth -= 1
        self._loops -= 1
        self._scalars.remove("part")

    def _helpers(self) -> list[str]:
        """Functions that return from the middle of branches and loops."""
        inner = RandomHelper(self._r)
        less = ["def less(pair):", "    first, second = pair", "    return first - second"]
        return [*inner.lines("seek", "{one}"), *inner.lines("steps", "{one}, {other}"), *less]

    # --- expressions ---

    def _forms(self, forms: tuple[str, ...]) -> tuple[str, ...]:
        """The forms to choose from: of a careful kernel those that stay inside."""
        if not self._careful:
            return forms
        return tuple(form for form in forms if not _MAY_FAIL.search(form))

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
        return self._filled(
            r.choice(self._forms(_SCALARS)), lambda: self._scalar(depth - 1), depth - 1
        )

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
        return self._filled(r.choice(self._forms(_TILES)), lambda: self._tile(depth - 1), depth)

    # --- statements ---

    def _body(self, length: int) -> None:
        for _ in range(length):
            self._statement()

    def _statement(self) -> None:
        r = self._r
        kinds = [self._set_scalar, self._set_tile, self._change, self._leave, self._accumulate]
        weights = [3, 3, 3, 1, 1]
        if not self._output.is_walked:
            kinds += [self._store_part, self._load_part]
            weights += [2, 2]
        if self._output is Output.PIECES:
            kinds += [self._store_piece]
            weights += [1]
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
        there = 3 if self._output.is_walked else 4
        bound = r.choice((*counts[:there], "3", f"min({self._scalar(1)}, 4)"))
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

    def _accumulate(self) -> None:
        place = f"clip({{1}}, tw.cdiv(L, {PART}))" if self._careful else "{1}"
        form = self._r.choice(
            (f"acc.add(tw.full(({PART},), {{0}}, i32), {place})", "acc.add_at({2}, {3})",
             "acc.add_at({2}, {3} % 5, mask={2} > i32({0}))", "acc.add_at(i32({0}), i32({1}))")
        )  # fmt: skip
        self._say(form.format(self._scalar(1), self._scalar(1), self._tile(1), self._tile(1)))

    def _store_piece(self) -> None:
        form = self._r.choice(
            ("z.store({0})", "z.store({0}) if {1} else z.store({2})", "{1} and z.store({0})")
        )
        self._say(form.format(self._tile(), self._condition(), self._tile()))

    def _store_part(self) -> None:
        index = self._part()
        self._say(f"zs.store(tw.full(({PART},), {self._scalar(1)}, i32), {index})")

    def _part(self) -> str:
        """The index of a part of the output."""
        inside = ("clip({}, zs.num_tiles(0))", "0", "zs.num_tiles(0) - 1")
        form = self._r.choice(inside if self._careful else (*inside[1:], "{}"))
        return form.format(self._scalar(1))

    def _load_part(self) -> None:
        own = [name for name in self._scalars if name.startswith("s")]
        index = self._part()
        self._say(f"{self._r.choice(own)} = tw.sum(zs[{index}])")


_BODIES: dict[Output, Callable[[RandomKernel], None]] = {
    Output.PIECES: RandomKernel.pieces_body,
    Output.WALKED: RandomKernel.walked_body,
    Output.WHOLE: RandomKernel.whole_body,
}


def random_kernel(random: Random, output: Output) -> str:
    """The source text of a module with one kernel, `kernel`."""
    return RandomKernel(random, output).source
