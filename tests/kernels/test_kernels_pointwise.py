"""Functions of single elements, embedding, transposes and histograms beside NumPy."""

import numpy as np
import pytest
from library_cases import FLOATS, check, name_of, normal

import tilewright as tw
from tilewright import f32, f64, i32, kernels
from tilewright.dtypes import numpy_dtype
from tilewright.kernels.arguments import MOVED
from tilewright.kernels.reference import memory_bound as reference
from tilewright.tune import Config, forcing

SHAPES = ((), (0, 3), (1,), (17,), (3, 5, 7), (2, 2500))


@pytest.mark.parametrize("dtype", FLOATS[:3], ids=name_of)
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(dtype, approximate):
    for shape in SHAPES if dtype is np.float32 else SHAPES[-1:]:
        x = normal(shape, dtype, scale=3)
        found = kernels.gelu(tw.from_numpy(x), approximate=approximate).sync()
        check(found, reference.gelu(x, approximate), dtype, terms=4)


def test_gelu_at_the_ends():
    x = np.array([0, 100, -100, np.inf, -5, -8, 5], np.float32)
    found = kernels.gelu(tw.from_numpy(x)).sync().numpy()
    assert found[:4].tolist() == [0, 100, 0, np.inf]
    np.testing.assert_allclose(found[4:], reference.gelu(x[4:]), rtol=1e-5)
    assert np.isnan(kernels.gelu(tw.full((1,), np.nan, f32)).sync().numpy())


@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
def test_silu_mul(dtype):
    for shape in SHAPES if dtype is np.float32 else SHAPES[-1:]:
        gate, up = normal(shape, dtype, scale=3), normal(shape, dtype, seed=1)
        found = kernels.silu_mul(tw.from_numpy(gate), tw.from_numpy(up)).sync()
        check(found, reference.silu_mul(gate, up), dtype, terms=4)


@pytest.mark.parametrize("dtype", [*FLOATS, np.int32, np.uint8], ids=name_of)
def test_add(dtype):
    x, y = normal((2, 33, 70), np.float64, scale=20).astype(dtype)
    found = kernels.add(tw.from_numpy(x), tw.from_numpy(y)).sync().numpy()
    np.testing.assert_array_equal(found, x + y)


def test_strides():
    x, y = normal((6, 8, 50), np.float32), normal((6, 8, 25), np.float32, seed=1)
    out = tw.zeros((6, 8, 75), f32)
    kernels.add(tw.from_numpy(x)[..., ::2], tw.from_numpy(y), out=out[..., ::3]).sync()
    np.testing.assert_array_equal(out.numpy()[..., ::3], x[..., ::2] + y)
    assert not out.numpy()[..., 1::3].any()


def test_halves_of_rows():
    """The gate and the other factor, as one product gives them."""
    both = normal((7, 300), np.float16, scale=2)
    gate, up = tw.from_numpy(both)[:, :150], tw.from_numpy(both)[:, 150:]
    found = kernels.silu_mul(gate, up).sync()
    check(found, reference.silu_mul(both[:, :150], both[:, 150:]), np.float16, terms=4)
    check(kernels.gelu(gate).sync(), reference.gelu(both[:, :150]), np.float16, terms=4)


class TestDropout:
    @pytest.mark.parametrize("dtype", FLOATS[:3], ids=name_of)
    def test_which_elements_are_dropped(self, dtype):
        x = normal((3, 7, 431), dtype)
        for offset in (0, 2**40, 2**40 + 1000):
            found = kernels.dropout(tw.from_numpy(x), 0.3, seed=2**40 + 11, offset=offset).sync()
            check(found, reference.dropout(x, 0.3, 2**40 + 11, offset), dtype, terms=4)

    def test_the_gradient_drops_the_same(self):
        """Also of a slice, of another shape and in another cut: the place decides, nothing else."""
        x, dz = normal((2, 40, 60), np.float32, shift=9)
        z, dx = (kernels.dropout(tw.from_numpy(a), 0.5, seed=3).sync().numpy() for a in (x, dz))
        np.testing.assert_array_equal(z == 0, dx == 0)
        assert 0.4 < (z == 0).mean() < 0.6
        columns = tw.zeros((40, 90), f32)[:, 10:70]
        tw.copy(columns, tw.from_numpy(x)).sync()
        np.testing.assert_array_equal(kernels.dropout(columns, 0.5, seed=3).sync().numpy(), z)
        tail = kernels.dropout(tw.from_numpy(x[10:].reshape(-1)), 0.5, seed=3, offset=600).sync()
        np.testing.assert_array_equal(tail.numpy(), z[10:].reshape(-1))

    def test_nothing_is_dropped(self):
        x = normal((100,), np.float32)
        np.testing.assert_array_equal(
            kernels.dropout(tw.from_numpy(x), 0, seed=1).sync().numpy(), x
        )


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint32])
@pytest.mark.parametrize("width", [1, 100, 5000])
def test_embedding(kind, width):
    table = normal((50, width), np.float16)
    ids = np.random.default_rng(0).integers(0, 50, (3, 5)).astype(kind)
    ids[0, 1], ids[2, 3] = 50, np.array(-1).astype(kind)
    found = kernels.embedding(tw.from_numpy(ids), tw.from_numpy(table)).sync().numpy()
    np.testing.assert_array_equal(found, reference.embedding(ids, table))


@pytest.mark.parametrize("dtype", MOVED, ids=lambda dtype: dtype.label)
def test_what_is_only_moved_may_be_anything(dtype):
    """Compared as bytes: not all are numbers to NumPy."""
    kind = numpy_dtype(dtype)
    x = np.random.default_rng(0).integers(0, 2, (7, 5 * kind.itemsize)).astype(np.uint8).view(kind)
    ids, wanted = np.array([3, 40, 0]), np.zeros((3, 5), kind)
    wanted[[0, 2]] = x[[3, 0]]
    found = kernels.embedding(tw.from_numpy(ids), tw.from_numpy(x)).sync().numpy()
    np.testing.assert_array_equal(found.view(np.uint8), wanted.view(np.uint8))
    found = kernels.transpose(tw.from_numpy(x)).sync().numpy()
    wanted = np.ascontiguousarray(x.T)
    np.testing.assert_array_equal(found.view(np.uint8), wanted.view(np.uint8))


def test_embedding_of_nothing():
    table = tw.zeros((0, 4), f32)
    assert not kernels.embedding(tw.zeros(3, i32), table).sync().numpy().any()
    assert kernels.embedding(tw.zeros(0, i32), table).sync().shape == (0, 4)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8], ids=name_of)
@pytest.mark.parametrize("shape", [(1, 1), (3, 200), (2, 3, 65, 130), (5, 0)])
def test_transpose(shape, dtype):
    x = normal(shape, np.float64, scale=9).astype(dtype)
    found = kernels.transpose(tw.from_numpy(x)).sync()
    assert found.is_contiguous
    np.testing.assert_array_equal(found.numpy(), reference.transpose(x))


@pytest.mark.parametrize(
    ("bins", "kind"),
    [
        *((bins, kind) for bins in (30, 256, 300) for kind in (np.int32, np.int64, np.uint32)),
        *((bins, kind) for bins in (256, 300) for kind in (np.uint8, np.int16, np.uint64)),
    ],
)
def test_histogram(bins, kind):
    x = np.random.default_rng(0).integers(-5, bins + 10, (7, 501)).astype(kind)
    out = tw.full((bins,), 7, i32)
    found = kernels.histogram(tw.from_numpy(x), bins, out=out).sync()
    assert found is out
    np.testing.assert_array_equal(found.numpy(), reference.histogram(x, bins))
    with forcing("histogram", Config.of(BM=1, PART=64)):  # many blocks, so some rows of bins
        found = kernels.histogram(tw.from_numpy(x)[:, :400], bins, out=out).sync()
    np.testing.assert_array_equal(found.numpy(), reference.histogram(x[:, :400], bins))
    assert kernels.histogram(tw.from_numpy(x)[:0], 3).sync().numpy().tolist() == [0] * 3


@pytest.mark.parametrize("size", [4096, 9001])  # tiles that cover it, and some that do not
def test_histogram_of_few_bins(size):
    odd = np.array([0, 15, 16, 240, 255, 256, -1, 1 << 40, -(1 << 40), (1 << 32) + 3])
    for x in (np.resize(odd, size), np.full(size, 255), np.full(size, 0), np.full(size, 256)):
        found = kernels.histogram(tw.from_numpy(x), 256).sync().numpy()
        np.testing.assert_array_equal(found, reference.histogram(x, 256))


def _x():
    return tw.zeros((4, 8), f32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kernels.gelu(_x(), approximate="erf"), "is 'none' or 'tanh', not 'erf'"),
        (lambda: kernels.gelu(tw.zeros(3, f64)), "`x` of gelu is one of f16, bf16, f32, not f64"),
        (lambda: kernels.silu_mul(_x(), tw.zeros(8, f32)), r"`up` of silu_mul has shape \(8,\)"),
        (lambda: kernels.dropout(_x(), 1.0, seed=0), "a probability below 1, not 1.0"),
        (lambda: kernels.dropout(_x(), -0.1, seed=0), "a probability below 1, not -0.1"),
        (lambda: kernels.embedding(tw.zeros(3, i32), tw.zeros(4, f32)), "has rows and columns"),
        (lambda: kernels.transpose(tw.zeros(3, f32)), r"two axes, and shape \(3,\) has 1"),
        (lambda: kernels.histogram(tw.zeros(3, i32), 0), "at least one bin, not 0"),
        (lambda: kernels.add(_x(), tw.zeros((4, 8), f64)), "`y` of add is one of f32, not f64"),
    ],
)
def test_refused(call, message):
    with pytest.raises(tw.LaunchError, match=message):
        call()
