"""Kernels whose tiles do not fit: a warning with the line and the figures, once, or none at all."""

import warnings
from types import SimpleNamespace

import pytest

import tilewright as tw
from tilewright import Cut, Mut, PerformanceWarning, Ref, f16, f32
from tilewright.backends.cuda.cubin import Resources
from tilewright.check.placement import Placement
from tilewright.dims import BM, BN, K, M, N
from tilewright.errors import ToolchainError
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.jit.compile.compiled import Request
from tilewright.jit.compile.launch_warnings import TOLERATED, SpillTeller
from tilewright.kernels.rows.softmaxes import softmax_rows


@tw.kernel(deny_checks=True)
def product(z: Mut[f16, Cut[M, BM], Cut[N, BN]], x: Ref[f16, M, K], y: Ref[f16, K, N]) -> None:
    i, j = z.index
    xs, ys = x.partition(BM, 64), y.partition(64, BN)
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc = tw.mma(xs[i, k], ys[k, j], acc)
    z.store(acc.astype(f16))


def teller(kernel, target="sm_80", **chosen):
    spec = sample_specialization(kernel.signature, target, {"BM": 256, "BN": 256, **chosen})
    request = Request(kernel.source, kernel.signature, spec, kernel.options, Placement.EARLIEST)
    return SpillTeller(request), kernel.specialized(spec).facts


def code(*stacks):
    entries = tuple(Resources("product", 255, 0, stack, 256) for stack in stacks)
    return SimpleNamespace(resources=lambda: entries)


def told(one, facts, program):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        one.tell(facts, program)
    return caught


def test_spills_are_told_once_at_the_line_that_holds_most():
    one, facts = teller(product)
    (warning,) = told(one, facts, code(1120))
    assert warning.category is PerformanceWarning
    assert str(warning.message) == (
        "`product` specialised for z: f16[256, 256], x: f16[M, K], y: f16[K, N] on sm_80 keeps "
        "1,120 bytes of each thread in memory instead of registers (spills), which may cost most "
        "of its speed: here it holds 262,144 bytes of tiles at once, and the registers of its 256 "
        "threads have 261,120; choose smaller tiles"
    )
    assert warning.filename == __file__
    assert warning.lineno == product.source.node.lineno + 5
    assert told(one, facts, code(1120)) == []


def test_the_way_out_names_hints_that_are_left():
    one, facts = teller(product, "sm_90")
    narrow = SimpleNamespace(**{**vars(facts), "hints": tw.Hints(num_worker_warps=4)})
    (warning,) = told(one, narrow, code(8672))
    assert str(warning.message).endswith(
        "choose smaller tiles, or give the hint num_worker_warps=8, or give the hint num_ctas=2"
    )


def test_a_round_that_shared_memory_cannot_hold_is_told():
    one, facts = teller(product, "sm_120")
    large = SimpleNamespace(**vars(facts))
    large.pressure = SimpleNamespace(words=1, location=None, round_bytes=262_144)
    (warning,) = told(one, large, code(500))
    wanted = "a round of its loop loads 262,144 bytes, and a block has 101,376 of shared memory"
    assert wanted in str(warning.message)
    assert warning.lineno == product.source.node.lineno


@pytest.mark.parametrize("program", [code(0), code(TOLERATED), code()])
def test_a_few_bytes_are_not_told(program):
    one, facts = teller(product)
    assert told(one, facts, program) == []


def test_code_that_states_no_resources_is_not_told():
    def unknown():
        raise ToolchainError("this is no cubin")

    one, facts = teller(product)
    assert told(one, facts, SimpleNamespace(resources=unknown)) == []


def test_kernels_of_the_library_are_tuned_and_do_not_tell():
    one, _ = teller(softmax_rows, "sm_90")
    _, facts = teller(product)
    assert told(one, facts, code(1120)) == []


def test_a_warning_that_is_an_error_comes_again():
    one, facts = teller(product)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PerformanceWarning)
        for _ in range(2):
            with pytest.raises(PerformanceWarning):
                one.tell(facts, code(1120))


def test_the_assembler_and_the_disk_cache_tell_alike(tmp_path, monkeypatch):
    """A spilling kernel is told when it is assembled, and again where another process finds it."""
    from tilewright.jit.cache.disk import open_cache
    from tilewright.settings import current_settings

    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    current_settings.cache_clear()
    open_cache.cache_clear()
    try:
        for _ in range(2):
            x, y, z = (tw.meta((512, 512), f16, target="sm_90") for _ in "xyz")
            fresh = tw.kernel(deny_checks=True, num_worker_warps=4)(product.source.function)
            operation = fresh.with_hints(num_ctas=1)(z.partition(128, 256), x, y)
            with pytest.warns(PerformanceWarning, match="bytes of each thread in memory"):
                operation.compile()
            operation.close()
    finally:
        current_settings.cache_clear()
        open_cache.cache_clear()
