"""Random functions for kernels to call, as source text: they return from anywhere.

Loops are short and every path returns a value; what is read may lie outside its axis.
"""

from random import Random

__all__ = ["RandomHelper"]

_HELPER_NUMBERS = (
    "p", "q", "r", "r", "(p + q)", "(r - p)", "(q * 2)", "max(p, q)", "1", "-2", "5",
    "s[0]", "s[1]",
)  # fmt: skip

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
        first = ["r = p", "s = p + i32(0), q - i32(0)"]
        return [f"def {name}({parameters}):", *_indented([*first, *body])]

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
            form = r.choice(("{} = {} + i32(0)", "s = s[1], {1} - s[0]"))
            set_one = form.format(r.choice("pqr"), self._number())
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
        if r.random() < 0.2:  # unrolled
            return [f"for {i} in (1, {self._number()}, r):", *_indented([f"r += {i}", *inner])]
        if r.random() < 0.5:
            return [f"for {i} in range(max(min({self._number()}, 4), -3)):", *_indented(inner)]
        head = r.choice((f"{i} < 3", f"{i} < 4 and {self._condition()}", "True"))
        count = [f"{i} += 1", f"if {i} > 3:", "    break"]
        return [f"{i} = 0", f"while {head}:", *_indented([*count, *inner])]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
