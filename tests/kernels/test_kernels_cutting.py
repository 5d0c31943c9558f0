"""Whatever the configuration, the result is the same; and which one is chosen for which shape."""

import numpy as np
import pytest
from library_cases import check, normal

import tilewright as tw
from tilewright import bf16, f16, f32, kernels
from tilewright.kernels import cutting, large_tiles
from tilewright.kernels.reference import memory_bound as reference
from tilewright.tune import Config, forcing

X = normal((5, 100), np.float32)


def given(*arrays):
    return [tw.from_numpy(array) for array in arrays]


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize(("rows", "part"), [(2, 16), (8, 128), (1, 32), (1, 4)])
def test_rows_by_any_configuration(rows, part, is_kept, monkeypatch):
    """A configuration of other rows is legal: in parts, or with more rows than there are."""
    monkeypatch.setattr(cutting, "ENOUGH", 1)
    monkeypatch.setattr(cutting, "WIDEST_BYTES", cutting.WIDEST_BYTES if is_kept else 0)
    with forcing("softmax", Config.of(BM=rows, PART=part)):
        found = kernels.softmax(*given(X)).sync()
    check(found, reference.softmax(X), np.float32, terms=8)
    weight, bias = normal((2, 100), np.float32, seed=1)
    with forcing("layer_norm", Config.of(BM=rows, PART=part)):
        found = kernels.layer_norm(*given(X, weight, bias)).sync()
    check(found, reference.layer_norm(X, weight, bias), np.float32, terms=16)


@pytest.mark.parametrize("config", [(1, 16, 1), (4, 8, 2), (2, 64, 4)])
def test_spans_by_any_configuration(config):
    """Spans of a row in several blocks, and of those again."""
    of_rows = Config.of(**dict(zip(("BM", "PART", "SPAN"), config, strict=True)))
    of_columns = Config.of(**dict(zip(("BK", "PART", "SPAN"), config, strict=True)))
    with forcing("sum", of_rows):
        found = kernels.sum(*given(X), 1).sync()
    check(found, reference.reduce("sum", X, 1), np.float32, terms=16)
    with forcing("max", of_columns):
        found = kernels.max(*given(X), 0).sync()
    np.testing.assert_array_equal(found.numpy(), X.max(axis=0))
    with forcing("cumsum", of_rows):
        found = kernels.cumsum(*given(X)).sync()
    check(found, reference.cumsum(X), np.float32, terms=16)
    with forcing("argmax", of_rows):
        found = kernels.argmax(*given(X)).sync()
    np.testing.assert_array_equal(found.numpy(), X.argmax(axis=1))


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize(("rows", "part"), [(1, 32), (8, 128), (4, 16)])
def test_gradients_by_any_configuration(rows, part, is_kept, monkeypatch):
    weight, dz = normal((100,), np.float32, seed=1), normal(X.shape, np.float32, seed=2)
    chosen = Config.of(BM=rows, PART=part, SPAN=2, BK=16)
    monkeypatch.setattr(cutting, "WIDEST_BYTES", cutting.WIDEST_BYTES if is_kept else 0)
    with forcing("layer_norm_gradient", chosen):
        found = kernels.layer_norm_gradient(*given(dz, X, weight)).sync()
    for one, expected in zip(found, reference.layer_norm_gradient(dz, X, weight), strict=True):
        check(one, expected, np.float32, terms=64)


def chosen(name, shape, dtype=f16):
    """Rows and elements of a block's tiles, and how many of the parts of a row are kept."""
    x = tw.meta(shape, dtype, target="sm_90")
    config = cutting.row_config(name, x)
    how = cutting.in_parts(config, x)
    return config["BM"], how["PART"], how["KEPT"]


@pytest.mark.parametrize("name", ["softmax", "rms_norm", "layer_norm", "add_rms_norm"])
@pytest.mark.parametrize("columns", [1, 7, 64, 1000, 1100, 2560, 5120, 8192, 12289])
def test_rows_that_fit_are_kept(name, columns):
    for dtype in (f16, bf16, f32):
        rows, part, count = chosen(name, (16384, columns), dtype)
        assert columns <= count * part < columns + part
        assert rows * count * part <= 16384
        few, part, count = chosen(name, (1, columns), dtype)
        assert few == 1
        assert columns <= count * part < columns + part


def test_long_rows_are_read_in_parts():
    for name in ("softmax", "rms_norm", "cross_entropy"):
        rows, part, count = chosen(name, (4096, 151936))
        assert (rows, count) == (1, 0)
        assert part < 32768


def test_elements_in_short_rows_share_a_tile():
    short = tw.meta((100_000, 60), f16, target="sm_90")[:, 3:]
    config = cutting.element_config("what nobody has measured", short)
    assert (config["BM"] * config["PART"], config["PART"]) == (2048, 32)


SHAPES = [(1, 1), (3, 70), (512, 1024), (2595, 101), (1 << 20, 1), (1, 1 << 20), (7, 100_003)]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_cpu_takes_few_large_tiles(shape):
    """A tile is as large as allowed, or has room for everything."""
    x = tw.meta(shape, f32, target="cpu")
    rows, columns = shape
    for choose in (cutting.row_config, cutting.logits_config, cutting.element_config):
        config = choose("softmax", x)
        blocks = -(-rows // config["BM"]) * -(-columns // config["PART"])
        assert config["BM"] * config["PART"] <= large_tiles.TILE
        assert blocks <= 2 * rows * columns // large_tiles.TILE + 2


@pytest.mark.parametrize("shape", SHAPES)
def test_the_cpu_cuts_long_rows_between_few_blocks(shape):
    x = tw.meta(shape, f32, target="cpu")
    rows, columns = shape
    for name, choose in (("sum", cutting.span_config), ("cumsum", cutting.scan_config)):
        config = choose(name, x)
        spans = -(-columns // (config["PART"] * config["SPAN"]))
        assert config["BM"] * config["PART"] <= large_tiles.REDUCED
        assert -(-rows // config["BM"]) * spans <= 2 * rows * columns // large_tiles.TILE + 16


def test_a_row_that_fits_a_tile_of_the_cpu_is_kept():
    for columns, kept in ((large_tiles.TILE, 1), (large_tiles.TILE + 1, 0)):
        x = tw.meta((4, columns), f32, target="cpu")
        assert cutting.in_parts(cutting.row_config("softmax", x), x)["KEPT"] == kept


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (17, 305, 429), (4096, 4096, 32)])
def test_products_on_the_cpu_have_few_blocks(m, n, k):
    """The part of a tile outside costs nothing: its panels end with the tensor."""
    config = large_tiles.products(m, n, k)
    for extent, edge in ((m, config["BM"]), (n, config["BN"])):
        assert edge >= min(extent, large_tiles.PRODUCT)
    assert config["BM"] * config["BN"] <= large_tiles.PRODUCT**2
