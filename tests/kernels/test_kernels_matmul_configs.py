"""Which tiles a product is computed with: legal ones, whatever the shape, the dtype and the GPU."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f16, f32
from tilewright.kernels import matmul, warm_up
from tilewright.kernels.gemm.configs import choose_product, menu_for
from tilewright.kernels.gemm.operands import ProductRequest, product
from tilewright.kernels.gemm.tiles import HALF, MOST_KERNELS, NARROW, ProductSize, menu_of
from tilewright.kernels.gemm.warm_up import _launches
from tilewright.kernels.gemm.wide import first_columns
from tilewright.tune import Config, forcing

EXTENTS = st.integers(1, 3000) | st.sampled_from([4096, 8192, 151936])


def wanted(m, n, k, dtype=f16, target="sm_90", **options):
    a, b = tw.meta((m, k), dtype, target=target), tw.meta((n, k), dtype, target=target)
    return product(a, b.T, ProductRequest("matmul", **options))[0]


def assembled(launch):
    """The code of a launch, which is not run."""
    found = [program.result().cubin for program in launch.programs]
    launch.close()
    return found


@settings(max_examples=60)
@given(EXTENTS, EXTENTS, EXTENTS, st.sampled_from([f16, bf16, f32, f8e4m3fn]))
def test_a_tile_is_found_for_every_shape(m, n, k, dtype):
    for target in ("sm_80", "sm_90", "sm_120"):
        one = wanted(m, n, k, dtype, target)
        config = choose_product(one.form)
        edges = [config[name] for name in ("BM", "BN", "BK")]
        assert all(edge & (edge - 1) == 0 for edge in edges)


def test_a_large_product_gets_large_tiles_and_a_small_one_enough_of_them():
    assert choose_product(wanted(8192, 8192, 8192).form)["BM"] == 256
    small = choose_product(wanted(1024, 1024, 1024).form)
    assert 1024**2 // (small["BM"] * small["BN"]) > 100


def test_what_cannot_be_read_in_tiles_gets_small_ones():
    for one in (wanted(8192, 8192, 8191), wanted(8192, 8192, 8192, f32)):
        config = choose_product(one.form)
        assert max(config["BM"], config["BN"]) == 64
    assert choose_product(wanted(8192, 8192, 8192, f32, tf32=True).form)["BM"] == 128


def test_a_forced_configuration_is_taken():
    config = Config.of(BM=16, BN=16, BK=16)
    with forcing("matmul", config):
        assert choose_product(wanted(100, 100, 100).form) is config


@pytest.mark.parametrize("tiles", [HALF, NARROW], ids=["half", "narrow"])
def test_more_work_is_expected_to_take_longer(tiles):
    for tile in tiles:
        rows, columns, depth = tile.extents
        sizes = [
            ProductSize(1, rows, columns, 64 * depth),
            ProductSize(1, rows, columns, 128 * depth),
            ProductSize(1, 88 * rows, columns, 128 * depth),
        ]
        sizes = [size.swapped if tile.is_swapped else size for size in sizes]
        little, more, most = (min(time for time, _ in tile.plans(size)) for size in sizes)
        assert 0 < little < more < most


def test_rows_that_begin_inside_of_lines_are_expected_to_take_longer():
    size = ProductSize(1, 4096, 4096, 4096)
    for tile in HALF:
        if tile.splits:
            continue
        times = [
            min(time for time, _ in tile.plans(size._replace(pitch_a=pitch, pitch_b=pitch)))
            for pitch in (8192, 8192 + 64, 8192 + 32, 8192 + 16)
            if [*tile.plans(size)]
        ]
        assert times == sorted(times)


class TestSplits:
    def test_a_long_sum_of_few_tiles_is_split(self):
        config = choose_product(wanted(128, 128, 30000).form)
        assert config["SPLITS"] > 4
        assert "SPLITS" not in choose_product(wanted(4096, 4096, 30000).form).values

    def test_few_rows_of_few_weights_are_split(self):
        assert choose_product(wanted(2, 280, 9488).form)["SPLITS"] > 1
        assert "FOLDS" in choose_product(wanted(2, 4096, 4096).form).values

    @settings(max_examples=40)
    @given(EXTENTS, EXTENTS, st.integers(1, 40000))
    def test_every_split_has_steps(self, m, n, k):
        for tile in HALF:
            for _, config in tile.plans(ProductSize(1, m, n, k)):
                splits = config.values.get("SPLITS", 1)
                assert splits == 1 or (k + config["BK"] - 1) // config["BK"] >= 4 * splits


def test_an_output_that_tiles_of_two_widths_cover_in_a_round_gets_them():
    config = choose_product(wanted(512, 6144, 2560).form)
    assert 512 // config["BM"] * 6144 // (config["BN"] + config["BX"]) <= 132
    batch = product(
        tw.meta((2, 256, 2560), f16, target="sm_90"),
        tw.meta((2, 2560, 6144), f16, target="sm_90"),
        ProductRequest("matmul"),
    )[0]
    assert "BX" not in choose_product(batch.form).values


class TestMenu:
    """Any number of rows against one weight needs few kernels."""

    @settings(max_examples=12, deadline=None)
    @given(st.integers(8, 4096), st.integers(8, 4096), st.data())
    def test_every_number_of_rows_is_served_from_it(self, n, k, data):
        n, k = 8 * n, 8 * k
        menu = {tile.config for tile in menu_for(wanted(64, n, k).form)}
        for _ in range(20):
            m = data.draw(st.integers(17, 8192))
            config = choose_product(wanted(m, n, k).form)
            assert config.updated(SPLITS=1) in {one.updated(SPLITS=1) for one in menu}

    @settings(max_examples=12, deadline=None)
    @given(st.integers(8, 4096), st.integers(8, 4096))
    def test_it_is_small_and_nearly_as_good_as_all_tiles(self, n, k):
        size = ProductSize(1, 0, 8 * n, 8 * k)
        menu = menu_of(HALF, size)
        assert sum(tile.kernels for tile in menu) <= MOST_KERNELS
        for m in (17, 100, 1000, 8192):
            one = size._replace(m=m)
            best, of_menu = (
                min(time for tile in tiles for time, _ in tile.plans(one)) for tiles in (HALF, menu)
            )
            assert of_menu < 2 * best

    def test_a_bias_is_never_swapped(self):
        weights = tw.meta((4096, 4096), f16, target="sm_90")
        bias = tw.meta((4096,), f16, target="sm_90")
        for m in (17, 24, 33, 90, 150):
            x = tw.meta((m, 4096), f16, target="sm_90")
            request = ProductRequest("matmul", bias=bias, transpose_b=True)
            form = product(x, weights, request)[0].form
            assert not choose_product(form).values.get("SWAPPED")


UNASSEMBLED = "sm_89"  # no test of this process looks at its code


class TestWarmUp:
    @pytest.mark.usefixtures("no_tileiras")
    def test_it_compiles_every_kernel_of_a_weight(self):
        weight, said = tw.meta((512, 1024), f16, target=UNASSEMBLED), []
        count = warm_up(weight, transpose_b=True, report=lambda *so_far: said.append(so_far))
        assert 3 <= count <= 8
        assert said == [(done, count) for done in range(1, count + 1)]

    def test_no_number_of_rows_needs_another_kernel(self):
        weight = tw.meta((512, 1024), f16, target="sm_90")
        request = ProductRequest("matmul", transpose_b=True)
        warm = [code for launch in _launches(weight, request) for code in assembled(launch)]
        for m in (1, 2, 16, 17, 40, 100, 300, 1000, 3000, 8192):
            x = tw.meta((m, 1024), f16, target="sm_90")
            assert set(assembled(matmul(x, weight, transpose_b=True))) <= set(warm)

    @pytest.mark.usefixtures("no_tileiras")
    def test_weights_whose_rows_are_not_even(self):
        weight = tw.meta((333, 1001), f16, target=UNASSEMBLED)
        assert 2 <= warm_up(weight, report=lambda *_: None) <= 9

    def test_the_cpu(self):
        assert warm_up(tw.zeros((32, 48), f32, device="cpu")) >= 1

    def test_what_is_no_weight_is_refused(self):
        with pytest.raises(tw.LaunchError, match="`b` of matmul has 2 or more axes"):
            warm_up(tw.zeros((32,), f32, device="cpu"))

    def test_a_terminal_shows_progress(self, monkeypatch, capsys):
        monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
        count = warm_up(tw.zeros((32, 48), f32, device="cpu"))
        assert f"compiled {count} of {count} kernels" in capsys.readouterr().err


TWO_WIDTHS = Config.of(BM=128, BN=128, BX=64, BK=64)


@pytest.mark.parametrize("n", [145, 210, 2560, 2570, 5120, 19456])
def test_every_share_has_something_of_both_widths(n):
    edge = first_columns(n, TWO_WIDTHS)
    assert -(-edge // 128) == -(-(n - edge) // 64) == -(-n // 192)
    assert edge % 16 == 0


@pytest.mark.parametrize("n", [10, 193, 200])
def test_what_is_too_little_for_another_share_has_one_width(n):
    assert first_columns(n, TWO_WIDTHS) is None
    assert first_columns(n, Config.of(BM=128, BN=128, BK=64)) is None


def test_both_kinds_of_half_floats_have_one_record():
    assert wanted(512, 512, 512, bf16).form.key == wanted(512, 512, 512).form.key
    assert wanted(512, 512, 512, f8e4m3fn).form.key != wanted(512, 512, 512).form.key
