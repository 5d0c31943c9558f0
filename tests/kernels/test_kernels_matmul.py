"""Matrix products of the library against float64, on sizes that no tile divides."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrix_products import TF32, check, check_grouped, some, stored

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f8e5m2, f16, f32, f64, i32, i64
from tilewright.dtypes import numpy_dtype
from tilewright.kernels import grouped_matmul, matmul, matmul_kernel, matvec
from tilewright.kernels.gemm.once import cut_at_once
from tilewright.kernels.reference import products as reference
from tilewright.tune import Config, forcing

PRIMES = (37, 53, 29)  # M, N, K


@pytest.fixture(autouse=True)
def small_tiles():
    """So that small matrices have several, and assembling them takes no time."""
    with (
        forcing("matmul", Config.of(BM=32, BN=16, BK=16, group=(1, 2, 1))),
        forcing("gemv", Config.of(BM=8, BN=16, BK=64)),
        forcing("grouped_matmul", Config.of(BM=16, BN=16, BK=16)),
    ):
        yield


class TestMatmul:
    @pytest.mark.parametrize("transpose_b", [False, True])
    @pytest.mark.parametrize("transpose_a", [False, True])
    def test_all_transposes(self, transpose_a, transpose_b):
        asked = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        a, b = stored(*PRIMES, transpose_a, transpose_b, f16)
        check(matmul(a, b, **asked).sync(), a, b, **asked)

    @pytest.mark.parametrize("dtype", [bf16, f32, f8e4m3fn, f8e5m2], ids=lambda d: d.label)
    def test_every_dtype(self, dtype):
        a, b = stored(*PRIMES, False, True, dtype)
        result = matmul(a, b, transpose_b=True).sync()
        assert result.dtype is (bf16 if dtype in (f8e4m3fn, f8e5m2) else dtype)
        check(result, a, b, transpose_b=True)

    def test_tf32(self):
        a, b = stored(*PRIMES, False, False, f32)
        check(matmul(a, b, tf32=True).sync(), a, b, factor_rounding=TF32)

    def test_fast_accumulation(self):
        a, b = stored(*PRIMES, False, True, f8e4m3fn)
        result = matmul(a, b, transpose_b=True, fast_accumulate=True, out_dtype=f32).sync()
        check(result, a, b, transpose_b=True, factor_rounding=2.0**-13)

    def test_several_tiles(self):
        a, b = stored(300, 260, 200, False, True, f16)
        check(matmul(a, b, transpose_b=True).sync(), a, b, transpose_b=True)

    @pytest.mark.parametrize("activation", [None, "relu", "gelu", "silu"])
    def test_epilogues(self, activation):
        m, n, k = PRIMES
        a, b = stored(m, n, k, False, False, f16)
        epilogue = {
            "bias": some(n, f32, 3), "activation": activation, "residual": some((m, n), bf16, 4)
        }  # fmt: skip
        out = tw.zeros((m, n), f32)
        assert matmul(a, b, out=out, **epilogue).sync() is out
        check(out, a, b, **epilogue)

    def test_bias_alone_and_residual_alone(self):
        m, n, k = PRIMES
        a, b = stored(m, n, k, False, False, f16)
        for epilogue in ({"bias": some(n, f16, 3)}, {"residual": some((m, n), f16, 4)}):
            check(matmul(a, b, **epilogue).sync(), a, b, **epilogue)

    def test_batches(self):
        a, b = some((3, 20, 29)), some((3, 29, 24), f16, 1)
        epilogue = {"bias": some(24, f16, 2), "residual": some((3, 20, 24), f16, 3)}
        check(matmul(a, b, **epilogue).sync(), a, b, **epilogue)
        check(matmul(a, b[0], **epilogue).sync(), a, b[0], **epilogue)  # one matrix
        check(matmul(a[:, ::2], b[1]).sync(), a[:, ::2], b[1])  # which strides forbid
        check(matmul(a[1], b).sync(), a[1], b)
        check(matmul(a[:, 0], b).sync(), a[:, 0], b)

    @pytest.mark.parametrize("rows", [5, 20])  # by few rows, and by tiles
    def test_batches_of_several_axes(self, rows):
        a, b = some((2, 3, rows, 29)), some((2, 3, 29, 24), f16, 1)
        residual = some((2, 3, rows, 24), f16, 3)
        check(matmul(a, b, residual=residual).sync(), a, b, residual=residual)
        check(matmul(a, b[0, 0]).sync(), a, b[0, 0])
        check(matmul(a[0, 1], b).sync(), a[0, 1], b)
        exchanged = a.permute(0, 1, 3, 2).clone()
        check(matmul(exchanged, b, transpose_a=True).sync(), a, b)
        with pytest.raises(tw.LaunchError, match=r"axes of `b`, .* give it `b.clone\(\)`"):
            matmul(a, some((3, 2, 29, 24)).permute(1, 0, 2, 3))

    def test_strided_operands_and_output(self):
        a, b, out = some((40, 60)), some((60, 50), f16, 1), tw.full((40, 100), 7, f16)
        matmul(a[::2, 1:30], b[1:30], out=out[::2, :50]).sync()
        check(out[::2, :50], a[::2, 1:30], b[1:30])
        assert (out.numpy()[1::2] == 7).all()
        assert (out.numpy()[:, 50:] == 7).all()

    @pytest.mark.parametrize("shape", [(0, 5, 3), (20, 0, 5), (20, 5, 0), (1, 5, 0), (0, 0, 0)])
    def test_empty(self, shape):
        m, n, k = shape
        a, b = stored(m, n, k, False, False, f16)
        epilogue = {"bias": some(n, f16, 3), "activation": "relu", "residual": some((m, n), f16, 4)}
        check(matmul(a, b, **epilogue).sync(), a, b, **epilogue)

    @pytest.mark.parametrize("transpose_b", [False, True])
    @pytest.mark.parametrize("dtype", [f16, f8e4m3fn], ids=lambda d: d.label)
    def test_all_tiles_at_once(self, dtype, transpose_b):
        m, n, k = PRIMES
        a, b = stored(m, n, k, False, transpose_b, dtype)
        epilogue = {"bias": some(n, f32, 3), "activation": "silu", "residual": some((m, n), f16, 4)}
        asked = {"transpose_b": transpose_b, **epilogue}
        with forcing("matmul", Config.of(BM=16, BN=16, BK=16, blocks=12)):
            for given in (asked, {"transpose_b": transpose_b}):
                result = matmul(a, b, out_dtype=f16, **given).sync()
                check(result, a, b, **given)

    @pytest.mark.parametrize(("n", "order"), [(200, (0, 2, 1)), (19, (0, 1, 2))])
    def test_the_order_of_tiles_follows_from_the_weight_alone(self, n, order):
        config = Config.of(BM=16, BN=16, BK=16)
        for m in (19, 67, 300):
            assert cut_at_once(tw.zeros((1, m, n), f16), config).order == order
        turned = config.updated(SWAPPED=True)
        mirrored = {(0, 2, 1): (0, 1, 2), (0, 1, 2): (0, 2, 1)}[order]
        assert cut_at_once(tw.zeros((1, n, 67), f16), turned).order == mirrored

    @pytest.mark.parametrize(("m", "n"), [(19, 67), (67, 19), (19, 200)])
    def test_orders_of_tiles(self, m, n):
        a, b = stored(m, n, 29, False, True, f16)
        for config in (Config.of(BM=16, BN=16, BK=16), Config.of(BM=16, BN=32, BX=16, BK=16)):
            with forcing("matmul", config):
                check(matmul(a, b, transpose_b=True).sync(), a, b, transpose_b=True)

    @pytest.mark.parametrize("n", [144, 136, 131, 50])
    @pytest.mark.parametrize("transpose_b", [False, True])
    def test_tiles_of_two_widths(self, n, transpose_b):
        """Where not every share would have both parts, they have one width."""
        a, b = stored(37, n, 29, False, transpose_b, f16)
        epilogue = {
            "bias": some(n, f32, 3),
            "activation": "silu",
            "residual": some((37, n), f16, 4),
        }
        with forcing("matmul", Config.of(BM=16, BN=32, BX=16, BK=16)):
            for given in ({}, epilogue):
                asked = {"transpose_b": transpose_b, **given}
                check(matmul(a, b, **asked).sync(), a, b, **asked)

    @pytest.mark.parametrize(
        "config",
        [
            Config.of(BM=16, BN=16, BK=16, LATENCY=4, group=(1, 2, 1)),
            Config.of(BM=16, BN=16, BK=16, LATENCY=4, blocks=12),
            Config.of(BM=16, BN=32, BX=16, BK=16, LATENCY=6),
        ],
        ids=str,
    )
    def test_loads_that_start_earlier_or_later(self, config):
        a, b = stored(37, 131, 29, False, True, f16)
        with forcing("matmul", config):
            check(matmul(a, b, transpose_b=True).sync(), a, b, transpose_b=True)

    @pytest.mark.parametrize("splits", [2, 3])
    def test_splits(self, splits):
        a, b = some((2, 40, 100)), some((2, 100, 40), f16, 1)
        epilogue = {"bias": some(40, f16, 2), "activation": "silu"}
        with forcing("matmul", Config.of(BM=32, BN=32, BK=16, SPLITS=splits, group=(1, 2, 1))):
            result = matmul(a, b, **epilogue).sync()
        check(result, a, b, **epilogue)

    @pytest.mark.parametrize(
        "config",
        [
            Config.of(BM=16, BN=32, BK=16, SWAPPED=True),
            Config.of(BM=16, BN=32, BX=16, BK=16, SWAPPED=True),
            Config.of(BM=16, BN=32, BK=16, SPLITS=3, SWAPPED=True),
            Config.of(BM=16, BN=32, BK=16, blocks=3, group=(1, 2, 1), SWAPPED=True),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "batch"])
    def test_the_transposed_product(self, config, batch):
        """A bias belongs to columns: with one, the product is computed as it is."""
        a, b = some((*batch, 37, 100)), some((100, 53), f16, 1)
        residual, bias = some((*batch, 37, 53), f16, 2), some(53, f16, 3)
        for asked in ({}, {"activation": "silu", "residual": residual}, {"bias": bias}):
            with forcing("matmul", config):
                check(matmul(a, b, **asked).sync(), a, b, **asked)

    def test_partial_sums_of_more_splits_than_steps(self):
        a, b = some((20, 100)), some((100, 30), f16, 1)
        with forcing("matmul", Config.of(BM=16, BN=16, BK=32, SPLITS=9)):
            check(matmul(a, b).sync(), a, b)

    def test_in_a_graph(self):
        a, b, out = some((40, 29)), some((29, 53), f16, 1), tw.zeros((40, 53), f16)
        with tw.graph() as g:
            assert g.record(matmul(a, b, out=out)) is out
        g.launch().sync()
        check(out, a, b)
        tw.copy(a, some((40, 29), f16, 5)).sync()
        g.launch().sync()
        check(out, a, b)

    def test_a_chain(self):
        a, b = some((40, 29)), some((29, 40), f16, 1)
        chain = matmul(a, b, activation="relu").then(lambda hidden: matmul(hidden, hidden))
        hidden = matmul(a, b, activation="relu").sync()
        check(chain.sync(), hidden, hidden)

    def test_the_kernel_itself(self):
        a, b, out = some((1, 40, 29)), some((1, 29, 40), f16, 1), tw.zeros((1, 40, 40), f16)
        cut = out.partition(1, 16, 16).persistent()
        matmul_kernel(cut, a, b, a, a, BK=16, FACTOR=f16).sync()
        check(out, a, b)


class TestFewRows:
    @pytest.mark.parametrize("transpose_b", [False, True])
    @pytest.mark.parametrize("rows", [1, 7])
    def test_rows(self, rows, transpose_b):
        a, b = stored(rows, 53, 700, False, transpose_b, f16)
        epilogue = {
            "bias": some(53, f16, 3), "activation": "gelu", "residual": some((rows, 53), f16, 4)
        }  # fmt: skip
        asked = {"transpose_b": transpose_b, **epilogue}
        check(matmul(a, b, **asked).sync(), a, b, **asked)

    @pytest.mark.parametrize(
        ("rows", "k", "folds"), [(1, 160, 4), (5, 64, 2), (5, 63, 2), (5, 72, 2)]
    )
    def test_folded_rows(self, rows, k, folds):
        """Rows that cannot be folded are taken whole."""
        a, b = stored(rows, 53, k, False, True, f16)
        bias = some(53, f16, 3)
        with forcing("gemv", Config.of(BM=8, BN=16, BK=32, FOLDS=folds)):
            result = matmul(a, b, transpose_b=True, bias=bias).sync()
        check(result, a, b, transpose_b=True, bias=bias)

    def test_narrow_factors(self):
        a, b = stored(16, 24, 96, False, True, f8e4m3fn)
        check(matmul(a, b, transpose_b=True).sync(), a, b, transpose_b=True)


class TestMatvec:
    @pytest.mark.parametrize("transpose_a", [False, True])
    @pytest.mark.parametrize("dtype", [f16, bf16, f32, f8e4m3fn], ids=lambda d: d.label)
    def test_dtypes(self, dtype, transpose_a):
        a, x = some((70, 53) if transpose_a else (53, 70), dtype), some(70, dtype, 1)
        self.check(matvec(a, x, transpose_a=transpose_a).sync(), a.T if transpose_a else a, x)

    def test_epilogue_batches_and_outputs(self):
        a, x, out = some((2, 3, 53, 29)), some((2, 3, 29), f16, 1), tw.zeros((2, 3, 106), f32)
        options = {"bias": some(53, f16, 2), "residual": some((2, 3, 53), f16, 3)}
        for _ in range(3):
            matvec(a, x, activation="relu", out=out[..., ::2], **options).sync()
            self.check(out[..., ::2], a, x, activation="relu", **options)
        arrays = {name: option.numpy() for name, option in options.items()}
        exact = reference.matvec(a.numpy(), x.numpy(), activation="relu", **arrays)
        np.testing.assert_allclose(out.numpy()[..., ::2], exact, atol=1e-4)
        assert not out.numpy()[..., 1::2].any()

    @pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
    def test_empty(self, shape):
        a, x = some(shape), some(shape[1])
        self.check(matvec(a, x).sync(), a, x)

    def check(self, found, a, x, **options):
        """A vector is a matrix of one column."""
        columns = {name: option for name, option in options.items() if name == "activation"}
        for name in {"bias", "residual"} & set(options):
            columns[name] = options[name].unsqueeze(-1)
        check(found.unsqueeze(-1), a, x.unsqueeze(-1), **columns)

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: matvec(some(4), some(4)), "`a` of matvec has 2 or more axes"),
            (lambda: matvec(some(A), some(4)), r"`x` of matvec has shape \(4,\), .* \(8,\)"),
            (lambda: matvec(some(A), some((2, 8))), r"`x` of matvec has shape \(2, 8\)"),
            (lambda: matvec(some(A), some(8, f32)), "`x` of matvec is one of f16, not f32"),
            (lambda: matvec(some(A), some(8), bias=some(8)), r"`bias` of matvec .* \(4,\)"),
            (lambda: matvec(some(A), some(8), activation="x"), "`activation` of matvec"),
            (lambda: matvec(some(A), some(8), out=some(5)), r"`out` of matvec .* \(4,\)"),
        ],
    )
    def test_refused(self, call, message):
        with pytest.raises(tw.LaunchError, match=message):
            call()


class TestGrouped:
    @settings(max_examples=10, deadline=None)
    @given(st.lists(st.integers(-3, 40), min_size=4, max_size=4), st.sampled_from([i32, i64]))
    def test_whatever_the_offsets_hold(self, places, dtype):
        with tw.device("cpu"):
            a, b = some((37, 29)), some((3, 29, 24), f16, 1)
            offsets = np.array(places, numpy_dtype(dtype))
            out = tw.full((37, 24), 7, f16)
            with tw.race_check():
                grouped_matmul(a, b, tw.from_numpy(offsets), out=out).sync()
        check_grouped(out, a, b, np.clip(offsets, 0, 37), elsewhere=7.0)

    def test_epilogue(self):
        a, b, offsets = (
            some((70, 40), bf16),
            some((4, 24, 40), bf16, 1),
            np.array([0, 3, 3, 40, 65]),
        )
        options = {
            "transpose_b": True, "activation": "silu",
            "bias": some((4, 24), f32, 2), "residual": some((70, 24), bf16, 3),
        }  # fmt: skip
        made = grouped_matmul(a, b, tw.from_numpy(offsets), out_dtype=f32, **options).sync()
        check_grouped(made, a, b, offsets, elsewhere=0.0, **options)

    def test_nothing_to_do(self):
        offsets = tw.from_numpy(np.array([0], np.int32))
        assert grouped_matmul(some((5, 4)), some((0, 4, 3)), offsets).sync().numpy().sum() == 0
        empty = grouped_matmul(some((0, 4)), some((0, 4, 3)), offsets).sync()
        assert empty.shape == (0, 3)


A, B = (4, 8), (8, 6)


class TestRefused:
    @pytest.mark.parametrize(
        ("a", "b", "options", "message"),
        [
            (A, (7, 6), {}, r"columns of `a` and the rows of `b`, of which there are 8 and 7"),
            (A, B, {"transpose_b": True}, r"8 and 6: shapes \(4, 8\) and \(6, 8\), transposed as"),
            ((8,), B, {}, r"`a` of matmul has 2 or more axes, .* shape \(8,\) has 1"),
            ((1, 3, *A), (1, 2, *B), {}, r"multiplies each matrix of `a` by one of `b`"),
            ((2, *A), (3, *B), {}, r"multiplies each matrix of `a` by one of `b`"),
            (A, B, {"bias": (5,)}, r"`bias` of matmul has shape \(5,\).* ask for \(6,\)"),
            (A, B, {"residual": (6,)}, r"`residual` of matmul has shape \(6,\).* \(4, 6\)"),
            (A, B, {"out": (4, 5)}, r"`out` of matmul has shape \(4, 5\).* \(4, 6\)"),
            (A, B, {"activation": "swish"}, r"is one of None, 'relu', 'gelu', 'silu', not 'swish'"),
            (A, B, {"tf32": True}, r"`tf32` of matmul is for factors of f32, .*are f16: leave"),
            (A, B, {"fast_accumulate": True}, r"is for factors of f8e4m3fn or f8e5m2"),
            (A, B, {"out_dtype": f64}, r"`out_dtype` of matmul is one of .*, not f64"),
            (A, B, {"out_dtype": "f16"}, r"not 'f16'"),
        ],
    )
    def test_matmul(self, a, b, options, message):
        given = {
            name: some(value) if isinstance(value, tuple) else value
            for name, value in options.items()
        }
        with pytest.raises(tw.LaunchError, match=message):
            matmul(some(a), some(b), **given)

    @pytest.mark.parametrize(
        ("make", "error", "message"),
        [
            (
                lambda a, b: matmul([1.0], b),
                tw.LaunchError,
                "`a` of matmul is a tensor or",
            ),
            (lambda a, b: matmul(a, b, out=[1.0]), tw.LaunchError, "`out` of matmul is a tensor"),
            (lambda a, b: matmul(a, some(B, bf16)), tw.LaunchError, "f16 where `b` is bf16"),
            (lambda a, b: matmul(a, some(B, i32)), tw.LaunchError, "`b` of matmul is one of"),
            (
                lambda a, b: matmul(a, tw.zeros(B, f16, device="cpu:1")),
                tw.LaunchError,
                "lives on cpu:1",
            ),
            (lambda a, b: matmul(a, b[:, :4].T, out=a[:, :4]), tw.LaunchError, "8 and 4"),
            (lambda a, b: matmul(a[:, :4], a[:, 4:], out=a[:, :4]), tw.BorrowError, "also read"),
        ],
    )
    def test_operands(self, make, error, message):
        with pytest.raises(error, match=message):
            make(some(A), some(B))

    @pytest.mark.parametrize(
        ("a", "b", "offsets", "message"),
        [
            ((2, *A), (2, *B), (3,), "`a` of grouped_matmul has 2 axes"),
            (A, B, (3,), "`b` of grouped_matmul has 3 axes"),
            (A, (2, *B), (2,), r"`offsets` of grouped_matmul has shape \(2,\).* \(3,\)"),
        ],
    )
    def test_grouped(self, a, b, offsets, message):
        with pytest.raises(tw.LaunchError, match=message):
            grouped_matmul(some(a), some(b), tw.zeros(offsets, i32))
