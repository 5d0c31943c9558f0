"""Random kernels made of moves: an index is started, moved around in a few ways, and used.

Not a grammar of expressions: each move is an idiom of real kernels (an unrolled search, a ladder of
clamps, a quotient and its remainder put together again, a pointer that a `while` carries, a range
test in one unsigned comparison), with its limits right, one too far, or swapped. So proofs succeed
about as often as they fail, and at the edge. Extents and scalars are drawn from the same edges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

__all__ = ["LOOPS", "IndexKernel", "Step"]

HEAD = """import tilewright as tw
from tilewright import Const, Mapped, Mut, Ref, i8, i16, i32, i64, u8, u32, u64
from tilewright.dims import B, C, M, N
"""
SIGNATURE = """
x: Ref[i32, N], y: Ref[i32, N], w: Ref[i32, M], g: Ref[i32, N, M], ids: Ref[i32, C],
    a: i32, b: i32, u: u32, v: i64, *, S: Const[int]
""".strip()
SETUP = (
    "xs, ys, ws = x.partition(B), y.partition(B), w.partition(B)",
    "gs, ks = g.partition(1, B), ids.partition(1)",
    "hs = x.windows(B, step=3)",
    "acc = tw.zeros((B,), i32)",
)
# What has tiles along one axis: how it is read at an index, and how many there are.
AXES = (
    ("xs[{i}]", "xs.num_tiles(0)"),
    ("ys[{i}]", "xs.num_tiles(0)"),
    ("ys[{i}]", "ys.num_tiles(0)"),
    ("ws[{i}]", "ws.num_tiles(0)"),
    ("hs[{i}]", "hs.num_tiles(0)"),
    ("tw.full((B,), ks[{i}].item(), i32)", "ks.num_tiles(0)"),
    ("tw.full((B,), ks[{i}].item(), i32)", "C"),
    ("gs[{i}, 0].reshape(B)", "N"),
    ("gs[0, {i}].reshape(B)", "gs.num_tiles(1)"),
)
LITERALS = (-3, -2, -1, 0, 0, 1, 1, 2, 3, 4, 5, 7, 8, 2**31 - 1, -(2**31))
LOOPS, DEEPEST = 3, 3  # loops around a line, and blocks

Step = Callable[["IndexKernel", str], Any]  # what is done with an index


class IndexKernel:
    """The text of one kernel."""

    def __init__(self, random: Random, moves: Sequence[Step], uses: Sequence[Step]) -> None:
        self.random = random
        self.moves, self.uses = moves, uses
        self.walks = random.random() < 0.25
        self._fresh = 0
        self._lines: list[str] = []
        self.helpers: list[str] = []
        self._depth = 1
        self.loops = 0
        self.names = ["a", "b"]  # i32 scalars that have a value here
        self.truths: list[str] = []

    def source(self) -> str:
        """The module."""
        for line in SETUP:
            self.say(line)
        if not self.walks:
            self.bind("z.index[0]")
        for _ in range(self.random.randint(1, 3)):
            self.course()
        self._finish()
        output = "Mapped[i32, B]" if self.walks else "Mut[i32, B]"
        body = "\n".join(self._lines)
        helpers = "".join(f"\n\n{helper}\n" for helper in self.helpers)
        entry = f"@tw.kernel\ndef k(z: {output}, {SIGNATURE}) -> None:"
        return f"{HEAD}{helpers}\n\n{entry}\n{body}\n"

    # --- text -------------------------------------------------------------------------------------

    def say(self, line: str) -> None:
        """One line."""
        self._lines.append("    " * self._depth + line)

    def fresh(self, stem: str = "t") -> str:
        """A new name."""
        self._fresh += 1
        return f"{stem}{self._fresh}"

    def bind(self, text: str) -> str:
        """A new scalar."""
        name = self.fresh()
        self.say(f"{name} = {text}")
        self.names.append(name)
        return name

    def inside(self, head: str, *bodies: Callable[[], None]) -> None:
        """A statement with a body; what is bound there is not seen behind it."""
        self.say(head)
        names, truths = [*self.names], [*self.truths]
        self._depth += 1
        before = len(self._lines)
        for body in bodies:
            body()
        if len(self._lines) == before:
            self.say("pass")
        self._depth -= 1
        self.names, self.truths = names, truths

    # --- parts ------------------------------------------------------------------------------------

    def pick(self, *choices: str) -> str:
        """One of some texts."""
        return self.random.choice(choices)

    def axis(self) -> tuple[str, str]:
        """How something is read, and how much there is of it."""
        return self.random.choice(AXES)

    def limit(self) -> str:
        """A number that some axis ends at, or about there."""
        _, count = self.axis()
        return self.pick(count, count, f"{count} - 1", f"({count} + 1)", "N", "M", "C", "S", "b")

    def small(self) -> str:
        """A small number, mostly a literal."""
        return self.pick(*(str(n) for n in (1, 2, 2, 3, 4, 7)), "S", "max(b, 1)", "(a & 3) + 1")

    def start(self) -> str:
        """Where an index comes from."""
        old = self.random.choice(self.names)
        literal = str(self.random.choice(LITERALS))
        memory = f"ks[ks.clip({old}, 0)].item()"
        return self.pick(
            old, old, f"{old} + {literal}", f"i32({literal})", "u.astype(i32)", "v.astype(i32)",
            memory, f"x.gather(i32({old}))", "S + a", "N - b", "xs.num_tiles(0) - a",
            "z.tile[0] * a" if not self.walks else "B * a", f"{old} * {self.small()}",
        )  # fmt: skip

    def condition(self, name: str | None = None) -> str:
        """Something about an index, or not."""
        t, limit = name or self.random.choice(self.names), self.limit()
        found = self.pick(
            f"0 <= {t} < {limit}", f"{t} >= 0 and {t} < {limit}", f"{t} < {limit}", f"{t} >= 0",
            f"not ({t} < 0 or {t} >= {limit})", f"{t} != {limit}", f"{t} % 2 == 0",
            f"i32({t}).astype(u32) < ({limit} + i32(0)).astype(u32)",
            f"i32({t}).astype(i64) * 2 < ({limit} + i32(0)).astype(i64)",
            f"-1 < {t} <= {limit}", f"{t} > {limit} or {t} == 0", "u < 3", "v > 0", "a < b",
        )  # fmt: skip
        if self.truths and self.random.random() < 0.3:
            truth = self.random.choice(self.truths)
            return self.pick(truth, f"({truth} and {found})", f"({found} if {truth} else a > 0)")
        return f"({found})"

    # --- programs ---------------------------------------------------------------------------------

    def course(self) -> None:
        """Start an index, move it, and use it."""
        name = self.bind(self.start())
        for _ in range(self.random.randint(0, 3)):
            name = self.random.choice(self.moves)(self, name)
        self.random.choice(self.uses)(self, name)

    def deeper(self) -> None:
        """A course inside a branch or a loop, if there is room for it."""
        if self._depth < DEEPEST and self.random.random() < 0.5:
            self.course()

    def read(self, name: str) -> None:
        """Use an index as it is."""
        text, _ = self.axis()
        self.say(f"acc += {text.format(i=name)}")

    def loop(self, head: str, *bodies: Callable[[], None]) -> None:
        """A loop, of which few lie inside each other."""
        self.loops += 1
        self.inside(head, *bodies)
        self.loops -= 1

    def _finish(self) -> None:
        if not self.walks:
            if self.random.random() < 0.3:
                self.say("parts = z.partition(2)")
                self.inside(
                    f"for part in range({self.pick('parts.num_tiles(0)', '2', '1')}):",
                    lambda: self.say("parts.store(tw.full((2,), tw.sum(acc), i32), part)"),
                )
            else:
                self.say("z.store(acc)")
            return
        ends = self.pick("a, b", "0, b", f"a, {self.limit()}", "-2, 9", "b, b + 2", "a, a + 1")
        walk = self.pick("z.indices()", f"z.indices_within(({ends}))")
        self.loop(f"for at in {walk}:", self._step_of_walk)

    def _step_of_walk(self) -> None:
        self.names.append(self.fresh())
        self.say(f"{self.names[-1]} = at[0]")
        if self.random.random() < 0.5:
            self.course()
        self.say("z.store(acc, at)")
