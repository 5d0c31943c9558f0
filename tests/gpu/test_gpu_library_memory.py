"""On the GPU the memory-bound kernels of the library give what float64 gives, at larger sizes."""

import ml_dtypes
import numpy as np
import pytest
from library_cases import check, normal

import tilewright as tw
from tilewright import f32, kernels
from tilewright.kernels.reference import memory_bound as reference

pytestmark = pytest.mark.gpu

HALF, BRAIN, SINGLE = np.float16, ml_dtypes.bfloat16, np.float32
# Several rows to a tile, one, as many parts as a block keeps, and more; ragged and not.
CASES = [
    ((1000, 128), HALF),
    ((300, 1000), BRAIN),
    ((64, 8192), HALF),
    ((33, 12289), SINGLE),
    ((7, 151936), HALF),
]


@pytest.fixture(autouse=True)
def on_the_gpu():
    with tw.device("cuda:0"):
        yield


def given(*arrays):
    return [tw.from_numpy(array) for array in arrays]


@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_softmax(shape, dtype):
    x = normal(shape, dtype, scale=3)
    check(kernels.softmax(*given(x)).sync(), reference.softmax(x), dtype, terms=32)


@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_cross_entropy(shape, dtype):
    x = normal(shape, dtype, scale=3)
    labels = np.random.default_rng(1).integers(-1, shape[1] + 1, shape[0])
    dloss = normal(shape[:1], np.float32, seed=2)
    logits, at, scale = given(x, labels, dloss)
    loss, log_sum = kernels.cross_entropy(logits, at).sync()
    for found, expected in zip((loss, log_sum), reference.cross_entropy(x, labels), strict=True):
        check(found, expected, np.float32, terms=16)
    found = kernels.cross_entropy_gradient(logits, at, log_sum, scale).sync()
    check(found, reference.cross_entropy_gradient(x, labels, dloss), dtype, terms=64)


@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_norms(shape, dtype):
    x, y = normal((2, *shape), dtype, scale=2, shift=1)
    weight, bias = normal((2, shape[1]), dtype, seed=1)
    a, b, w, s = given(x, y, weight, bias)
    check(kernels.rms_norm(a, w).sync(), reference.rms_norm(x, weight), dtype, terms=32)
    check(
        kernels.layer_norm(a, w, s).sync(), reference.layer_norm(x, weight, bias), dtype, terms=64
    )
    found, total = kernels.add_rms_norm(a, b, w).sync()
    expected, expected_total = reference.add_rms_norm(x, y, weight)
    np.testing.assert_array_equal(total.numpy(), expected_total)
    check(found, expected, dtype, terms=32)


@pytest.mark.parametrize(("shape", "dtype"), CASES[1:4])
def test_gradients_of_norms(shape, dtype):
    x, dz = normal((2, *shape), dtype, shift=0.5)
    weight = normal(shape[1:], dtype, seed=1)
    arrays = given(dz, x, weight)
    found = kernels.rms_norm_gradient(*arrays).sync()
    for one, expected in zip(found, reference.rms_norm_gradient(dz, x, weight), strict=True):
        check(one, expected, dtype, terms=256)
    found = kernels.layer_norm_gradient(*arrays).sync()
    for one, expected in zip(found, reference.layer_norm_gradient(dz, x, weight), strict=True):
        check(one, expected, dtype, terms=256)


@pytest.mark.parametrize("dtype", [HALF, BRAIN, SINGLE])
def test_elements(dtype):
    x, y = normal((2, 1001, 773), dtype, scale=2)
    a, b = given(x, y)
    np.testing.assert_array_equal(kernels.add(a, b).sync().numpy(), x + y)
    check(kernels.silu_mul(a, b).sync(), reference.silu_mul(x, y), dtype, terms=8)
    check(kernels.gelu(a).sync(), reference.gelu(x), dtype, terms=8)
    found = kernels.gelu(a, approximate="tanh").sync()
    check(found, reference.gelu(x, "tanh"), dtype, terms=8)
    found = kernels.dropout(a, 0.1, seed=5).sync()
    check(found, reference.dropout(x, 0.1, 5), dtype, terms=8)
    np.testing.assert_array_equal(kernels.transpose(a).sync().numpy(), x.T)


@pytest.mark.parametrize("width", [64, 1000])
def test_embedding(width):
    table = normal((5000, width), HALF)
    ids = np.random.default_rng(0).integers(-3, 5003, 4001)
    found = kernels.embedding(*given(ids, table)).sync().numpy()
    np.testing.assert_array_equal(found, reference.embedding(ids, table))


@pytest.mark.parametrize(
    ("kind", "axis"), [("sum", None), ("sum", 0), ("mean", 1), ("mean", 2), ("max", 1), ("min", 2)]
)
def test_reductions(kind, axis):
    x = normal((37, 211, 130), SINGLE, shift=0.1)
    found = getattr(kernels, kind)(*given(x), axis).sync()
    check(found, reference.reduce(kind, x, axis), SINGLE, terms=64)


@pytest.mark.parametrize("shape", [(3, 1_000_003), (5001, 300)])
def test_running_sums_and_ranks(shape):
    x = normal(shape, SINGLE)
    (a,) = given(x)
    found = kernels.cumsum(a).sync()
    check(found, reference.cumsum(x), SINGLE, terms=64, scale=np.sqrt(shape[1]) * 4)
    np.testing.assert_array_equal(kernels.argmax(a).sync().numpy(), reference.argmax(x))
    values, places = kernels.top_k(a, 20).sync()
    for one, expected in zip((values, places), reference.top_k(x, 20), strict=True):
        np.testing.assert_array_equal(one.numpy(), expected)


def test_histogram():
    x = np.random.default_rng(0).integers(-10, 300, 1_000_003).astype(np.int32)
    found = kernels.histogram(*given(x), 256).sync().numpy()
    np.testing.assert_array_equal(found, reference.histogram(x, 256))


@pytest.mark.parametrize("shape", [(37, 211), (3, 12289)])
def test_doubles(shape):
    x, y = normal((2, *shape), np.float64, scale=2)
    weight, bias = normal((2, shape[1]), np.float64, seed=1)
    a, b, w, s = given(x, y, weight, bias)
    pairs = [
        (kernels.add(a, b), x + y),
        (kernels.silu_mul(a, b), reference.silu_mul(x, y)),
        (kernels.softmax(a), reference.softmax(x)),
        (kernels.rms_norm(a, w), reference.rms_norm(x, weight)),
        (kernels.layer_norm(a, w, s), reference.layer_norm(x, weight, bias)),
        (kernels.sum(a, 0), reference.reduce("sum", x, 0)),
        (kernels.mean(a, 1), reference.reduce("mean", x, 1)),
        (kernels.max(a), reference.reduce("max", x)),
        (kernels.cumsum(a), reference.cumsum(x)),
        (kernels.transpose(a), x.T),
    ]
    for operation, expected in pairs:
        size = np.abs(expected).max() + np.sqrt(x.size)  # sums may cancel
        check(operation.sync(), expected, np.float64, terms=64, scale=size)
    found = kernels.layer_norm_gradient(b, a, w).sync()
    for one, expected in zip(found, reference.layer_norm_gradient(y, x, weight), strict=True):
        check(one, expected, np.float64, terms=256)


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint16, np.uint64])
def test_integers(kind):
    x, y = normal((2, 301, 517), np.float64, scale=30, shift=50).astype(kind)
    a, b = given(x, y)
    ids = np.random.default_rng(0).integers(0, 301, 77)
    pairs = [
        (kernels.add(a, b), x + y),
        (kernels.sum(a, 0), reference.reduce("sum", x, 0)),
        (kernels.sum(a), reference.reduce("sum", x)),
        (kernels.max(a, 1), reference.reduce("max", x, 1)),
        (kernels.min(a, 0), reference.reduce("min", x, 0)),
        (kernels.cumsum(a), reference.cumsum(x)),
        (kernels.cumsum(a, 0), reference.cumsum(x, 0)),
        (kernels.transpose(a), x.T),
        (kernels.embedding(*given(ids), a), x[ids]),
    ]
    for operation, expected in pairs:
        np.testing.assert_array_equal(operation.sync().numpy(), expected)


@pytest.mark.parametrize("kind", [np.int64, np.uint32])
@pytest.mark.parametrize("bins", [100, 1000])
def test_histogram_of_every_kind(kind, bins):
    x = np.random.default_rng(0).integers(-10, bins + 10, 100_003).astype(kind)
    found = kernels.histogram(*given(x), bins).sync().numpy()
    np.testing.assert_array_equal(found, reference.histogram(x, bins))


def test_two_steps_in_a_graph():
    """What needs memory in between has it before the graph runs."""
    x = normal((2, 300_000), SINGLE)
    (a,) = given(x)
    z, sums = tw.empty(x.shape, f32), tw.empty((2,), f32)
    with tw.graph() as graph:
        graph.record(kernels.cumsum(a, out=z))
        graph.record(kernels.sum(a, 1, out=sums))
    for _ in range(3):
        graph.launch().submit()
    check(z, reference.cumsum(x), SINGLE, terms=64, scale=np.sqrt(x.shape[1]) * 4)
    check(sums, reference.reduce("sum", x, 1), SINGLE, terms=64, scale=np.sqrt(x.shape[1]))
