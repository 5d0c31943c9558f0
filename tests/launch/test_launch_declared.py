"""How functions of tensors are declared, and operations as their arguments."""

import gc
import weakref

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mut, Ref, f32, kernels
from tilewright.dims import B, N
from tilewright.jit.plans.config_override import CONFIG_CACHES

LENGTH, TILE = 40, 16


@tw.kernel
def scaled(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N], factor: f32) -> None:
    z.store(x.load_like(z) * factor + y.load_like(z))


@tw.function
def combined(
    x: tw.Tensor, y: tw.Tensor, *, by: float = 2.0, out: tw.Tensor | None = None
) -> tw.DeviceOp[tw.Tensor]:
    """`by * x + y`."""
    z = tw.empty(x.shape, x.dtype, device=x.device) if out is None else out
    if z.shape != x.shape:
        raise tw.LaunchError("another shape")
    return scaled(z.partition(TILE), x, y, by).giving(z)


def drawn(seed, shape=(LENGTH,)):
    return tw.from_numpy(np.random.default_rng(seed).standard_normal(shape, "f4"))


def test_a_function_says_of_itself_what_it_was_written_as():
    assert combined.__doc__ == "`by * x + y`."
    assert combined.__name__ == combined.__qualname__ == "combined"
    with pytest.raises(
        TypeError, match=r"combined\(\) missing 1 required positional argument: 'y'"
    ):
        combined(drawn(0))
    with pytest.raises(TypeError, match="unexpected keyword argument 'oops'"):
        combined(drawn(0), drawn(1), oops=1)


def of_several(x: tw.Tensor, *more: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
    raise AssertionError


def of_hidden(x: tw.Tensor, _y: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
    raise AssertionError


def of_unknown(x: "Unknown") -> tw.DeviceOp[tw.Tensor]:  # noqa: F821
    raise AssertionError


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (of_several, r"`\*more: .*Tensor` of function `of_several`: .* each has a name of its own"),
        (of_hidden, "`_y: .*` of function `of_hidden`: .* no `_` in front"),
        (of_unknown, "of function `of_unknown` .* not known where it is declared: .*'Unknown'"),
        (lambda x: x, "defined by `def`, not <function <lambda>"),
        (scaled, "defined by `def`, not <kernel scaled>"),
    ],
)
def test_what_cannot_be_found_again_is_refused_when_it_is_declared(body, message):
    with pytest.raises(tw.CompileError, match=message):
        tw.function(body)


def test_a_function_that_is_gone_has_nothing_to_forget():
    @tw.function
    def short_lived(x: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
        return combined(x, x)

    short_lived(drawn(0)).sync()
    calls = weakref.ref(short_lived.__globals__["_calls"])
    del short_lived
    gc.collect()
    assert calls() is None
    CONFIG_CACHES.invalidate()


class TestOperationsAsArguments:
    def test_one(self):
        x, y = drawn(0), drawn(1)
        z = combined(combined(x, y), y).sync()
        np.testing.assert_allclose(z.numpy(), 4 * x.numpy() + 3 * y.numpy(), rtol=1e-5)

    def test_one_that_is_given_twice_and_one_for_the_output(self):
        x, y, z = drawn(0), drawn(1), tw.zeros((LENGTH,), f32)
        inner = combined(x, y)
        assert combined(inner, inner, out=tw.fill(z, 0)).sync() is z
        np.testing.assert_allclose(z.numpy(), 6 * x.numpy() + 3 * y.numpy(), rtol=1e-5)

    def test_what_is_wrong_is_said_when_it_is_known(self):
        x, y = drawn(0), drawn(1)
        operation = combined(combined(x, y), y, out=tw.zeros((3,), f32))
        with pytest.raises(tw.LaunchError, match="another shape") as caught:
            operation.sync()
        assert "combined was called at tests" in caught.value.__notes__[0]

    def test_several_results_are_no_tensor(self):
        x, y = drawn(0), drawn(1)
        both = tw.zip(combined(x, y), combined(x, y))
        with pytest.raises(tw.LaunchError, match="`x` of combined"):
            combined(both, y)
        both.close()

    def test_a_pair_is_one_where_a_pair_is_asked_for(self):
        x, w = drawn(0, (4, 8)), tw.ones((8,), f32)
        pair = tw.zip(tw.fill(tw.empty((4, 8), f32), 0), tw.fill(tw.empty((4, 8), f32), 0))
        normed, total = kernels.add_rms_norm(
            x, tw.fill(tw.empty((4, 8), f32), 0), w, out=pair
        ).sync()
        np.testing.assert_array_equal(total.numpy(), x.numpy())
        assert normed.shape == (4, 8)

    def test_how_many_results_there_will_be_is_known(self):
        x, w, zero = drawn(0, (4, 8)), tw.ones((8,), f32), tw.zeros((4, 8), f32)
        normed, total = kernels.add_rms_norm(tw.fill(tw.empty((4, 8), f32), 1), x, w).unzip()
        tw.zip(normed, total.then(lambda sums: tw.copy(zero, sums))).sync()
        np.testing.assert_allclose(zero.numpy(), x.numpy() + 1, rtol=1e-6)
