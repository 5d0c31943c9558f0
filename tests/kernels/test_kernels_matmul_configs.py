"""Which tiles a product is computed with: legal ones, whatever the shape, the dtype and the GPU."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f16, f32
from tilewright.kernels.gemm.configs import MOST_ROWS, choose_gemv, choose_matmul
from tilewright.kernels.gemm.operands import ProductRequest, product
from tilewright.kernels.gemm.tiles import HALF, NARROW, SHALLOW
from tilewright.kernels.gemm.wide import first_columns
from tilewright.tune import Config, forcing

EXTENTS = st.integers(1, 3000) | st.sampled_from([4096, 8192, 151936])


def wanted(m, n, k, dtype=f16, target="sm_90", **options):
    a, b = tw.meta((m, k), dtype, target=target), tw.meta((n, k), dtype, target=target)
    return product(a, b.T, ProductRequest("matmul", **options))[0]


@settings(max_examples=60)
@given(EXTENTS, EXTENTS, EXTENTS, st.sampled_from([f16, bf16, f32, f8e4m3fn]))
def test_a_tile_is_found_for_every_shape(m, n, k, dtype):
    for target in ("sm_80", "sm_90", "sm_120"):
        one = wanted(m, n, k, dtype, target)
        config = (choose_gemv if m <= MOST_ROWS else choose_matmul)(one.form)
        edges = [config[name] for name in ("BM", "BN", "BK")]
        assert all(edge & (edge - 1) == 0 for edge in edges)


def test_a_large_product_gets_large_tiles_and_a_small_one_enough_of_them():
    assert choose_matmul(wanted(8192, 8192, 8192).form)["BM"] == 256
    small = choose_matmul(wanted(1024, 1024, 1024).form)
    assert 1024**2 // (small["BM"] * small["BN"]) > 100


def test_what_cannot_be_read_in_tiles_gets_small_ones():
    for one in (wanted(8192, 8192, 8191), wanted(8192, 8192, 8192, f32)):
        config = choose_matmul(one.form)
        assert max(config["BM"], config["BN"]) == 64
    assert choose_matmul(wanted(8192, 8192, 8192, f32, tf32=True).form)["BM"] == 128


def test_a_forced_configuration_is_taken():
    config = Config.of(BM=16, BN=16, BK=16)
    with forcing("matmul", config):
        assert choose_matmul(wanted(100, 100, 100).form) is config


@pytest.mark.parametrize("tiles", [HALF, SHALLOW, NARROW], ids=["half", "shallow", "narrow"])
def test_more_work_is_expected_to_take_longer(tiles):
    for tile in tiles:
        width = tile.config["BN"] + tile.config.values.get("BX", 0)
        (little, _), *_ = tile.plans(128, width, 64)
        (more, _), *_ = tile.plans(128, width, 128)
        (most, _), *_ = tile.plans(8192, 64 * width, 128)
        assert 0 < little < more < most


def test_what_is_left_of_whole_rounds_is_split():
    config = choose_matmul(wanted(2048, 51200, 5120).form)
    assert config["SPLITS"] > 1
    assert 0 < config["TAIL"] < 51200
    assert config["TAIL"] % config["BN"] == 0


def test_an_output_that_tiles_of_two_widths_cover_in_a_round_gets_them():
    config = choose_matmul(wanted(512, 6144, 2560).form)
    assert 512 // config["BM"] * 6144 // (config["BN"] + config["BX"]) <= config["blocks"]
    batch = product(
        tw.meta((2, 256, 2560), f16, target="sm_90"),
        tw.meta((2, 2560, 6144), f16, target="sm_90"),
        ProductRequest("matmul"),
    )[0]
    assert "BX" not in choose_matmul(batch.form).values


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
