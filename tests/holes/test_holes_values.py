"""Values: signs, widths, and constants that look alike."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import Const, Mut, Ref, f32, i32, i64, u8, u32
from tilewright.dims import B, N, T
from tilewright.dtypes import Element, numpy_dtype
from tilewright.ir.function import Function, Module
from tilewright.ir.op import Block
from tilewright.ir.ops.control import Return
from tilewright.ir.ops.shape import Constant
from tilewright.ir.types import scalar
from tilewright.ir.verify.verifier import VerificationError, verify

LEAST = -(2**31)


@tw.kernel
def signed_halves(z: Mut[i32, B], x: Ref[u32, N]) -> None:
    y = x.load_like(z).astype(i32)
    z.store(y // 2 * 1000 + y % 3)


@tw.kernel
def unsigned_halves(z: Mut[u32, B], x: Ref[i32, N]) -> None:
    y = x.load_like(z).astype(u32)
    z.store(y // 2 + y % 3)


def test_division_knows_the_sign_it_was_given():
    """A conversion that changes no bit changes what `//` and `%` mean."""
    z = tw.zeros((4,), i32)
    bits = np.array([-4, -1, 5, LEAST], np.int32)
    signed_halves(z.partition(4), tw.from_numpy(bits.view(np.uint32))).sync()
    with np.errstate(over="ignore"):
        assert z.numpy().tolist() == (bits // 2 * np.int32(1000) + bits % 3).tolist()
    w = tw.zeros((4,), u32)
    unsigned_halves(w.partition(4), tw.from_numpy(bits)).sync()
    plain = bits.view(np.uint32)
    assert w.numpy().tolist() == (plain // 2 + plain % 3).tolist()


@tw.kernel
def masked_index(z: Mut[i32, B], x: Ref[i32, N], u: u32, j: i32) -> None:
    xs = x.partition(B)
    i = u.astype(i32) & j
    if i < xs.num_tiles(0):
        z.store(xs[i])


@tw.kernel
def or_index(z: Mut[i32, B], x: Ref[i32, N], u: u32, j: i32) -> None:
    xs = x.partition(B)
    i = u.astype(i32) | j
    if i < xs.num_tiles(0):
        z.store(xs[i])


@tw.kernel
def least_unsigned(z: Mut[i32, B], x: Ref[i32, N], u: u32, j: i32) -> None:
    xs = x.partition(B)
    i = tw.maximum(u, j.astype(u32)).astype(i32)
    if i < xs.num_tiles(0):
        z.store(xs[i])


@tw.kernel
def guarded_unsigned(z: Mut[i32, B], x: Ref[i32, N], u: u32, j: i32) -> None:
    xs = x.partition(B)
    if u > 0:
        i = u.astype(i32)
        if i < xs.num_tiles(0):
            z.store(xs[i])


@pytest.mark.parametrize("kernel", [masked_index, or_index, least_unsigned, guarded_unsigned])
def test_bits_without_a_sign_prove_nothing_about_a_sign(kernel):
    """An unsigned number is never negative, until it is read as signed."""
    x, z = tw.ones((16,), i32), tw.zeros((4,), i32)
    kernel(z.partition(4), x, 1, 3).sync()
    with pytest.raises(tw.OutOfBoundsError, match="index -1"):
        kernel(z.partition(4), x, 2**32 - 1, -1).sync()


@tw.kernel
def magnitude_index(z: Mut[i32, B], x: Ref[i32, N], i: i32) -> None:
    xs = x.partition(B)
    j = abs(i)
    if j < xs.num_tiles(0):
        z.store(xs[j])


@tw.kernel
def negated_index(z: Mut[i32, B], x: Ref[i32, N], i: i32) -> None:
    xs = x.partition(B)
    if i <= 0 and -i < xs.num_tiles(0):
        z.store(xs[-i])


@tw.kernel
def wrapped_index(z: Mut[i32, B], x: Ref[i32, N], i: i32) -> None:
    xs = x.partition(B)
    if i < 0:
        j = i - 2147483647 - 1
        if j < xs.num_tiles(0):
            z.store(xs[j])


@tw.kernel
def narrowed_index(z: Mut[i32, B], x: Ref[i32, N], i: i32) -> None:
    xs = x.partition(B)
    wide = i.astype(i64) * 3 + 1
    if wide < 0:
        j = (wide + 4294967296 * 2).astype(i32)
        if j < xs.num_tiles(0):
            z.store(xs[j])


@pytest.mark.parametrize("kernel", [magnitude_index, negated_index, wrapped_index, narrowed_index])
@pytest.mark.parametrize("i", [LEAST, LEAST + 1, -1, 0, 2, 2**31 - 1])
def test_what_wraps_proves_nothing(kernel, i):
    """The least integer has no magnitude and no negative; a sum may come round."""
    x, z = tw.ones((16,), i32), tw.zeros((4,), i32)
    try:
        kernel(z.partition(4), x, i).sync()
    except (tw.OutOfBoundsError, tw.LaunchError):
        assert i < 0


SHIFTS = [0, 1, 7, 8, 31, 32, 63, 64, 100, 127, -1, -128]


@tw.kernel
def shifted(z: Mut[T, B], w: Mut[T, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    z.store(x.load_like(z) << y.load_like(z))
    w.store(x.load_like(z) >> y.load_like(z))


@pytest.mark.parametrize("dtype", [u8, u32, i32, i64])
def test_any_shift_has_a_meaning(dtype):
    kind = numpy_dtype(dtype)
    bits, low = kind.itemsize * 8, np.iinfo(kind).min
    amounts = [s for s in SHIFTS if s >= low] + [0] * (12 - sum(s >= low for s in SHIFTS))
    x = np.resize(np.array([1, low, np.iinfo(kind).max, 5], kind), 12)
    y = np.array(amounts, kind)
    z, w = tw.zeros((12,), dtype), tw.zeros((12,), dtype)
    shifted(z.partition(4), w.partition(4), tw.from_numpy(x), tw.from_numpy(y)).sync()
    for got, number, amount in zip(z.numpy(), x.tolist(), amounts, strict=True):
        left = number << amount if 0 <= amount < bits else 0
        assert int(got) % 2**bits == left % 2**bits
    for got, number, amount in zip(w.numpy(), x.tolist(), amounts, strict=True):
        assert int(got) == number >> (amount if 0 <= amount < bits else 200)


@tw.kernel
def to_integers(z: Mut[i32, B], w: Mut[u8, B], x: Ref[T, N]) -> None:
    z.store(x.load_like(z).astype(i32))
    w.store(x.load_like(z).astype(u8))


def test_floats_become_the_nearest_integer_there_is():
    numbers = [np.nan, np.inf, -np.inf, 1e20, -1e20, 2.0**31, 255.9, -0.5]
    z, w = tw.zeros((8,), i32), tw.zeros((8,), u8)
    to_integers(z.partition(4), w.partition(4), tw.from_numpy(np.array(numbers, np.float32))).sync()
    top = 2**31 - 1
    assert z.numpy().tolist() == [0, top, LEAST, top, LEAST, top, 255, 0]
    assert w.numpy().tolist() == [0, 255, 0, 255, 0, 255, 255, 0]


@tw.kernel
def inverse(z: Mut[f32, B], *, C: Const[float]) -> None:
    z.store(tw.full((B,), 1.0, f32) / tw.full((B,), C, f32))


def test_constants_that_compare_equal_are_two_kernels():
    """0.0 equals -0.0, so the second call ran the kernel that was compiled for the first."""
    z = tw.zeros((4,), f32)
    found = []
    for constant in (0.0, -0.0, 0.0, float("nan"), float("nan"), 1):
        inverse(z.partition(4), C=constant).sync()
        found.append(str(z.numpy()[0]))
    assert found == ["inf", "-inf", "inf", "nan", "nan", "1.0"]
    assert len(inverse._compiled) == 4


@pytest.mark.parametrize(
    ("number", "element", "fits"),
    [(2**31, Element.I32, True), (2**32 - 1, Element.I32, True), (2**32, Element.I32, False),
     (-(2**31), Element.I32, True), (-(2**31) - 1, Element.I32, False), (1.5, Element.I32, False),
     (256, Element.I8, False), (2, Element.I1, False), (2**64, Element.F32, True)],
)  # fmt: skip
def test_no_constant_loses_bits(number, element, fits):
    """A number that does not fit its type was cut without a word, wherever it came from."""
    body = Block((), [Constant(value=number, to=scalar(element)), Return()])
    module = Module((Function("constants", body),), name="constants")
    if fits:
        verify(module, "sm_90")
    else:
        with pytest.raises(VerificationError, match="does not fit"):
            verify(module, "sm_90")
