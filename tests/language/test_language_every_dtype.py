"""Every function and operator with every dtype it takes, against numbers computed otherwise.

Of 8-bit integers all values, and all pairs of them; of floats of 16 bits all values; of wider ones
the ends, powers of two and numbers at random. What a function does not take is refused.
"""

import itertools
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from function_cases import (
    ALONG_ROWS,
    BITS,
    ELEMENTWISE,
    ELSEWHERE,
    FLOATS,
    INTEGERS,
    OPERATORS,
    STORED,
)
from running import run

import tilewright as tw
from tilewright import AnyDType, Mut, Ref, bf16, bool_, f16, f64
from tilewright.dims import BM, BN, B, M, N
from tilewright.dtypes import limits, numpy_dtype
from tilewright.lang import functions
from tilewright.lang.builtin import Builtin

PIECE = 1 << 14
EXPLICIT = ("__matmul__", "__getitem__")  # tested by test_language_matrices and …_shapes


class TX(AnyDType): ...


class TZ(AnyDType): ...


def test_every_function_has_a_case():
    tables = [*ELEMENTWISE, *ALONG_ROWS, *ELSEWHERE]
    assert sorted(function.name for function in tables) == sorted(functions.__all__)
    for function, name in ELSEWHERE.items():
        assert f"tw.{function.name}(" in (Path(__file__).parent / f"{name}.py").read_text()


def test_every_operator_has_a_case():
    methods = {
        name
        for name, method in vars(tw.Tile).items()
        if name.startswith("__") and callable(method) and not name.startswith(("__r", "__init"))
    }
    methods |= {"__rshift__"}
    reflected = {f"__{name}__" for name in ("class_getitem", "hash", "parameters", "orig_bases")}
    assert methods - reflected - set(EXPLICIT) == set(OPERATORS)


# --- values ---------------------------------------------------------------------------------------


def every_value(dtype) -> np.ndarray:
    """All numbers of a dtype of at most 16 bits that is no wide integer."""
    kind = numpy_dtype(dtype)
    if dtype is bool_:
        return np.array([False, True])
    return np.arange(1 << dtype.element.bits).astype(f"u{kind.itemsize}").view(kind)


def chosen_values(dtype, count: int) -> np.ndarray:
    """Ends, small numbers, powers of two and numbers at random."""
    kind, generator = numpy_dtype(dtype), np.random.default_rng(dtype.element.bits)
    if dtype.element.is_integer:
        low, high = map(int, limits(dtype))
        powers = [sign * (1 << n) for n in range(dtype.element.bits) for sign in (1, -1)]
        some = [low, low + 1, low // 2, 0, 3, 5, 7, 10, -3, -7, high // 2, high - 1, high, *powers]
        fitting = [number for number in some if low <= number <= high]
        at_random = generator.integers(low, high, count, dtype=kind, endpoint=True)
        return np.concatenate([np.array(fitting, kind), at_random])
    info = ml_dtypes.finfo(kind)
    ends = [float(info.max), float(info.tiny), float(info.smallest_subnormal), float(info.eps)]
    some = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.75, 100.0, 0.1, np.pi, np.inf, *ends]
    near = generator.uniform(-8, 8, count)
    far = 2.0 ** generator.uniform(-20, 14, count) * generator.choice([-1, 1], count)
    with np.errstate(over="ignore"):
        return np.array([*some, *(-n for n in some), np.nan, *near, *far]).astype(kind)


def operands_of(case, dtype) -> list[np.ndarray]:
    """As many arrays as a function has operands."""
    if dtype is bool_ or dtype.element.bits == 8:
        sides = [every_value(dtype)] * min(case.arity, 2)
    elif case.arity == 1:
        few = dtype in (f16, bf16)
        sides = [every_value(dtype) if few else chosen_values(dtype, 2000)]
    else:
        sides = [chosen_values(dtype, 60)] * 2
    arrays = [side.ravel() for side in np.meshgrid(*sides)]
    if case.arity == 3:
        arrays.append(np.random.default_rng(3).permutation(arrays[0]))
    with np.errstate(all="ignore"):
        kept = case.is_defined(*(wide(array) for array in arrays))
    return [np.ascontiguousarray(array[kept]) for array in arrays]


def wide(array: np.ndarray) -> np.ndarray:
    """Floats in a dtype with twice the precision or the most there is; integers as they are."""
    if array.dtype.kind in "iub":
        return array
    with np.errstate(invalid="ignore"):  # of NaN, which stays one
        return array.astype(np.longdouble if array.dtype == np.float64 else np.float64)


def wrapped(numbers: list[int], dtype) -> np.ndarray:
    """Python integers as a dtype holds them: their low bits."""
    kind = numpy_dtype(dtype)
    if dtype is bool_:
        return np.array(numbers, bool)
    mask = (1 << dtype.element.bits) - 1
    low = np.array([number & mask for number in numbers], np.uint64)
    return low.astype(f"u{kind.itemsize}").view(kind)


# --- every element --------------------------------------------------------------------------------


@cache
def kernel_of(call, arity):
    """A kernel that applies a function to one, two or three tiles."""

    @tw.kernel
    def one(z: Mut[TZ, B], x: Ref[TX, N]) -> None:
        z.store(call(x.load_like(z)))

    @tw.kernel
    def two(z: Mut[TZ, B], x: Ref[TX, N], y: Ref[TX, N]) -> None:
        z.store(call(x.load_like(z), y.load_like(z)))

    @tw.kernel
    def three(z: Mut[TZ, B], x: Ref[TX, N], y: Ref[TX, N], w: Ref[TX, N]) -> None:
        z.store(call(x.load_like(z), y.load_like(z), w.load_like(z)))

    return (one, two, three)[arity - 1]


def launched(call, arity, arrays, gives) -> np.ndarray:
    """What a function of tiles gives for some arrays."""
    # The rest of the last piece is padding, by which nothing may be divided.
    length = arrays[0].size
    filled = [np.resize(array, -(-length // PIECE) * PIECE) for array in arrays]
    return run(kernel_of(call, arity), (filled[0].shape, gives), PIECE, *filled)[:length]


def assert_exact(case, dtype, arrays, got) -> None:
    meaning = case.exact
    if meaning is None:  # mulhi
        bits = dtype.element.bits
        meaning = lambda a, b: (a * b) >> bits  # noqa: E731
    numbers = zip(*(array.tolist() for array in arrays), strict=True)
    wanted = wrapped([meaning(*each) for each in numbers], case.gives or dtype)
    np.testing.assert_array_equal(got, wanted)


def assert_real(case, dtype, arrays, got) -> None:
    with np.errstate(all="ignore"):
        # Rounded twice a number may differ from one that is rounded once; NumPy's f64 is exact too.
        is_plain = dtype is f64 and not case.ulps
        exact = case.real(*(array if is_plain else wide(array) for array in arrays))
        if case.gives is not None:
            np.testing.assert_array_equal(got, exact)
            return
        kind = numpy_dtype(dtype)
        wanted = exact.astype(kind)
    assert_near(got, wanted, exact, case.ulps)
    if not case.has_open_zero:
        zeros = (wide(wanted) == 0) & (wide(got) == 0)
        np.testing.assert_array_equal(np.signbit(wide(got))[zeros], np.signbit(wide(wanted))[zeros])


def assert_near(got, wanted, exact, ulps) -> None:
    """Equal, or within units of the last place of what is exact."""
    got_wide, wanted_wide = wide(got), wide(wanted)
    same = (got_wide == wanted_wide) | (np.isnan(got_wide) & np.isnan(wanted_wide))
    info = ml_dtypes.finfo(got.dtype)
    with np.errstate(all="ignore"):
        unit = np.maximum(2.0 ** np.floor(np.log2(np.abs(exact))), float(info.tiny))
        error = np.abs(got_wide - exact) / (unit * float(info.eps))
    bad = ~same & ~(error <= ulps)
    assert not bad.any(), f"{bad.sum()} of {bad.size}: {got[bad][:5]}, not {exact[bad][:5]}"


CASES = {f"tw.{function.name}": case for function, case in ELEMENTWISE.items()} | OPERATORS


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name, case in CASES.items() for dtype in case.takes],
    ids=lambda it: it if isinstance(it, str) else it.label,
)
def test_every_element(name, dtype):
    case = CASES[name]
    arrays = operands_of(case, dtype)
    got = launched(case.call, case.arity, arrays, case.gives or dtype)
    (assert_exact if dtype in BITS else assert_real)(case, dtype, arrays, got)


@pytest.mark.parametrize("name", CASES)
def test_other_dtypes_are_refused(name):
    case = CASES[name]
    for dtype in set(STORED) - set(case.takes):
        arrays = [every_value(dtype)[:2] if dtype is bool_ else np.ones(2, numpy_dtype(dtype))]
        with pytest.raises(tw.CompileError):
            launched(case.call, case.arity, arrays * case.arity, case.gives or dtype)


# --- scalars and compile-time numbers -------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.label)
def test_cdiv_of_scalars_and_of_numbers_beside_tiles(dtype):
    @tw.kernel
    def divided(z: Mut[TZ, B], x: Ref[TZ, N], a: TZ, b: TZ) -> None:
        tile = tw.cdiv(x.load_like(z), 2) + tw.cdiv(100, b)
        z.store(tile + tw.cdiv(a, b) + tw.cdiv(a, 7) + tw.cdiv(7, 2))

    low, high = map(int, limits(dtype))
    x = np.resize(np.array([low, low + 1, 0, 1, 7, high - 1, high], numpy_dtype(dtype)), 16)
    for a, b in itertools.product((low, 0, 1, 7, high), (low or 1, 2, 3, high)):
        got = run(divided, ((16,), dtype), 16, x, a, b)
        rest = -(-100 // b) - (-a // b) - (-a // 7) + 4
        wanted = wrapped([-(-n // 2) + rest for n in x.tolist()], dtype)
        np.testing.assert_array_equal(got, wanted)


# --- along an axis --------------------------------------------------------------------------------


def rows_of(function, dtype) -> np.ndarray:
    """Rows of 16: all 8-bit numbers, or some; of floats those whose sums and products are exact."""
    generator = np.random.default_rng(5)
    if dtype in FLOATS:
        is_product = function in (tw.prod, tw.cumprod)
        choices = [1.0, -1.0, 2.0, 0.5] if is_product else np.arange(-8.0, 9.0)
        return generator.choice(np.array(choices), (16, 16)).astype(numpy_dtype(dtype))
    some = every_value(dtype) if dtype.element.bits <= 8 else chosen_values(dtype, 256)
    return np.resize(generator.permutation(some), (16, 16))


@cache
def row_kernel(call, keeps_axis):
    @tw.kernel
    def reduced(z: Mut[TZ, BM], x: Ref[TX, M, N]) -> None:
        z.store(call(x.partition(BM, 16)[z.index[0], 0], 1))

    @tw.kernel
    def scanned(z: Mut[TZ, BM, BN], x: Ref[TX, M, N]) -> None:
        z.store(call(x.load_like(z), 1))

    return scanned if keeps_axis else reduced


@pytest.mark.parametrize(
    ("function", "dtype"),
    [(function, dtype) for function, case in ALONG_ROWS.items() for dtype in case.takes],
    ids=lambda it: it.name if isinstance(it, Builtin) else it.label,
)
def test_along_an_axis(function, dtype):
    case = ALONG_ROWS[function]
    x, gives = rows_of(function, dtype), case.gives or dtype
    shape = (16, 16) if case.keeps_axis else (16,)
    got = run(row_kernel(case.call, case.keeps_axis), (shape, gives), shape, x)
    rows = [case.meaning(row) for row in x.tolist()]
    if gives in BITS:
        numbers = [n for row in rows for n in (row if case.keeps_axis else [row])]
        rows = wrapped(numbers, gives).reshape(shape)
    np.testing.assert_array_equal(got, np.array(rows).astype(numpy_dtype(gives)))


# --- made, put together and read as other elements ------------------------------------------------


@pytest.mark.parametrize("dtype", STORED, ids=lambda d: d.label)
def test_shapes_of_every_dtype(dtype):
    @tw.kernel
    def turned(z: Mut[TZ, B], x: Ref[TZ, N]) -> None:
        whole = x.load_like(z)  # the halves exchanged, by way of every function
        first, second = tw.extract(whole, 0, B // 2), tw.extract(whole, 1, B // 2)
        exchanged = tw.insert(tw.cat((second, second)), first, 1)
        z.store(exchanged.reshape(2, B // 2).permute(1, 0).T.reshape(B))

    x = every_value(dtype) if dtype.element.bits == 8 else chosen_values_or_bits(dtype)
    got = run(turned, (x.shape, dtype), x.size, x)
    bits = f"u{x.dtype.itemsize}"
    np.testing.assert_array_equal(got.view(bits), np.roll(x, x.size // 2).view(bits))


def chosen_values_or_bits(dtype) -> np.ndarray:
    return np.resize(every_value(dtype) if dtype is bool_ else chosen_values(dtype, 64), 128)


@pytest.mark.parametrize("dtype", STORED, ids=lambda d: d.label)
def test_halves_of_every_dtype(dtype):
    @tw.kernel
    def halved(z: Mut[TZ, BM, BN], x: Ref[TZ, M, N]) -> None:
        first, second = tw.split(x.load_like(z))
        evens, odds = tw.split(tw.join(second, first), 0, interleaved=True)
        z.store(tw.join(odds, evens, axis=0, interleaved=True))

    x = chosen_values_or_bits(dtype).reshape(16, 8)
    got = run(halved, (x.shape, dtype), x.shape, x)
    wanted = np.empty_like(x)
    wanted[::2], wanted[1::2] = np.roll(x, 4, 1)[1::2], np.roll(x, 4, 1)[::2]
    bits = f"u{x.dtype.itemsize}"
    np.testing.assert_array_equal(got.view(bits), wanted.view(bits))


@pytest.mark.parametrize("dtype", STORED, ids=lambda d: d.label)
def test_creation_of_every_dtype(dtype):
    @tw.kernel
    def made(z: Mut[TZ, B]) -> None:
        z.store(tw.where(tw.arange(B) < 4, tw.zeros(B, TZ), tw.full(B, 1, TZ)))

    @tw.kernel
    def counted(z: Mut[TZ, B]) -> None:
        z.store(tw.where(tw.arange(B) < 4, tw.ones(B, TZ), tw.arange(B, TZ)))

    if dtype is tw.f8e8m0fnu:  # it has no zero
        with pytest.raises(tw.CompileError, match="0 does not fit"):
            run(made, ((8,), dtype), 8)
        return
    got = run(made, ((8,), dtype), 8).astype(np.float64)
    np.testing.assert_array_equal(got, [0, 0, 0, 0, 1, 1, 1, 1])
    if dtype is not bool_:
        got = run(counted, ((8,), dtype), 8).astype(np.float64)
        np.testing.assert_array_equal(got, [1, 1, 1, 1, 4, 5, 6, 7])


@pytest.mark.parametrize("dtype", [d for d in STORED if d is not bool_], ids=lambda d: d.label)
def test_bits_of_every_dtype(dtype):
    width = dtype.element.bits
    plain = {8: tw.u8, 16: tw.u16, 32: tw.u32, 64: tw.u64}[width]

    @tw.kernel
    def read_as(z: Mut[TZ, B], x: Ref[TX, N]) -> None:
        tile = x.load_like(z)
        whole = tw.unpack(tw.pack(tile), dtype)
        z.store(tw.bitcast(whole, plain))

    x = every_value(dtype) if width == 8 else chosen_values_or_bits(dtype)
    got = run(read_as, (x.shape, plain), x.size, x)
    np.testing.assert_array_equal(got, x.view(f"u{width // 8}"))


@pytest.mark.parametrize("dtype", [d for d in STORED if d.element.bits == 8], ids=lambda d: d.label)
@pytest.mark.parametrize("to", [*INTEGERS, *FLOATS], ids=lambda d: d.label)
def test_conversions_of_all_8_bit_numbers(dtype, to):
    @tw.kernel
    def converted(z: Mut[TZ, B], x: Ref[TX, N]) -> None:
        z.store(x.load_like(z).astype(TZ))

    x = every_value(dtype)
    got = run(converted, (x.shape, to), x.size, x)
    if dtype in INTEGERS and to in INTEGERS:
        wanted = wrapped(x.tolist(), to)
    elif to in INTEGERS:
        low, high = map(int, limits(to))
        wanted = [_cut(float(n), low, high) for n in x]
    else:
        with np.errstate(all="ignore"):
            wanted = x.astype(np.float64).astype(numpy_dtype(to))
    wanted = np.array(wanted, numpy_dtype(to))
    np.testing.assert_array_equal(wide(got), wide(wanted))


def _cut(number: float, low: int, high: int) -> int:
    """A float as an integer: towards zero, held to the ends, NaN as 0."""
    if np.isnan(number):
        return 0
    return low if number <= low else high if number >= high else int(number)
