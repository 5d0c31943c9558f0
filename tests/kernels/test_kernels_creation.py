"""Tensors that kernels make: counting, even steps, unit matrices, random numbers; and when."""

import subprocess
import sys

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mut, Ref, bf16, bool_, f8e8m0fnu, f16, f32, f64, i8, i32, i64, u8, u64
from tilewright.dims import B, N, T
from tilewright.dtypes import DTYPES, IN_TILES_ONLY, numpy_dtype
from tilewright.lang.philox import PRECISIONS, philox

FLOATS = list(PRECISIONS)
COUNTING = [dtype for dtype in DTYPES if dtype not in {f8e8m0fnu, *IN_TILES_ONLY}]
label = lambda dtype: getattr(dtype, "label", None)  # noqa: E731


@tw.kernel
def add(z: Mut[T, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


class TestArange:
    @pytest.mark.parametrize("dtype", COUNTING, ids=label)
    def test_dtypes(self, dtype):
        n = 2 if dtype is bool_ else 100
        got = tw.arange(n, dtype).numpy()
        np.testing.assert_array_equal(got, np.arange(n).astype(numpy_dtype(dtype)))

    @pytest.mark.parametrize("n", [0, 1, 1023, 1024, 1025, 5003])
    def test_lengths(self, n):
        assert tw.arange(n).numpy().tolist() == list(range(n))
        assert tw.arange(n).dtype is i32

    @pytest.mark.parametrize(
        ("n", "dtype", "message"),
        [
            (257, u8, r"tw\.arange\(257\) counts further than u8 can"),
            (129, i8, "further than i8"),
            (3, bool_, "further than bool"),
            (-1, i32, "negative"),
            (1.5, i32, r"the number of elements is an integer, not 1\.5"),
            (2, "f32", "is no dtype"),
            (2, 9, r"it counts from 0 to n - 1, .* `tw\.arange\(9\)`, sliced, begins elsewhere"),
            (2, f8e8m0fnu, "holds powers of two, not zero"),
            (2**31, i64, "split it into two axes"),
        ],
    )
    def test_refused(self, n, dtype, message):
        with pytest.raises(tw.LaunchError, match=message):
            tw.arange(n, dtype)

    def test_steps_are_slices(self):
        with pytest.raises(
            tw.LaunchError, match=r"tw\.arange\(0, 10, 2\): .*, sliced, begins else"
        ):
            tw.arange(0, 10, 2)
        assert tw.arange(10)[::2].numpy().tolist() == [0, 2, 4, 6, 8]


class TestLinspace:
    @pytest.mark.parametrize("num", [0, 1, 2, 50, 1025])
    @pytest.mark.parametrize("ends", [(0, 1), (-3.5, 7), (1, -1), (2, 2)])
    def test_is_numpys(self, num, ends):
        for dtype, exactness in ((f32, 1e-7), (f64, 1e-15)):
            got = tw.linspace(*ends, num, dtype).numpy()
            wanted = np.linspace(*ends, num).astype(got.dtype)
            np.testing.assert_allclose(got, wanted, rtol=exactness, atol=exactness)
            assert (got[:1] == wanted[:1]).all()
            assert (got[-1:] == wanted[-1:]).all()

    @pytest.mark.parametrize("dtype", [f16, bf16], ids=label)
    def test_narrow_dtypes(self, dtype):
        got = tw.linspace(0, 3, 1000, dtype).numpy().astype(np.float64)
        np.testing.assert_allclose(got, np.linspace(0, 3, 1000), rtol=2**-8)
        assert (got[0], got[-1]) == (0, 3)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ((0, 1, 3, i32), r"makes floats, not i32: convert, `\.astype"),
            ((0, float("inf"), 3), "from one finite number to another"),
            ((0, 1, -2), "negative"),
        ],
    )
    def test_refused(self, given, message):
        with pytest.raises(tw.LaunchError, match=message):
            tw.linspace(*given)


@pytest.mark.parametrize("shape", [(1, 1), (33, 33), (5, 70), (70, 5), (0, 3)])
@pytest.mark.parametrize("dtype", [f32, bool_, u64], ids=label)
def test_eye(shape, dtype):
    got = tw.eye(*shape, dtype).numpy()
    np.testing.assert_array_equal(got, np.eye(*shape).astype(numpy_dtype(dtype)))
    assert tw.eye(4).shape == (4, 4)


class Words:
    """Words as Python numbers."""

    def product(self, word, factor):
        return word * factor >> 32, word * factor & 0xFFFFFFFF

    def exclusive_or(self, *words):
        return words[0] ^ words[1] ^ words[2]

    def sum(self, word, step):
        return word + step & 0xFFFFFFFF


def uniform(n, dtype, seed, offset):
    """What `tw.rand` is, number by number."""
    numbers = []
    bits = PRECISIONS[dtype]
    key = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    for place in range(offset, offset + n):
        counter = place & 0xFFFFFFFF, place >> 32 & 0xFFFFFFFF, 0, 0
        first, second, *_ = philox(Words(), counter, key)
        numbers.append(((first << 32 | second) >> 64 - bits) * 2.0**-bits)
    return np.array(numbers)


class TestRandom:
    @pytest.mark.parametrize("dtype", FLOATS, ids=label)
    def test_uniform_numbers_are_philox(self, dtype):
        for seed, offset in ((0, 0), (-1, 2**64 - 5), (2**40, 2**32 - 3)):
            got = tw.rand((3, 7), dtype, seed=seed, offset=offset).numpy().astype(np.float64)
            np.testing.assert_array_equal(got.reshape(-1), uniform(21, dtype, seed, offset))

    @pytest.mark.parametrize("dtype", FLOATS, ids=label)
    def test_normal_numbers_come_from_uniform_ones(self, dtype):
        wide = f64 if dtype is f64 else f32
        got = tw.randn(100, dtype, seed=5, offset=3).numpy().astype(np.float64)
        u, v = uniform(100, wide, 5, 3), uniform(100, wide, 5, 3 + 2**63)
        wanted = np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * np.pi * v)
        eps = {f16: 2e-3, bf16: 1e-2, f32: 1e-5, f64: 1e-12}[dtype]
        np.testing.assert_allclose(got, wanted, rtol=eps, atol=eps)

    def test_normal_numbers_have_the_moments_of_normal_ones(self):
        x = tw.randn((1 << 17,), seed=1).numpy().astype(np.float64)
        assert np.isfinite(x).all()
        for power, moment in enumerate((1, 0, 1, 0, 3)):
            assert abs((x**power).mean() - moment) < 0.06
        assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.02

    def test_refused(self):
        with pytest.raises(tw.LaunchError, match=r"tw\.randn makes f16, bf16, f32, f64, not i32"):
            tw.randn(4, i32)
        with pytest.raises(tw.LaunchError, match=r"tw\.rand\(seed=1\.5\): it is an integer"):
            tw.rand(4, f32, seed=1.5)

    def test_large_tensors_are_filled_in_parts(self, monkeypatch):
        whole = [make().numpy() for make in MAKERS]
        monkeypatch.setattr("tilewright.host._LONGEST", 1000)
        for make, wanted in zip(MAKERS, whole, strict=True):
            np.testing.assert_array_equal(make().numpy(), wanted)


MAKERS = (
    lambda: tw.arange(2500),
    lambda: tw.linspace(0, 1, 2001),
    lambda: tw.rand((60, 50), f32, seed=9, offset=2**64 - 7),
    lambda: tw.randn((60, 50), f64, seed=9),
    lambda: tw.eye(40),
)


class TestWhen:
    @pytest.mark.parametrize("make", MAKERS)
    def test_bytes_come_with_the_first_user_on_its_stream(self, make):
        z = make()
        assert z.storage.is_lazy
        assert tw.zeros(3).storage.is_lazy
        device = z.device
        busy, used = device.new_stream(), device.new_stream()
        hold = busy.hold()
        tw.fill(tw.empty(3), 1).submit(busy)
        y = tw.empty(z.shape, z.dtype)
        tw.copy(y, z).sync_on(used)  # would wait for ever on the other one
        hold.release()
        assert y.numpy().tobytes() == z.numpy().tobytes()

    def test_operations_that_are_only_built_do_not_stand_in_the_way(self):
        x = tw.rand(100, f32)
        z, y = tw.zeros(100), tw.zeros(100)
        first = add(z.partition(32), x, x)
        add(y.partition(32), x, x).sync()
        first.sync()
        np.testing.assert_array_equal(z.numpy(), y.numpy())
        np.testing.assert_array_equal(z.numpy(), 2 * x.numpy())

    def test_a_writer_that_is_only_built_still_keeps_others_out(self):
        x = tw.arange(100, f32)
        writer = tw.fill(x, 0)
        with pytest.raises(tw.BorrowError, match="holds dst for writing"):
            x.numpy()
        writer.sync()
        assert not x.numpy().any()

    def test_tensors_without_memory(self):
        for make in (tw.rand, tw.randn):
            assert make((4, 4), f32, device="meta:90").device.target == "sm_90"
        assert tw.arange(4, device="meta:90").shape == (4,)

    def test_on_another_device(self):
        with tw.device("cpu:1"):
            assert tw.arange(3).device.name == "cpu:1"
        assert tw.eye(2, device="cpu:1").numpy().tolist() == [[1, 0], [0, 1]]

    def test_kernels_and_compiler_are_loaded_on_first_use(self):
        script = (
            "import sys, tilewright as tw\n"
            "tw.zeros((4, 4), tw.f32, device='cpu').numpy()\n"
            "tw.from_numpy([1.0, 2.0], device='cpu')[::2].numpy()\n"
            "print([m for m in sys.modules if m.startswith(('tilewright.kernels',"
            " 'tilewright.jit.compile.compiler', 'tilewright.frontend.lowering'))])\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "[]"
