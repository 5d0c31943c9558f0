"""Products of the library as tileiras sees them: TMA, tensor cores, nothing spilled."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings")
pytest.importorskip("torch")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))

import profiles  # noqa: E402

import tilewright as tw  # noqa: E402
from tilewright import f16  # noqa: E402
from tilewright.backends.cuda.toolchain import OPT_LEVEL  # noqa: E402
from tilewright.kernels import matmul  # noqa: E402
from tilewright.kernels.gemm.configs import choose_product  # noqa: E402
from tilewright.kernels.gemm.operands import ProductRequest, product  # noqa: E402
from tilewright.tune import forcing  # noqa: E402

SHARED_MEMORY = 227 << 10  # bytes that a block of sm_90 can have


def looked_at(m, n, k):
    """As the library chooses, with a hint that only says what is so anyway.

    Nobody else has that one, and of what was assembled before nothing would be heard.
    """
    a, b, out = (tw.meta(shape, f16, target="sm_90") for shape in ((m, k), (n, k), (m, n)))
    wanted, _ = product(a, b, ProductRequest("matmul", out=out, transpose_b=True))
    config = choose_product(wanted.form).updated(opt_level=OPT_LEVEL)
    with forcing("matmul", config), profiles._listening() as listener:
        return list(profiles._look(listener, lambda: matmul(a, b, out=out, transpose_b=True)))


@pytest.mark.parametrize(
    ("shape", "kernel"),
    [
        ((1024, 1024, 1024), "matmul_once_kernel"),
        ((4096, 4096, 4096), "matmul_kernel"),
        ((512, 6144, 2560), "matmul_wide_kernel"),
    ],
)
def test_the_tiles_that_are_chosen_use_the_units_for_tiles(shape, kernel):
    (found,) = looked_at(*shape)
    assert found["kernel"] == kernel
    assert found["stack_bytes"] == 0
    assert found["shared_memory"] <= SHARED_MEMORY
    for unit in ("TMA Load", "TMA Store", "Tensor-core SM90"):
        assert unit in found["summary"]
    assert "Failed" not in found["summary"]
