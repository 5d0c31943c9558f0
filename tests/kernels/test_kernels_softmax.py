"""Softmax and cross-entropy beside float64."""

import numpy as np
import pytest
from library_cases import FLOATS, ROWS_AND_DTYPES, check, normal

import tilewright as tw
from tilewright import f32, i32, i64, kernels
from tilewright.kernels.reference import memory_bound as reference


@pytest.mark.parametrize(("shape", "dtype"), ROWS_AND_DTYPES)
def test_softmax(shape, dtype):
    x = normal(shape, dtype, scale=4)
    check(kernels.softmax(tw.from_numpy(x)).sync(), reference.softmax(x), dtype, terms=8)


@pytest.mark.parametrize("columns", [50, 9001])
def test_softmax_of_infinities(columns):
    x = normal((4, columns), np.float32)
    x[0, : columns // 2] = -np.inf  # the first parts have no number at all
    x[1] = -np.inf
    x[2, 3] = np.nan
    found = kernels.softmax(tw.from_numpy(x)).sync().numpy()
    check(found[[0, 3]], reference.softmax(x[[0, 3]]), np.float32, terms=8)
    assert (found[0, : columns // 2] == 0).all()
    assert np.isnan(found[1:3]).all()


def test_softmax_of_columns_and_into_columns():
    x = tw.from_numpy(normal((6, 40), np.float32))
    out = tw.zeros((6, 80), f32)
    assert kernels.softmax(x[:, 3:30:3], out=out[:, ::9]).sync().shape == (6, 9)
    expected = np.zeros((6, 80))
    expected[:, ::9] = reference.softmax(x.numpy()[:, 3:30:3])
    check(out, expected, np.float32, terms=8)


@pytest.mark.parametrize(
    ("shape", "dtype", "kind"),
    [
        *(((7, 11), dtype, np.int64) for dtype in FLOATS[:3]),
        *(((7, 11), np.float32, kind) for kind in (np.int32, np.uint32)),
        *((shape, np.float16, np.int64) for shape in ((2, 3, 100), (4, 9001), (0, 5))),
    ],
)
def test_cross_entropy(shape, dtype, kind):
    x = normal(shape, dtype, scale=3)
    labels = np.random.default_rng(1).integers(0, shape[-1], shape[:-1]).astype(kind)
    if labels.size > 2:
        labels.flat[1], labels.flat[2] = shape[-1], np.array(-100).astype(kind)
    dloss = normal(labels.shape, np.float32, seed=2)
    logits, at = tw.from_numpy(x), tw.from_numpy(labels)
    loss, log_sum = kernels.cross_entropy(logits, at).sync()
    expected, expected_log_sum = reference.cross_entropy(x, labels)
    check(loss, expected, np.float32, terms=8)
    check(log_sum, expected_log_sum, np.float32, terms=8)
    found = kernels.cross_entropy_gradient(logits, at, log_sum, tw.from_numpy(dloss)).sync()
    check(found, reference.cross_entropy_gradient(x, labels, dloss), dtype, terms=32)


def test_no_classes_at_all():
    loss, log_sum = kernels.cross_entropy(tw.zeros((3, 0), f32), tw.zeros(3, i32)).sync()
    assert loss.numpy().tolist() == [0.0] * 3
    assert log_sum.numpy().tolist() == [-np.inf] * 3


def _logits():
    return tw.zeros((4, 8), f32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kernels.softmax(3), "`x` of softmax is a tensor or an array, and int is neither"),
        (lambda: kernels.softmax(tw.zeros(4, i32)), r"f16, bf16, f32, f64, not i32: convert"),
        (lambda: kernels.softmax(tw.zeros((), f32)), "along the last axis, and `x` has none"),
        (
            lambda: kernels.softmax(_logits(), out=tw.zeros((4, 9), f32)),
            r"`out` of softmax has shape \(4, 9\), .*ask for \(4, 8\)",
        ),
        (
            lambda: kernels.softmax(_logits(), out=tw.zeros((4, 8), tw.f16)),
            "`out` of softmax is one of f32, not f16",
        ),
        (
            lambda: kernels.softmax(_logits(), out=tw.zeros((4, 8), f32, device="cpu:1")),
            "`out` of softmax lives on cpu:1, and the inputs on cpu",
        ),
        (
            lambda: kernels.cross_entropy(_logits(), tw.zeros(5, i64)),
            r"`labels` of cross_entropy has shape \(5,\), .*ask for \(4,\)",
        ),
        (
            lambda: kernels.cross_entropy(_logits(), tw.zeros(4, f32)),
            "`labels` of cross_entropy is one of i32, i64, u32, not f32",
        ),
    ],
)
def test_refused(call, message):
    with pytest.raises(tw.LaunchError, match=message):
        call()


def test_results_of_operations_are_chained():
    made = tw.fill(tw.empty((2, 4), f32), 3.0)
    assert (made.then(kernels.softmax).sync().numpy() == 0.25).all()
    made = tw.fill(tw.empty((2, 4), f32), 3.0)
    assert (kernels.softmax(made).sync().numpy() == 0.25).all()
    made = tw.fill(tw.empty((2,), f32), 3.0)
    with pytest.raises(
        tw.LaunchError, match=r"only when it runs: chain them, `op.then\(lambda out"
    ):
        kernels.cross_entropy(tw.zeros((2, 4), f32), tw.zeros((2,), i32), out=(made, made))
    made.close()


def test_an_output_that_is_read_is_refused():
    x = _logits()
    with pytest.raises(tw.BorrowError, match="also read"):
        kernels.softmax(x, out=x)


def test_recorded_in_a_graph():
    x, z = tw.from_numpy(normal((4, 33), np.float32)), tw.zeros((4, 33), f32)
    with tw.graph() as graph:
        graph.record(kernels.softmax(x, out=z))
    tw.fill(z, 0).sync()
    graph.launch().sync()
    check(z, reference.softmax(x.numpy()), np.float32, terms=8)
    chained = kernels.softmax(x).then(kernels.softmax).sync()
    check(chained, reference.softmax(z.numpy()), np.float32, terms=8)
