"""`assert` and `print`: what a kernel tells, and that telling changes nothing."""

# ruff: noqa: T201

import numpy as np
import pytest
from running import run

import tilewright as tw
from tilewright import Mapped, Mut, Ref, f16, f32, i8, i32, i64, u8, u64
from tilewright.dims import B, N

LIMIT = 3
FORMS = pytest.mark.parametrize("form", [None, tw.ReportForm.IN_PLACE, tw.ReportForm.AUDIT])


# --- assert ---------------------------------------------------------------------------------------


def line_of(kernel, text):
    lines = enumerate(kernel.source.file.lines, start=1)
    return next(number for number, line in lines if text in line)


@FORMS
def test_a_false_assertion_is_reported_with_its_place(form):
    @tw.kernel(report=form, deny_checks=True)
    def limited(z: Mut[i32, B], n: i32) -> None:
        for i in range(n):
            assert i < LIMIT + z.index[0], f"more than {LIMIT} turns"
        z.store(tw.full((B,), n, i32))

    assert (run(limited, ((8,), i32), 4, 3) == 3).all()
    with pytest.raises(tw.KernelAssertionError) as one:
        run(limited, ((8,), i32), 4, 4)
    assert one.value.message == "assertion failed: more than 3 turns"
    assert one.value.block == (0,)
    assert one.value.line == line_of(limited, "assert i < LIMIT")
    assert str(one.value).endswith("in block (0,) of kernel `limited`")


@FORMS
def test_an_assertion_that_is_not_reached_says_nothing(form):
    @tw.kernel(report=form)
    def careful(z: Mut[i32, B], x: Ref[i32, N], n: i32) -> None:
        t = x.load_like(z)
        z.store(t)
        if n > 2:
            return
        i = 0
        while i < n:
            i += 1
            if i == 2:
                continue
            assert i < 2
        assert t < 10, "large"
        assert tw.sum(t) + n

    x = np.arange(8, dtype=np.int32)
    for n in (2, 3):
        np.testing.assert_array_equal(run(careful, ((8,), i32), 4, x, n), x)
    with pytest.raises(tw.KernelAssertionError, match="large, in block"):
        run(careful, ((8,), i32), 4, x + 3, 0)
    with pytest.raises(tw.KernelAssertionError, match=r"tw.sum\(t\) \+ n, in block \(0,\)"):
        run(careful, ((8,), i32), 8, x * 0, 0)


def test_an_assertion_stops_nothing_and_proves_nothing():
    @tw.kernel
    def trusting(z: Mut[i32, B], x: Ref[i32, N], n: i32, other: Ref[i32, N]) -> None:
        i = x.partition(1)[0].item()
        assert 0 <= i < 2, "out of range"
        z.store(other.partition(B)[i])

    x = np.array([1, 5, 6, 7], np.int32)
    np.testing.assert_array_equal(run(trusting, ((2,), i32), 2, x, 0, x), [6, 7])
    with pytest.raises(tw.KernelFailure, match="out of range"):  # the first that failed
        run(trusting, ((2,), i32), 2, x + 8, 0, x)


def test_assertions_known_now():
    @tw.kernel
    def known(z: Mut[i32, B], n: i32) -> None:
        assert B == 4, "never looked at again"
        if n > 3:
            assert False, "n is large"  # noqa: B011, PT015
        z.store(tw.zeros((B,), i32))

    run(known, ((4,), i32), 4, 3)
    with pytest.raises(tw.KernelAssertionError, match="n is large"):
        run(known, ((4,), i32), 4, 4)


def test_assertions_in_a_walk():
    @tw.kernel
    def walked(z: Mapped[i32, B], last: i32) -> None:
        for at in z.indices():
            z.store(tw.full((B,), 1, i32), at)
            assert at[0] <= last

    z = tw.zeros((20,), i32)
    walked(z.partition(4).persistent(blocks=2), 4).sync()
    with pytest.raises(tw.KernelAssertionError, match=r"at\[0\] <= last"):
        walked(z.partition(4).persistent(blocks=2), 3).sync()


# --- print ----------------------------------------------------------------------------------------


def printed(capsys, kernel, *arguments, length=4):
    run(kernel, ((length,), i32), 4, *arguments)
    return capsys.readouterr().out


def test_values_of_every_kind(capsys):
    @tw.kernel
    def show(z: Mut[i32, B], n: i32, x: f32) -> None:
        t = tw.arange(B)
        print("n is", n, "and t", t, "100%")
        print(f"{n}|{n:5d}|{n:05d}|{x:.2f}|{x:8.3e}|{x}|{t:2d}|{B:>4}|{n!r}|{LIMIT=}")
        print(n.astype(i64) * 2**40, n.astype(i8), n.astype(u8), n.astype(u64) << 33, n > 2)
        print(x.astype(f16), (n, (x, "in")), i32, sep=", ", end=".\n")
        print(*(1, n), None)
        print()
        z.store(t)

    assert printed(capsys, show, 3, 0.5).splitlines() == [
        "n is 3 and t [0, 1, 2, 3] 100%",
        "3|    3|00003|0.50|5.000e-01|0.5|[ 0,  1,  2,  3]|   4|3|LIMIT=3",
        f"{3 * 2**40} 3 3 {3 << 33} 1",
        "0.5, (3, (0.5, in)), i32.",
        "1 3 None",
        "",
    ]


def test_functions_of_python_take_tuples_apart(capsys):
    @tw.kernel
    def spread(z: Mut[i32, B], n: i32, m: i32) -> None:
        p = (n, m)
        total = 0
        for i in range(*p):
            total += i
        for i in range(n, *(50, m)):
            total += 100 * i
        print(max(*p), min(0, *p), abs(*(n,)), i32(*(m,)), *divmod(*(m, n)), total)
        z.store(tw.zeros((B,), i32))

    total = sum(range(3, 8)) + 100 * sum(range(3, 50, 8))
    assert printed(capsys, spread, 3, 8) == f"8 0 3 8 2 2 {total}\n"


def test_functions_without_a_name_of_their_own_are_named_as_they_are_called():
    @tw.kernel
    def several(z: Mut[i32, B], n: i32) -> None:
        print((abs, 1)[0](n, n))
        z.store(tw.zeros((B,), i32))

    with pytest.raises(tw.CompileError, match=r"`\(abs, 1\)\[0\]`: it takes one value, not 2"):
        run(several, ((4,), i32), 4, 5)


def test_the_order_is_that_of_the_program(capsys):
    @tw.kernel
    def count(z: Mut[i32, B], n: i32) -> None:
        i = 0
        while True:
            print("turn", i)
            if i == n:
                print("end")
                break
            i += 1
        print("after", i) if n > 1 else print("few")
        z.store(tw.zeros((B,), i32))

    assert printed(capsys, count, 2).split("\n") == [
        "turn 0", "turn 1", "turn 2", "end", "after 2", "",
    ]  # fmt: skip
    assert printed(capsys, count, 0) == "turn 0\nend\nfew\n"


def test_each_block_prints(capsys):
    @tw.kernel
    def blocks(z: Mut[i32, B]) -> None:
        print("block", z.index[0])
        z.store(tw.zeros((B,), i32))

    assert sorted(printed(capsys, blocks, length=12).split("\n")) == [
        "", "block 0", "block 1", "block 2",
    ]  # fmt: skip
