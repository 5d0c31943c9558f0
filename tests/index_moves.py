"""Moves that take an index from one place to another, and uses in which it meets an axis.

A move says some lines and gives the name of the index behind them; the limits in it are right, one
too far, or another axis's.
"""

from __future__ import annotations

from random import Random

from index_kernels import LOOPS, IndexKernel

__all__ = ["moves_kernel"]


# --- moves: from one index to another -------------------------------------------------------------


def clamped(k: IndexKernel, t: str) -> str:
    """A ladder of minima and maxima."""
    text = t
    for _ in range(k.random.randint(1, 4)):
        text = k.pick(f"min({text}, {k.limit()})", f"max({text}, {k.pick('0', '0', '1', 'a')})")
    return k.bind(k.pick(text, f"max(0, min({t}, {k.limit()}))", f"min(max({text}, 0), b)"))


def divided(k: IndexKernel, t: str) -> str:
    """A quotient and a remainder, apart or together again."""
    by = k.small()
    quotient, rest = k.bind(f"{t} // ({by})"), k.bind(f"{t} % ({by})")
    return k.bind(k.pick(
        f"{quotient} * ({by}) + {rest}", quotient, rest, f"{rest} + {quotient}",
        f"({quotient} - 1) * ({by}) + {rest}", f"{rest} % 2 + {quotient} // 2",
    ))  # fmt: skip


def searched(k: IndexKernel, t: str) -> str:
    """An unrolled search."""
    low, high, middle = k.fresh("lo"), k.fresh("hi"), k.fresh("mid")
    k.say(f"{low}, {high} = {k.pick('0', '0', t)}, {k.limit()}")
    steps = k.pick("2", "3", "5", "S & 3")
    test = k.pick(f"ks[ks.clip({middle}, 0)].item() > {t}", f"{middle} > {t}", f"{middle} < b")

    def step() -> None:
        halves = (
            f"({low} + {high}) // 2",
            f"{low} + ({high} - {low}) // 2",
            f"({low} + {high}) >> 1",
        )
        k.say(f"{middle} = {k.pick(*halves)}")
        if k.random.random() < 0.5:
            k.say(f"if {test}:")
            k.say(f"    {high} = {middle}")
            k.say("else:")
            k.say(f"    {low} = {middle}{k.pick('', ' + 1')}")
        else:
            k.say(f"left = {test}")
            k.say(f"{low}, {high} = ({low} if left else {middle}), ({middle} if left else {high})")

    k.inside(f"for _ in tw.static_range({steps}):", step)
    k.names += [low, high]
    return k.pick(low, high)


def carried(k: IndexKernel, t: str) -> str:
    """A pointer that a `while` moves on."""
    at, turn = k.fresh("p"), k.fresh("n")
    k.say(f"{at}, {turn} = {t}, 0")
    onwards = k.pick(
        f"{at} + 1", f"{at} + {k.small()}", f"{at} * 2 + 1", f"{at} // 2", f"{at} - 1",
        f"min({at} + 2, {k.limit()})", f"ks[ks.clip({at}, 0)].item()",
    )  # fmt: skip
    guard = k.pick(f"{at} < {k.limit()}", f"{at} >= 0", k.condition(at), "True")

    def body() -> None:
        k.say(f"{turn} += 1")
        if k.random.random() < 0.4:
            k.say(f"if {k.condition(at)}:")
            k.say(f"    {k.pick('break', f'{at} += 1', 'acc += 1')}")
        if k.random.random() < 0.4:
            k.names.append(at)
            k.deeper()
        if k.random.random() < 0.3:
            k.read(at)
        k.say(f"{at} = {onwards}")

    k.loop(f"while {turn} < {k.pick('2', '3')} and ({guard}):", body)
    k.names.append(at)
    return at


def counted(k: IndexKernel, t: str) -> str:
    """A number that a `for` counts, or carries."""
    if k.loops >= LOOPS:
        return t
    i, total = k.fresh("j"), k.fresh("c")
    k.say(f"{total} = {k.pick('0', t, 'a')}")
    first = k.pick("", "", "0, ", "1, ", f"{t}, ", "-1, ")
    step = k.pick("", "", ", 2", ", 3") if first else ""
    last = k.pick(f"min({k.limit()}, 4)", f"min({k.limit()}, 5)", "3", f"min({t}, 3)")
    if first.startswith(t):
        last = f"min({t} + 2, {k.limit()})" if k.random.random() < 0.7 else f"min({t}, 2) + 1"
        first = f"max({t}, -2), "

    def body() -> None:
        if k.random.random() < 0.3:
            k.say(f"if {k.condition(i)}:")
            k.say(f"    {k.pick('continue', 'break')}")
        k.names += [i]
        k.say(f"{total} = {k.pick(f'{total} + {i}', f'max({total}, {i})', i, f'{i} - {total}')}")
        if k.random.random() < 0.5:
            k.read(k.pick(i, total, f"{i} + 1", f"{t} + {i}"))
        k.deeper()

    k.loop(f"for {i} in range({first}{last}{step}):", body)
    k.names.append(total)
    return total


def chosen(k: IndexKernel, t: str) -> str:
    """A branch that moves an index, or a ternary."""
    way = k.random.randrange(4)
    if way == 0:
        return k.bind(f"{t} + 1 if {k.condition(t)} else {k.random.choice(k.names)}")
    if way == 1:
        truth = k.fresh("ok")
        k.say(f"{truth} = {k.condition(t)}")
        k.truths.append(truth)
        return k.bind(f"{t} if {truth} else {k.pick('0', 'a', t + ' - 1')}")
    name = k.fresh()
    k.say(f"{name} = {t}")
    k.say(f"if {k.condition(t)}:")
    k.say(f"    {name} = {k.pick('0', f'{t} - 1', f'{t} + a', k.limit())}")
    if way == 3:
        k.say(f"elif {k.condition(t)}:")
        k.say(f"    {name} -= {k.small()}")
        k.say("else:")
        k.say(f"    {name} = {k.pick('b', f'-{t}', f'abs({t})')}")
    k.names.append(name)
    return name


def bitwise(k: IndexKernel, t: str) -> str:
    """Shifts, masks and signs."""
    return k.bind(k.pick(
        f"({t} >> 1) & 7", f"{t} & 3", f"{t} << {k.pick('1', '2')}", f"{t} ^ 3", f"-{t}",
        f"abs({t})", f"({t} << 1) >> 1", f"{t} | 1", f"({t} >> ({k.small()} & 31))",
        f"({t} & 15) - 8", f"-(-{t} // 2)", f"{t} - ({t} >> 31) * 4",
    ))  # fmt: skip


def resized(k: IndexKernel, t: str) -> str:
    """Other widths, with and without a sign."""
    wide = f"i32({t}).astype(i64)"
    return k.bind(k.pick(
        f"({wide} * 3 // 3).astype(i32)", f"({wide} + v).astype(i32)", f"(v % 5).astype(i32) + {t}",
        f"(i32({t}).astype(u32) // 2).astype(i32)", f"(i32({t}).astype(u32) + u).astype(i32)",
        f"(i32({t}).astype(u32) % 6).astype(i32)", f"i32({t}).astype(i8).astype(i32)",
        f"i32({t}).astype(u8).astype(i32)", f"i32({t}).astype(i16).astype(i32) + 1",
        f"(i32({t}).astype(u64) >> 1).astype(i32)", f"(u - i32({t}).astype(u32)).astype(i32)",
        f"tw.minimum(i32({t}).astype(u32), u).astype(i32)", "(u >> 3).astype(i32)",
        f"({wide} * {wide} % 7).astype(i32)",
    ))  # fmt: skip


def paired(k: IndexKernel, t: str) -> str:
    """Tuples that are exchanged."""
    pair = k.fresh("pair")
    k.say(f"{pair} = ({t}, {k.random.choice(k.names)})")
    for _ in range(k.random.randint(1, 2)):
        k.say(f"{pair} = ({pair}[1], {pair}[0] + 1) if {k.condition(t)} else {pair}")
    if k.random.random() < 0.5:
        first, second = k.fresh(), k.fresh()
        k.say(f"{first}, {second} = {pair}")
        k.names += [first, second]
        return first
    return k.bind(f"{pair}[{k.pick('0', '1')}]")


def helped(k: IndexKernel, t: str) -> str:
    """A helper with early returns, whose result says where something is, and whether."""
    name = k.fresh("seek")
    kind = k.random.randrange(3)
    if kind == 0:
        k.helpers.append(
            f"def {name}(t, n):\n    if t < 0:\n        return {k.pick('0', 't + 1')}\n"
            f"    if t >= n:\n        return {k.pick('n - 1', 'n', '0')}\n    return t"
        )
        return k.bind(f"{name}({t}, {k.limit()})")
    if kind == 1:
        k.helpers.append(
            f"def {name}(t, n, ks):\n    for i in range({k.pick('n', 'min(n, 4)')}):\n"
            f"        if i {k.pick('==', '>=')} t:\n            return i\n"
            f"    return {k.pick('-1', 't', '0')}"
        )
        return k.bind(f"{name}({t}, min({k.limit()}, 6), ks)")
    k.helpers.append(
        f"def {name}(t, n):\n    at, ok = t, 0 <= t\n    if ok and t {k.pick('<', '<=')} n:\n"
        f"        return at, True\n    return {k.pick('0', 'at')}, {k.pick('False', 'ok')}"
    )
    at, truth = k.fresh(), k.fresh("ok")
    k.say(f"{at}, {truth} = {name}({t}, {k.limit()})")
    k.names.append(at)
    k.truths.append(truth)
    return at


def required(k: IndexKernel, t: str) -> str:
    """A precondition of the launch."""
    k.say(f"tw.require({k.pick('a >= 0', 'b > 0', 'N == M', 'N % 4 == 0', 'a < b', 'M > 0')})")
    return t


MOVES = (
    clamped, clamped, divided, searched, carried, counted, counted, chosen, chosen, bitwise,
    resized, paired, helped, required,
)  # fmt: skip


# --- uses: where an index meets an axis -----------------------------------------------------------


def plainly(k: IndexKernel, t: str) -> None:
    k.read(k.pick(t, t, f"{t} + 1", f"{t} - 1"))


def guarded(k: IndexKernel, t: str) -> None:
    """Behind the right test, or nearly that."""
    text, count = k.axis()
    test = k.pick(
        f"0 <= {t} < {count}", f"0 <= {t} <= {count}", f"-1 <= {t} < {count}",
        f"{t} >= 0 and {t} < {k.limit()}", f"i32({t}).astype(u32) < ({count} + i32(0)).astype(u32)",
        f"not ({t} < 0) and not ({t} >= {count})", k.condition(t), f"0 <= {t} and {k.condition(t)}",
    )  # fmt: skip
    other, _ = k.axis()

    def access() -> None:
        k.say(f"acc += {text.format(i=t)}")
        if k.random.random() < 0.3:
            k.say(f"acc -= {other.format(i=t)}")
        k.deeper()

    if k.random.random() < 0.5:
        k.inside(f"if {test}:", access)
        if k.random.random() < 0.4:
            k.inside("else:", lambda: k.read(k.pick("0", t, "S", "a")))
    else:
        k.inside(f"if {k.condition()}:", lambda: k.inside(f"if {test}:", access))


def clipped(k: IndexKernel, t: str) -> None:
    whole = k.pick("xs", "ys", "ws", "hs")
    k.say(f"acc += {k.pick(whole, 'xs')}[{whole}.clip({t}, 0)]")


def by_element(k: IndexKernel, t: str) -> None:
    k.say(f"acc += x.gather(tw.arange(B) * {k.pick('1', '2', '0')} + i32({t}))")


def as_coordinates(k: IndexKernel, t: str) -> None:
    """A row and a column, from one number."""
    wide = k.pick("gs.num_tiles(1)", "max(gs.num_tiles(1), 1)", "ws.num_tiles(0)", "S")
    row, column = k.bind(f"{t} // max({wide}, 1)"), k.bind(f"{t} % max({wide}, 1)")
    test = k.pick(
        f"0 <= {t} < N * gs.num_tiles(1)", f"0 <= {row} < N and {column} < gs.num_tiles(1)",
        f"{row} >= 0 and {row} < N", f"0 <= {t} < N",
    )  # fmt: skip
    k.inside(f"if {test}:", lambda: k.say(f"acc += gs[{row}, {column}].reshape(B)"))


def leaving(k: IndexKernel, t: str) -> None:
    """Return where the index is wrong; what follows knows that it is not."""
    if k.walks or k.loops:
        guarded(k, t)
        return
    text, count = k.axis()
    test = k.pick(f"{t} < 0 or {t} >= {count}", f"{t} < 0", f"{t} >= {count}", k.condition(t))
    k.say(f"if {test}:")
    k.say("    z.store(acc)")
    k.say("    return")
    k.say(f"acc += {text.format(i=t)}")


def in_range(k: IndexKernel, t: str) -> None:
    """A loop over what two axes have in common, or do not."""
    if k.loops >= LOOPS:
        plainly(k, t)
        return
    i, (text, _), (_, count) = k.fresh("j"), k.axis(), k.axis()
    shift = k.pick("", "", f" - {t}", f" + {t}", " + 1")
    k.loop(
        f"for {i} in range({k.pick('', '1, ', 'max(a, 0), ')}min({count}, 4)):",
        lambda: k.say(f"acc += {text.format(i=i + shift)}"),
    )


USES = (
    plainly, guarded, guarded, guarded, clipped, by_element, as_coordinates, leaving, in_range,
)  # fmt: skip


def moves_kernel(random: Random) -> IndexKernel:
    """A kernel of all of them."""
    return IndexKernel(random, MOVES, USES)
