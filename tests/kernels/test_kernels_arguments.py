"""What functions of the library ask of their arguments, and what they say to others."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import bool_, f8e4m3fn, f16, f32, i8, i32, kernels
from tilewright.kernels.reference import memory_bound as reference


def x():
    return tw.zeros((4, 8), f32)


def heads():
    return tw.zeros((1, 2, 8, 16), f16)


def turned():
    """Axes in an order in which no kernel can walk them as one."""
    return tw.zeros((3, 4, 5), f32).permute(1, 0, 2)


def argmaxes():
    """Results whose axes do not merge."""
    return tw.zeros((3, 4), tw.i64).permute(1, 0)


def scattered():
    """More axes of rows than kernels walk."""
    return tw.zeros((4, 4, 4, 4, 4), f32)[:2, :2, :2, :2, :2]


class TestNumbers:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: kernels.top_k(x(), 2.0), "`k` of top_k is a whole number, not 2.0"),
            (lambda: kernels.top_k(x(), True), "`k` of top_k is a whole number, not True"),
            (lambda: kernels.histogram(tw.zeros(4, i32), "5"), "`bins` of histogram .*, not '5'"),
            (lambda: kernels.sum(x(), (0, 1)), r"`axis` of sum is a whole number, not \(0, 1\)"),
            (lambda: kernels.cumsum(x(), 1.0), "`axis` of cumsum is a whole number, not 1.0"),
            (lambda: kernels.dropout(x(), "half", seed=1), "`share` .* a number, not 'half'"),
            (lambda: kernels.dropout(x(), 0.5, seed=1.5), "`seed` .* a whole number, not 1.5"),
            (lambda: kernels.dropout(x(), 0.5, seed=1, offset=None), "`offset` .*, not None"),
            (lambda: kernels.rms_norm(x(), x()[0], eps="small"), "`eps` .* not 'small'"),
            (lambda: kernels.attention(*[heads()] * 3, window=3.0), "`window` .*, not 3.0"),
            (lambda: kernels.attention(*[heads()] * 3, scale=1j), "`scale` .* number, not 1j"),
            (lambda: kernels.rope(heads(), x(), x(), starts=1.0), "`starts` .*, not 1.0"),
        ],
    )
    def test_refused(self, call, message):
        with pytest.raises(tw.LaunchError, match=message):
            call()

    def test_those_of_numpy_are_numbers(self):
        a = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
        values, _ = kernels.top_k(tw.from_numpy(a), np.int64(2)).sync()
        np.testing.assert_array_equal(values.numpy(), reference.top_k(a, 2)[0])
        found = kernels.sum(tw.from_numpy(a), np.int32(1)).sync().numpy()
        np.testing.assert_allclose(found, a.sum(axis=1), rtol=1e-5)
        same = kernels.attention(*[heads()] * 3, scale=np.float32(0.25), window=np.int64(3))
        assert same.sync().shape == (1, 2, 8, 16)


class TestTensors:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: kernels.softmax([1.0]), "and list is neither: `tw.from_numpy"),
            (
                lambda: kernels.add(x(), 1.0),
                "`y` of add is a tensor .* float is neither",
            ),
            (lambda: kernels.softmax(None), "`x` of softmax .*, and NoneType is neither"),
            # What to convert to loses least of what there is.
            (lambda: kernels.add(*[tw.zeros(4, f8e4m3fn)] * 2), r"convert, `x.astype\(f32\)`"),
            (lambda: kernels.sum(tw.zeros(4, bool_)), r"not bool: convert, `x.astype\(i64\)`"),
            (lambda: kernels.softmax(tw.zeros(4, i8)), r"not i8: convert, `x.astype\(f32\)`"),
            (
                lambda: kernels.cross_entropy(x(), tw.zeros(4, i8)),
                r"`labels` of cross_entropy .*, not i8: convert, `labels.astype\(i64\)`",
            ),
            # The argument that is at fault has its own name.
            (
                lambda: kernels.gelu(scattered().clone(), out=scattered()),
                "the axes of `out`.* 4 axes of rows, and gelu walks 3: give it `out.clone",
            ),
            (
                lambda: kernels.softmax(scattered().clone(), out=scattered()),
                "the axes of `x`.* 4 axes of rows, and softmax walks 3",
            ),
            (lambda: kernels.argmax(turned().clone(), out=argmaxes()), "the axes of `out`"),
            (
                lambda: kernels.cross_entropy_gradient(
                    tw.zeros((2, 4, 8), f32),
                    tw.zeros((2, 4), i32),
                    tw.zeros((2, 4), f32),
                    tw.zeros((4, 2), f32).T,
                ),
                r"the axes of `dloss`, .* give it `dloss.clone\(\)`",
            ),
        ],
    )
    def test_refused(self, call, message):
        with pytest.raises(tw.LaunchError, match=message):
            call()

    @pytest.mark.parametrize(
        "call",
        [
            lambda out: kernels.cross_entropy(x(), tw.zeros(4, i32), out=out),
            lambda out: kernels.add_rms_norm(x(), x(), x()[0], out=out),
            lambda out: kernels.top_k(x(), 8, out=out),
            lambda out: kernels.rms_norm_gradient(x(), x(), x()[0], out=out),
        ],
    )
    def test_an_output_for_each_result(self, call):
        for out, shown in ((x(), "Tensor"), ((x(),), "1 of them"), ((x(),) * 3, "3 of them")):
            with pytest.raises(tw.LaunchError, match=f"a tuple of 2 tensors, .*, not {shown}"):
                call(out)


class TestArraysOfOtherLibraries:
    def test_numpy(self):
        a = np.random.default_rng(0).standard_normal((4, 33)).astype(np.float32)
        out = np.zeros_like(a)
        for _ in range(3):  # also when the call is known
            assert kernels.softmax(a, out=out).sync() is out
            np.testing.assert_allclose(out, reference.softmax(a), rtol=1e-5)
            a += 1
        labels = np.array([1, 32, -1, 7])
        loss = np.zeros(4, np.float32), np.zeros(4, np.float32)
        kernels.cross_entropy(tw.from_numpy(a), labels, out=loss).sync()
        np.testing.assert_allclose(loss[0], reference.cross_entropy(a, labels)[0], atol=1e-5)

    def test_beside_operations(self):
        a = np.ones((2, 4), np.float32)
        total, other = kernels.add(kernels.gelu(a), a).sync(), kernels.gelu(a).sync()
        np.testing.assert_array_equal(total.numpy(), other.numpy() + 1)

    def test_memory_in_between(self):
        q, k = np.ones((2, 4, 16), np.float16), np.ones((2, 2, 9, 16), np.float16)
        lengths, parts = np.array([3, 9], np.int32), kernels.decode_parts(q, k)
        assert (kernels.decode_attention(q, k, k, lengths, parts=parts).sync().numpy() == 1).all()

    def test_an_output_that_is_read_is_refused(self):
        a = np.ones((2, 8), np.float32)
        with pytest.raises(tw.BorrowError, match="also read"):
            kernels.gelu(a[:, :4], out=a[:, 2:6])
        with pytest.raises(tw.LaunchError, match="`x` of gelu is one of"):
            kernels.gelu(np.ones(4, np.int32))

    def test_torch(self):
        torch = pytest.importorskip("torch", reason="needs torch")
        a, b = torch.randn(5, 29), torch.randn(29, 17)
        out = torch.zeros(5, 17)
        for _ in range(3):
            before = out._version
            assert kernels.matmul(a, b, out=out).sync() is out
            assert torch.allclose(out, a @ b, atol=1e-4)
            assert out._version == before + 1
            a, b = a + 1, b.clone()
        made = torch.from_dlpack(kernels.softmax(a).sync())
        assert torch.allclose(made, a.softmax(-1), atol=1e-6)
