"""Products with scales against float64: every kind of scale, dtype, layout and form."""

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrix_products import some

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f8e5m2, f16, f32
from tilewright.kernels import matmul, scaled_matmul
from tilewright.kernels.reference import products as reference
from tilewright.tune import Config, forcing

KINDS = ("none", "tensor", "vector", "row", "part", "block")
PAIRS = [(f8e4m3fn, f8e4m3fn), (f8e5m2, f8e5m2), (f8e4m3fn, f8e5m2), (bf16, f8e4m3fn),
         (f16, f8e5m2), (f8e4m3fn, bf16), (f16, f16)]  # fmt: skip
EXTENTS = st.integers(1, 300)
FORMS = [
    Config.of(BM=32, BN=64, BK=128, group=(1, 2, 1)),
    Config.of(BM=32, BN=128, BK=128, PIECES=2, blocks=3),
    Config.of(BM=16, BN=256, BK=128),
    Config.of(BM=256, BN=64, BK=128, PIECES=4),
    Config.of(BM=32, BN=64, BK=128, SPLITS=2, PIECES=2),
    Config.of(BM=32, BN=32, BK=128, SWAPPED=True),
    Config.of(BM=32, BN=32, BK=128, SPLITS=3, SWAPPED=True),
]


@contextmanager
def tiles_of(target):
    """Tiles of another target, on the CPU."""
    with tw.device("cpu") as device:
        before, device.target = device.target, target
        try:
            yield
        finally:
            device.target = before


def scales(kind, rows, k, seed):
    """Positive scales of a factor of so many rows, over a few octaves."""
    blocks, parts = -(-rows // 128), -(-k // 128)
    shapes = {"tensor": (1,), "vector": (rows,), "row": (rows, 1), "part": (rows, parts),
              "block": (blocks, parts)}  # fmt: skip
    if kind == "none":
        return None
    drawn = np.random.default_rng(seed).uniform(-3, 3, shapes[kind])
    return tw.from_numpy(np.exp2(drawn).astype(np.float32))


def check(shape, dtypes, kinds, *, transpose_a=False, transpose_b=True, seed=0, **options):
    """A random product is within the error that the arithmetic may have."""
    m, n, k = shape
    a = some((k, m) if transpose_a else (m, k), dtypes[0], seed)
    b = some((n, k) if transpose_b else (k, n), dtypes[1], seed + 1)
    a_scale, b_scale = scales(kinds[0], m, k, seed + 2), scales(kinds[1], n, k, seed + 3)
    if transpose_a and a_scale is not None and a_scale.ndim == 2:
        a_scale = a_scale.T
    if not transpose_b and b_scale is not None and b_scale.ndim == 2:
        b_scale = b_scale.T
    asked = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    found = scaled_matmul(a, b, a_scale, b_scale, out_dtype=f32, **asked, **options).sync()
    x, y = (one.numpy() for one in (a, b))
    of_a, of_b = (None if one is None else one.numpy() for one in (a_scale, b_scale))
    left = reference.scaled(x, of_a, is_row=transpose_a)
    right = reference.scaled(y, of_b, is_row=not transpose_b)
    arrays = {name: value.numpy() if isinstance(value, tw.Tensor) else value
              for name, value in options.items()}  # fmt: skip
    wanted = reference.matmul(left, right, **asked, **arrays)
    sizes = reference.matmul(abs(left), abs(right), **asked)
    bound = reference.rounding_bound(sizes + 10, k, wanted, out_rounding=2.0**-24)
    assert (abs(found.numpy() - wanted) <= bound).all(), abs(found.numpy() - wanted).max()


class TestForms:
    @settings(max_examples=20, deadline=None)
    @given(
        st.tuples(st.integers(1, 40) | EXTENTS, EXTENTS, st.integers(1, 400)),
        st.sampled_from(PAIRS), st.sampled_from(KINDS), st.sampled_from(KINDS),
        st.booleans(), st.booleans(), st.sampled_from(["cpu", "sm_90", "sm_120"]),
    )  # fmt: skip
    def test_any_product(self, shape, dtypes, of_a, of_b, transpose_a, transpose_b, target):
        with tiles_of(target):
            turned = {"transpose_a": transpose_a, "transpose_b": transpose_b}
            check(shape, dtypes, (of_a, of_b), **turned)

    @pytest.mark.parametrize("kinds", [("none", "row"), ("part", "block")])
    @pytest.mark.parametrize("config", FORMS, ids=str)
    def test_every_form_with_an_epilogue(self, config, kinds):
        bias, residual = some(150, bf16, 5), some((70, 150), f16, 6)
        with forcing("scaled_matmul", config):
            for added in ({}, {"residual": residual, "activation": "silu"}, {"bias": bias}):
                check((70, 150, 300), (f8e4m3fn, f8e4m3fn), kinds, **added)

    @pytest.mark.parametrize("kinds", [("row", "row"), ("part", "block"), ("none", "part")])
    @pytest.mark.parametrize(("rows", "k"), [(1, 1024), (5, 512), (16, 256), (3, 130)])
    @pytest.mark.parametrize("dtype", [f8e4m3fn, bf16], ids=lambda d: d.label)
    def test_few_rows(self, dtype, rows, k, kinds):
        """Rows are folded as often as whole parts of K allow."""
        with tiles_of("sm_90"):
            check((rows, 200, k), (dtype, f8e4m3fn), kinds, bias=some(200, f32, 7))

    def test_factors_along_the_other_axis_are_copied_where_that_pays(self):
        with tiles_of("sm_90"):
            check((520, 70, 130), (f8e4m3fn, f8e4m3fn), ("part", "block"), transpose_b=False)
            check((17, 530, 140), (f8e4m3fn, f8e4m3fn), ("row", "row"), transpose_a=True)

    def test_fast_accumulation(self):
        a, b, one = some((40, 300), f8e4m3fn), some((300, 50), f8e4m3fn, 1), tw.ones(1, f32)
        found = scaled_matmul(a, b, one, one, fast_accumulate=True).sync()
        assert (found.numpy() == matmul(a, b, fast_accumulate=True).sync().numpy()).all()

    @pytest.mark.parametrize("shape", [(0, 5, 130), (5, 0, 130), (20, 5, 0), (1, 5, 0)])
    def test_empty(self, shape):
        m, n, k = shape
        a, b = some((m, k), f8e4m3fn), some((k, n), f8e4m3fn)
        found = scaled_matmul(a, b, tw.ones(1, f32), bias=some(n, f32, 3)).sync()
        assert found.shape == (m, n)
        assert (found.numpy() == some(n, f32, 3).astype(bf16).numpy()).all()

    def test_more_axes_of_rows_and_an_output(self):
        a, b = some((2, 3, 260), f8e4m3fn), some((40, 260), f8e4m3fn, 1)
        for kind in ("tensor", "vector", "row", "part"):
            of_a, of_b = scales(kind, 6, 260, 2), scales("block", 40, 260, 3)
            flat = scaled_matmul(a.reshape(6, 260), b, of_a, of_b, transpose_b=True).sync()
            out = tw.empty((2, 3, 40), bf16)
            lead = of_a if kind == "tensor" else of_a.reshape(2, 3, *of_a.shape[1:])
            assert scaled_matmul(a, b, lead, of_b, transpose_b=True, out=out).sync() is out
            assert (out.numpy().reshape(6, 40) == flat.numpy()).all()

    def test_results_are_those_of_a_product_without_scales(self):
        a, b = some((33, 300), f8e4m3fn), some((300, 40), f8e4m3fn, 1)
        found, wanted = scaled_matmul(a, b).sync(), matmul(a, b).sync()
        assert found.dtype is bf16
        assert (found.numpy() == wanted.numpy()).all()

    def test_in_a_graph(self):
        a, b, of_b = some((20, 256), bf16), some((256, 64), f8e4m3fn, 1), scales("row", 64, 256, 2)
        out = tw.zeros((20, 64), bf16)
        with tw.graph() as graph:
            scaled_matmul(a, b, None, of_b.T, out=out).submit()
        graph.launch().sync()
        assert (out.numpy() == scaled_matmul(a, b, None, of_b.T).sync().numpy()).all()


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"a_scale": (20, 2)}, r"`a_scale` of scaled_matmul has shape \(20, 2\): a factor of 20"
             r" rows and 300 elements along K takes one number, \(20,\), \(20, 1\), \(20, 3\),"
             r" \(1, 3\); blocks of rows and parts of K are 128 long"),
            ({"b_scale": (40, 3)}, r"`b_scale` of scaled_matmul has shape \(40, 3\): a factor of 40"
             r" rows .*, \(40,\), \(1, 40\), \(3, 40\), \(3, 1\);"),
            ({"a": (20, 301)}, r"sums over the columns of `a` and the rows of `b`, of which there"
             r" are 301 and 300"),
            ({"b": (2, 300, 40)}, r"`b` of scaled_matmul has 2 axes"),
            ({"bias": (41,)}, r"`bias` of scaled_matmul has shape \(41,\)"),
        ],
    )  # fmt: skip
    def test_shapes(self, change, message):
        shapes = {"a": (20, 300), "b": (300, 40), **change}
        dtypes = {"a": f8e4m3fn, "b": f8e4m3fn}
        given = {name: tw.zeros(one, dtypes.get(name, f32)) for name, one in shapes.items()}
        with pytest.raises(tw.LaunchError, match=message):
            scaled_matmul(**given)

    def test_dtypes(self):
        a, b = some((20, 130), f32), some((130, 40), f8e4m3fn)
        with pytest.raises(tw.LaunchError, match=r"`a` of scaled_matmul is one of .* not f32"):
            scaled_matmul(a, b)
        with pytest.raises(tw.LaunchError, match=r"f16 and bf16 .* `b.astype\(bf16\)`"):
            scaled_matmul(a.astype(bf16), b.astype(f16))
        with pytest.raises(tw.LaunchError, match=r"`b_scale` of scaled_matmul is one of f32, bf16"):
            scaled_matmul(a.astype(bf16), b, None, tw.zeros(1, f8e4m3fn))

    def test_fast_accumulation_of_parts_and_of_16_bits(self):
        a, b, parts = some((20, 260), f8e4m3fn), some((260, 40), f8e4m3fn), tw.ones((20, 3), f32)
        with pytest.raises(tw.LaunchError, match=r"the same for all of K; .* leave it out"):
            scaled_matmul(a, b, parts, fast_accumulate=True)
        with pytest.raises(tw.LaunchError, match="`fast_accumulate` of scaled_matmul is for"):
            scaled_matmul(a.astype(bf16), b, fast_accumulate=True)

    def test_axes_that_are_no_rows(self):
        a, b = some((4, 3, 2, 260), f8e4m3fn).permute(1, 0, 2, 3), some((260, 8), f8e4m3fn)
        with pytest.raises(tw.LaunchError, match=r"axes of `a`.* give it `a.clone\(\)`"):
            scaled_matmul(a, b)
