"""Rotary positions and caches of the library against NumPy."""

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f16, f32, f64, i8, i32, kernels
from tilewright.dtypes import numpy_dtype
from tilewright.kernels.reference import attention as reference

PLACES = 60


def tables(half):
    angles = np.outer(np.arange(PLACES), 10_000.0 ** (-np.arange(half) / half))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def tensors(*arrays):
    return tuple(tw.from_numpy(array) for array in arrays)


class TestRope:
    @pytest.mark.parametrize("interleaved", [False, True])
    @pytest.mark.parametrize("starts", [0, 7, [3, 30], [-2, 50]])
    @pytest.mark.parametrize(
        ("heads", "places", "channels"), [(3, 21, 32), (8, 1, 64), (1, 29, 2), (3, 21, 12)]
    )
    def test_turned(self, interleaved, starts, heads, places, channels):
        first = starts if isinstance(starts, int) else np.array(starts, np.int32)
        x = np.random.default_rng(0).standard_normal((2, heads, places, channels))
        x, angles = x.astype(np.float16), tables(channels // 2)
        given = first if isinstance(first, int) else tw.from_numpy(first)
        found = kernels.rope(*tensors(x, *angles), starts=given, interleaved=interleaved).sync()
        wanted = reference.rope(x, *angles, starts=first, interleaved=interleaved)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=2**-10, atol=1e-6)

    @pytest.mark.parametrize("dtype", [bf16, f32])
    def test_dtypes(self, dtype):
        rounding = 2**-8 if dtype is bf16 else 1e-6
        x = np.random.default_rng(0).standard_normal((1, 2, 9, 16)).astype(np.float32)
        x = x.astype(ml_dtypes.bfloat16) if dtype is bf16 else x
        angles = tables(8)
        found = kernels.rope(*tensors(x, *angles)).sync()
        wanted = reference.rope(x, *angles)
        np.testing.assert_allclose(
            found.numpy().astype(np.float64), wanted, rtol=rounding, atol=1e-6
        )

    @pytest.mark.parametrize("channels", [8, 6])
    def test_elements_that_lie_apart(self, channels):
        x = np.random.default_rng(0).standard_normal((1, 9, 3, 2 * channels)).astype(np.float32)
        angles, out = tables(channels // 2), tw.zeros((1, 3, 9, 2 * channels), f32)
        given = tw.from_numpy(x).permute(0, 2, 1, 3)[..., ::2]
        kernels.rope(given, *tensors(*angles), out=out[..., 1::2]).sync()
        wanted = reference.rope(given.numpy(), *angles)
        np.testing.assert_allclose(out.numpy()[..., 1::2], wanted, rtol=1e-5, atol=1e-6)
        assert not out.numpy()[..., ::2].any()

    def test_places_without_a_row_give_zeros(self):
        x = np.ones((1, 1, 4, 4), np.float32)
        starts = tw.from_numpy(np.array([PLACES - 2], np.int32))
        found = kernels.rope(*tensors(x, *tables(2)), starts=starts).sync().numpy()
        assert found[0, 0, :2].all()
        assert not found[0, 0, 2:].any()

    def test_recorded(self):
        x = np.random.default_rng(0).standard_normal((1, 2, 9, 16)).astype(np.float32)
        ours = tensors(x, *tables(8))
        out = tw.zeros(x.shape, f32)
        with tw.graph() as g:
            g.record(kernels.rope(*ours, starts=2, out=out))
        g.launch().sync()
        wanted = kernels.rope(*ours, starts=2).sync().numpy()
        np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"x": tw.zeros((2, 9, 16), f16)}, r"axes \(sequence, head, place, channel\)"),
            ({"x": tw.zeros((1, 2, 9, 15), f16)}, "channels an even number"),
            ({"x": tw.zeros((1, 2, 9, 16), f64)}, "`x` of rope is one of f16, bf16, f32"),
            ({"sines": tw.zeros((60, 4), f32)}, r"`sines` .* shape \(60, 4\)"),
            ({"cosines": tw.zeros((60, 8), f16)}, "`cosines` of rope is one of f32"),
            ({"starts": 52}, "52, and the 9 places from there on do not lie in tables of 60"),
            ({"starts": -1}, "do not lie in tables"),
            ({"starts": tw.zeros(2, i32)}, r"`starts` of rope has shape \(2,\)"),
        ],
    )
    def test_refused(self, changed, message):
        table = tw.zeros((60, 8), f32)
        given = {"x": tw.zeros((1, 2, 9, 16), f16), "cosines": table, "sines": table, **changed}
        with pytest.raises(tw.LaunchError, match=message):
            kernels.rope(**given)


def in_lines(array):
    """A tensor whose tokens follow each other."""
    return tw.from_numpy(array)


def with_gaps(array):
    """A tensor with room for other elements behind each token."""
    wide = np.zeros((*array.shape[:-1], array.shape[-1] + 8), array.dtype)
    wide[..., : array.shape[-1]] = array
    return tw.from_numpy(wide)[..., : array.shape[-1]]


@pytest.mark.parametrize("layout", [in_lines, with_gaps])
class TestAppendLayouts:
    @pytest.mark.parametrize("tokens", [1, 5, 40])
    @pytest.mark.parametrize("starts", [(4, 4, 4), (3, 47, -2), (2**31 - 1, -(2**31), 50)])
    def test_rows_land_where_they_are_told_to(self, tokens, starts, layout):
        random = np.random.default_rng(0)
        caches = random.standard_normal((2, 3, 6, 50, 24)).astype(np.float16)
        new = random.standard_normal((2, 3, 6, tokens, 24)).astype(np.float16)
        first = np.array(starts, np.int32)
        with tw.race_check():
            done = kernels.append_kv(
                *tensors(*caches), *map(layout, new), tw.from_numpy(first)
            ).sync()
        for found, cache, rows in zip(done, caches, new, strict=True):
            wanted = reference.append_kv(cache, rows, first.astype(np.int64))
            np.testing.assert_array_equal(found.numpy(), wanted)

    @pytest.mark.parametrize(
        "places", [701, 512, 1536]
    )  # walked over, or dealt out in 1 or 3 rounds
    @pytest.mark.parametrize("starts", [(3, 470, -2), (2**31 - 1, 128, -(2**31))])
    def test_many_rows_fill_whole_tiles_and_parts_of_them(self, starts, places, layout):
        random = np.random.default_rng(1)
        caches = random.standard_normal((2, 3, 2, places, 24)).astype(np.float16)
        new = random.standard_normal((2, 3, 2, 307, 24)).astype(np.float16)
        first = np.array(starts, np.int32)
        with tw.race_check():
            done = kernels.append_kv(
                *tensors(*caches), *map(layout, new), tw.from_numpy(first)
            ).sync()
        for found, cache, rows in zip(done, caches, new, strict=True):
            wanted = reference.append_kv(cache, rows, first.astype(np.int64))
            np.testing.assert_array_equal(found.numpy(), wanted)

    @pytest.mark.parametrize("dtype", [f8e4m3fn, f32, i8], ids=lambda dtype: dtype.label)
    @pytest.mark.parametrize(("tokens", "places"), [(3, 50), (40, 50), (40, 256)])
    def test_caches_of_other_dtypes(self, tokens, places, dtype, layout):
        random, kind = np.random.default_rng(0), numpy_dtype(dtype)
        caches = (random.standard_normal((2, 1, 2, places, 24)) * 9).astype(kind)
        new = (random.standard_normal((2, 1, 2, tokens, 24)) * 9).astype(kind)
        first = np.array([7], np.int32)
        done = kernels.append_kv(*tensors(*caches), *map(layout, new), tw.from_numpy(first)).sync()
        for found, cache, rows in zip(done, caches, new, strict=True):
            wanted = reference.append_kv(cache, rows, first)
            np.testing.assert_array_equal(found.numpy().view(np.uint8), wanted.view(np.uint8))


class TestAppend:
    def test_places_before_heads(self):
        random = np.random.default_rng(2)
        caches = random.standard_normal((2, 2, 256, 3, 32)).astype(np.float16)
        new = random.standard_normal((2, 2, 3, 128, 32)).astype(np.float16)
        first = np.array((100, 64), np.int32)
        views = [tw.from_numpy(cache).permute(0, 2, 1, 3) for cache in caches]
        done = kernels.append_kv(*views, *tensors(*new, first)).sync()
        for found, cache, rows in zip(done, caches, new, strict=True):
            wanted = reference.append_kv(cache.transpose(0, 2, 1, 3), rows, first.astype(np.int64))
            np.testing.assert_array_equal(found.numpy(), wanted)

    def test_nothing_to_write(self):
        cache = tw.zeros((2, 3, 50, 16), f16)
        new = tw.zeros((2, 3, 0, 16), f16)
        kernels.append_kv(cache, cache.clone(), new, new, tw.zeros(2, i32)).sync()
        more = tw.ones((2, 3, 40, 16), f16)
        for some in (cache[:, :, :0], cache[:, :0], cache[:0]):
            given = more[: len(some), : some.shape[1]]
            kernels.append_kv(some, some.clone(), given, given, tw.zeros(len(some), i32)).sync()

    @pytest.mark.parametrize(
        ("changed", "error", "message"),
        [
            ({"k": (2, 3, 4)}, tw.LaunchError, "`k` of append_kv has the axes"),
            ({"k": (2, 2, 4, 16)}, tw.LaunchError, r"`k` .* shape \(2, 2, 4, 16\)"),
            ({"v": (2, 3, 5, 16)}, tw.LaunchError, r"`v` .* shape \(2, 3, 5, 16\)"),
            ({"values": (2, 3, 9, 16)}, tw.LaunchError, "`values` of append_kv has shape"),
        ],
    )
    def test_refused(self, changed, error, message):
        shapes = {"keys": (2, 3, 50, 16), "values": (2, 3, 50, 16)}
        shapes |= {"k": (2, 3, 4, 16), "v": (2, 3, 4, 16), **changed}
        given = {name: tw.zeros(shape, f16) for name, shape in shapes.items()}
        with pytest.raises(error, match=message):
            kernels.append_kv(**given, starts=tw.zeros(2, i32))

    def test_one_cache_for_both_is_refused(self):
        cache, new = tw.zeros((2, 3, 50, 16), f16), tw.zeros((2, 3, 4, 16), f16)
        with pytest.raises(tw.BorrowError):
            kernels.append_kv(cache, cache, new, new, tw.zeros(2, i32))
