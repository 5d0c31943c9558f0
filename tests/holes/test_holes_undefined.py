"""Arithmetic that Tile IR leaves undefined: here it has a value, and the code behind it stays.

tileiras deletes what follows an undefined operation as soon as it can see one, checks and clamps
included. Each form is fed with constants that it can see; the kernel's store must survive.
"""

import functools
import math
import struct

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mut, Ref, ReportForm, f4e2m1fn, f8e4m3fn, f32, i4, i8, i16, i32, i64, u8, u32
from tilewright.backends.cuda import cubin as cubins
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode.encode import encode
from tilewright.dims import B, N
from tilewright.dtypes import Element
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.ir.function import Module
from tilewright.ir.ops.elementwise import DivI
from tilewright.ir.rewrite import Rewriter, with_parts
from tilewright.ir.versions import required_version

LEAST = -(2**31)


@tw.kernel(report=ReportForm.NONE)
def divided_by_zero(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    t = x.load_like(z)
    z.store(t // (t - t) + 100 * (t % (t - t)))


@tw.kernel(report=ReportForm.NONE)
def unsigned_by_zero(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    t = x.load_like(z).astype(u8)
    z.store((t // (t ^ t)).astype(i32) + 100 * (t % (t ^ t)).astype(i32))


@tw.kernel
def least_by_minus_one(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    least, minus = tw.full((B,), -(2**31), i32), tw.full((B,), -1, i32)
    bytes_ = tw.full((B,), -128, i8) // tw.full((B,), -1, i8)
    wide = tw.full((B,), -(2**63), i64) % tw.full((B,), -1, i64)
    z.store(least // minus + least % minus + bytes_.astype(i32) + wide.astype(i32))


@tw.kernel
def negated_least(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    least = tw.full((B,), -(2**31), i32)
    z.store(tw.abs(least) + tw.abs(tw.full((B,), -128, i8)).astype(i32) - (-least))


@tw.kernel
def shifted_too_far(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    one, far = tw.full((B,), 5, i32), tw.full((B,), 32, i32)
    left = (one << far) + (one << tw.full((B,), -1, i32)) + (-one >> far)
    right = (one.astype(u32) >> tw.full((B,), 99, u32)).astype(i32)
    narrow = (tw.full((B,), 255, u8) >> tw.full((B,), 8, u8)).astype(i32)
    small = (tw.full((B,), -7, i16) >> tw.full((B,), 16, i16)).astype(i32)
    z.store(left + right + narrow + small)


@tw.kernel
def floats_out_of_range(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    inf, nan = tw.full((B,), math.inf, f32), tw.full((B,), math.nan, f32)
    top, none = inf.astype(i32) // 2, nan.astype(i32)
    low = (-inf).astype(i64).astype(i32) + nan.astype(i64).astype(i32)
    bytes_ = tw.full((B,), 1e30, f32).astype(u8).astype(i32) + (-inf).astype(u8).astype(i32)
    fours = inf.astype(i4).astype(i32) + (-inf).astype(i4).astype(i32) + nan.astype(i4).astype(i32)
    z.store(top + none + low + bytes_ + fours)


@tw.kernel
def powers_of_integers(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    three, minus = tw.full((B,), 3, i32), tw.full((B,), -1, i32)
    least = tw.full((B,), -(2**31), i32)
    z.store(three**minus + three**least + least**three + minus**least + three ** (minus + 1))


@tw.kernel
def sums_that_wrap(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    most = tw.full((B,), 2**31 - 1, i32)
    z.store(most + 1 + most * most + tw.sum(most) + tw.cumsum(most) - tw.mulhi(most, most))


@tw.kernel(report=ReportForm.NONE)
def parts_out_of_range(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    t = x.load_like(z)
    far = x.partition(1)[0].item()
    part = tw.extract(t, far - far + 99 + far, 2)
    z.store(tw.insert(t, part + 1000, far * 0 - 5 - far))


@tw.kernel
def negative_scales(z: Mut[f32, B], x: Ref[i32, N]) -> None:
    a = tw.full((16, 16), 1.0, f4e2m1fn)
    scale = tw.full((16, 1), -2.0, f8e4m3fn)
    total = tw.mma_scaled(a, a, tw.zeros((16, 16), f32), scale, scale.T)
    z.store(x.load_like(z).astype(f32) + tw.sum(total) / 256)


X = np.arange(3, 11, dtype=np.int32)
LIMIT = 2**31 - 1
RAMP = np.arange(1, 9, dtype=np.int64)


def wrapped(numbers) -> np.ndarray:
    """Modulo the width."""
    return (np.asarray(numbers, object) % 2**32).astype(np.uint32).view(np.int32)


FORMS = {
    divided_by_zero: X,
    unsigned_by_zero: X,
    least_by_minus_one: wrapped([LEAST - 128] * 8),
    negated_least: wrapped([LEAST - 128 - LEAST] * 8),
    shifted_too_far: np.full(8, -2, np.int32),
    floats_out_of_range: np.full(8, LIMIT // 2 + 255 + 7 - 8, np.int32),
    powers_of_integers: wrapped([0 + 0 + 0 + 0 + 1] * 8),
    sums_that_wrap: wrapped(
        LEAST + LIMIT * LIMIT + 8 * LIMIT + RAMP * LIMIT - (LIMIT * LIMIT >> 32)
    ),
    parts_out_of_range: X,
}


@pytest.mark.parametrize("kernel", FORMS, ids=lambda kernel: kernel.__name__)
def test_it_has_a_value(kernel):
    with tw.device("cpu"):
        z = tw.full((8,), 77, i32)
        kernel(z.partition(8), tw.from_numpy(X)).sync()
        np.testing.assert_array_equal(z.numpy(), FORMS[kernel])


def test_negative_scales_have_a_value():
    with tw.device("cpu"):
        z = tw.full((8,), 77, f32)
        negative_scales(z.partition(8), tw.from_numpy(X)).sync()
        np.testing.assert_array_equal(z.numpy(), X + 64)


# --- and the code is still there ------------------------------------------------------------------

STORES = (0x986, 0x3B5)  # opcodes, in the low bits of an instruction: of threads, and by TMA


def stores(cubin: bytes) -> dict[str, int]:
    """How many stores the code of each kernel has."""
    found = {}
    for section in cubins._sections(cubin):
        if section.name.startswith(".text."):
            words = struct.iter_unpack("<QQ", cubin[section.offset :][: section.size])
            found[section.name.removeprefix(".text.")] = sum(
                low & 0xFFF in STORES for low, _ in words
            )
    return found


def lowered(kernel, target):
    chosen = sample_specialization(kernel.signature, target, {"B": 8})
    (function, *_) = kernel.specialized(chosen).module.functions
    return function


@functools.cache
def assembled(target, kernels):
    module = Module(tuple(lowered(kernel, target) for kernel in kernels))
    return stores(find_toolchain().assemble(encode(module, required_version(module)), target))


@pytest.mark.parametrize("kernel", FORMS, ids=lambda kernel: kernel.__name__)
def test_it_is_still_there(kernel):
    assert assembled("sm_90", tuple(FORMS))[kernel.__name__] > 0


def test_negative_scales_are_still_there():
    assert assembled("sm_100", (negative_scales,))["negative_scales"] > 0


def _by_zero(rewriter, op: DivI) -> None:
    zero = rewriter.builder.constant(0, Element.I32, op.lhs.type.shape)
    bare = with_parts(op, lhs=rewriter.new(op.lhs), rhs=zero)
    rewriter.replace(op, rewriter.builder.add(bare).result)


@tw.kernel
def halved(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    z.store(tw.full((B,), 6, i32) // tw.full((B,), 2, i32))


def test_without_a_defined_form_it_would_be_gone():
    """What the tests above would see: a kernel whose divisor becomes zero behind our back."""
    function = lowered(halved, "sm_90")
    undefined = Rewriter({DivI: _by_zero}).function(function)
    for code, is_there in ((function, True), (undefined, False)):
        module = Module((code,))
        cubin = find_toolchain().assemble(encode(module, required_version(module)), "sm_90")
        assert (stores(cubin)["halved"] > 0) == is_there
