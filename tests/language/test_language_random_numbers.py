"""`tw.rand`, `tw.rand4x`: known answers; the same on the host, and however they are cut."""

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import run

import tilewright as tw
from tilewright import Const, DType, Mut, Ref, bf16, f16, f32, f64, i32, i64, u32
from tilewright.dims import B, N, T
from tilewright.lang.philox import philox

FLOATS = [f16, bf16, f32, f64]


@tw.kernel
def numbers(z: Mut[T, B], seed: i64, offset: i64) -> None:
    start = z.index[0].astype(i64) * B
    z.store(tw.rand((B,), z.dtype, seed=seed, offset=offset + start))


@tw.kernel
def all_random(z: Mut[f64, B], seed: u32, *, D: Const[DType] = f32) -> None:
    narrow = tw.rand((B,), D, seed=seed, offset=z.index[0])
    z.store(tw.rand((B,), f64, seed=7) + narrow.astype(f64))


class Plain:
    """Words as Python numbers."""

    def product(self, word, factor):
        return word * factor >> 32, word * factor & 0xFFFFFFFF

    def exclusive_or(self, *words):
        return words[0] ^ words[1] ^ words[2]

    def sum(self, word, step):
        return word + step & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        (0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (0xFFFFFFFF, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ],
)
def test_the_generator_gives_the_published_answers(word, wanted):
    assert philox(Plain(), (word,) * 4, (word,) * 2) == wanted


@tw.kernel
def four_at_once(z: Mut[f32, Literal[4], B], places: Ref[T, N], seed: i64) -> None:
    (row, i), parts = z.index, z.partition(1, B)
    numbers = tw.rand4x(places.partition(B)[i + row], f32, seed=seed)
    for k in tw.static_range(4):
        parts.store(numbers[k].reshape(1, B), k, 0)


@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.int64, np.uint64])
def test_four_numbers_of_one_place(kind):
    places = np.random.default_rng(0).integers(0, np.iinfo(kind).max, 37, kind, endpoint=True)
    got = run(four_at_once, ((4, 37), f32), (4, 16), places, 5 << 32 | 7)
    for column, place in zip(got.T, places.tolist(), strict=True):
        words = philox(Plain(), (place & 0xFFFFFFFF, place >> 32, 0, 0), (7, 5))
        assert column.tolist() == [(word >> 8) * 2.0**-24 for word in words]
    first = tw.rand((1,), f32, seed=5 << 32 | 7, offset=int(places[0])).numpy()
    assert got[0, 0] == first[0]


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(FLOATS),
    st.integers(0, 70),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**63), 2**63 - 200),
    st.sampled_from([1, 4, 16, 64]),
)
def test_a_kernel_gives_the_numbers_of_the_host(dtype, n, seed, offset, tile):
    got = run(numbers, ((n,), dtype), tile, seed, offset)
    wanted = tw.rand((n,), dtype, seed=seed, offset=offset).numpy()
    np.testing.assert_array_equal(got.view(np.uint8), wanted.view(np.uint8))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.label)
def test_an_element_depends_on_its_own_number_alone(dtype):
    whole = tw.rand((100,), dtype, seed=3, offset=2**32 - 50).numpy()
    part = tw.rand((7, 5), dtype, seed=3, offset=2**32 - 30).numpy()
    np.testing.assert_array_equal(whole[20:55], part.reshape(-1))
    assert (tw.rand((100,), dtype, seed=4).numpy() != whole).any()
    for seed, offset in ((3 - 2**64, 2**32 - 50), (3, 2**32 - 50 + 2**64)):
        again = tw.rand((100,), dtype, seed=seed, offset=offset).numpy()
        np.testing.assert_array_equal(again, whole)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.label)
def test_numbers_are_spread_evenly_and_below_one(dtype):
    x = tw.rand((1 << 16,), dtype, seed=1).numpy().astype(np.float64)
    assert (x >= 0).all()
    assert (x < 1).all()
    counts, _ = np.histogram(x, 16, (0, 1))
    assert abs(counts - 4096).max() < 400
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.02


def test_scalars_of_any_dtype_are_seeds():
    @tw.kernel
    def seeded(z: Mut[f32, B], small: i32, large: u32) -> None:
        z.store(tw.rand((B,), f32, seed=small) + tw.rand(B, f32, seed=large, offset=small))

    got = run(seeded, ((16,), f32), 16, -2, 2**32 - 2)
    first = tw.rand((16,), f32, seed=-2).numpy()
    second = tw.rand((16,), f32, seed=2**32 - 2, offset=-2).numpy()
    np.testing.assert_array_equal(got, first + second)


def test_dropout():
    @tw.kernel
    def dropout(z: Mut[f32, B], x: Ref[f32, N], p: f32, seed: i32) -> None:
        keep = tw.rand((B,), f32, seed=seed, offset=z.index[0] * B) >= p
        z.store(tw.where(keep, x.load_like(z) / (1 - p), 0))

    x = np.ones(1000, np.float32)
    got = run(dropout, ((1000,), f32), 32, x, 0.25, 9)
    keep = tw.rand((1000,), f32, seed=9).numpy() >= 0.25
    np.testing.assert_allclose(got, np.where(keep, x / np.float32(0.75), 0), rtol=1e-6)


def test_the_host_refuses_what_is_no_float():
    with pytest.raises(tw.LaunchError, match=r"tw\.rand makes f16, bf16, f32, f64, not i32"):
        tw.rand((4,), i32)
