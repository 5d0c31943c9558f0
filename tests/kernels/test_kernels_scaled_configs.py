"""Which tiles a product with scales is computed with, and what the assembler makes of them."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import bf16, bytecode, f8e4m3fn, f16, f32
from tilewright.backends.cuda import program
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.jit.compile import executable
from tilewright.jit.compile.launch_warnings import TOLERATED
from tilewright.kernels import scaled_matmul, warm_up_scaled
from tilewright.kernels.gemm.configs import choose_scaled
from tilewright.kernels.gemm.operands import Family, ProductRequest
from tilewright.kernels.gemm.scaled import launch_scaled, launch_scaled_parts
from tilewright.kernels.gemm.scaled_operands import scaled_product
from tilewright.kernels.gemm.splits import parts_of
from tilewright.kernels.gemm.tiles import tiles_of

REQUEST = ProductRequest("scaled_matmul", transpose_b=True)
KINDS = (None, "tensor", "row", "part")


def product_of(m, n=4096, k=4096, dtype=f8e4m3fn, kinds=("part", "block"), target="sm_90"):
    parts = -(-k // 128)
    shapes = {
        "tensor": lambda _: (1,),
        "row": lambda rows: (rows, 1),
        "part": lambda rows: (rows, parts),
        "block": lambda rows: (-(-rows // 128), parts),
    }
    of_a, of_b = (
        None if kind is None else tw.meta(shapes[kind](rows), f32, target=target)
        for kind, rows in zip(kinds, (m, n), strict=True)
    )
    a, b = tw.meta((m, k), dtype, target=target), tw.meta((n, k), f8e4m3fn, target=target)
    return scaled_product(a, b, (of_a, of_b), REQUEST)[0]


def stack_of(launch):
    """Bytes of a thread in memory, of the kernel that takes most."""
    found = [one.stack_bytes for program in launch.programs for one in program.result().resources()]
    launch.close()
    return max(found)


EXTENTS = st.integers(1, 3000) | st.sampled_from([4096, 8192])


@settings(max_examples=60, deadline=None)
@given(EXTENTS, EXTENTS, EXTENTS, st.sampled_from([f8e4m3fn, bf16, f16]), st.sampled_from(KINDS))
def test_a_tile_is_found_for_every_shape(m, n, k, dtype, kind):
    for target in ("sm_90", "sm_100", "sm_120"):
        for of_b in ("row", "block"):
            form = product_of(m, n, k, dtype, (kind, of_b), target).product.form
            config = choose_scaled(form)
            if form.depth is not None:
                assert config["BK"] == 128
            assert config["BN"] % config.values.get("PIECES", 1) == 0


# The large tiles of each family; the others have fewer sums in a thread.
@pytest.mark.parametrize(
    ("dtype", "kinds", "family"),
    [
        (f8e4m3fn, ("row", "row"), Family.EXACT),
        (f8e4m3fn, ("part", "block"), Family.GROUPED),
        (bf16, (None, "row"), Family.CONVERTED),
        (bf16, (None, "block"), Family.CONVERTED_GROUPED),
    ],
    ids=lambda one: one.value if isinstance(one, Family) else "",
)
def test_the_large_tiles_do_not_spill(dtype, kinds, family):
    form = product_of(4096, dtype=dtype, kinds=kinds).product.form
    assert form.family is family
    tiles = tiles_of("sm_90", form.factor, family)
    wanted = [product_of(4096, dtype=dtype, kinds=kinds) for _ in range(4)]
    made = [launch_scaled(one, tile.config) for one, tile in zip(wanted, tiles[:3], strict=False)]
    split = next(tile for tile in tiles if tile.splits)
    parts = parts_of(wanted[3].product, 2)
    made.append(launch_scaled_parts(wanted[3], split.config, parts))
    found = [stack_of(one) for one in made]
    assert max(found) <= TOLERATED, found


@pytest.mark.parametrize("target", ["sm_100", "sm_120"])
def test_other_gpus_do_not_spill(target):
    made = []
    for dtype in (f8e4m3fn, bf16):
        for rows in (16, 4096):
            wanted = product_of(rows, dtype=dtype, target=target)
            made.append(launch_scaled(wanted, choose_scaled(wanted.product.form)))
    found = [stack_of(one) for one in made]
    assert max(found) <= TOLERATED, found


def test_gpus_without_8_bit_floats_say_so():
    with pytest.raises(
        tw.CompileError, match="f8e4m3fn does not exist on sm_89; it came with sm_90"
    ):
        scaled_matmul(*(tw.meta((64, 64), f8e4m3fn, target="sm_89") for _ in "ab"))


@pytest.mark.parametrize("dtype", [f8e4m3fn, bf16], ids=lambda d: d.label)
@pytest.mark.parametrize("kinds", [("row", "row"), ("part", "block")], ids=str)
def test_tensor_cores_and_tma_are_used(dtype, kinds, monkeypatch):
    """For rows and weights; scales are a few numbers beside them."""
    said = []

    def assemble(module, target, _):
        encoded = bytecode.encode_in_oldest(module)
        cubin, remarks = find_toolchain().assemble_with_remarks(encoded, target)
        said.append({remark.message for remark in remarks if remark.passed})
        return cubin

    monkeypatch.setattr(program, "assemble", assemble)
    monkeypatch.setattr(executable.disk_cache, "open_cache", lambda: None)
    for rows in (16, 300):
        wanted = product_of(rows, dtype=dtype, kinds=kinds)
        config = choose_scaled(wanted.product.form).updated(LATENCY=7)  # not compiled before
        stack_of(launch_scaled(wanted, config))
    assert len(said) == 2
    for messages in said:
        assert any("TMA Load" in message for message in messages)
        assert any("Tensor-core SM90" in message for message in messages)


class TestWarmUp:
    @pytest.mark.parametrize(("dtype", "kind"), [(f8e4m3fn, "part"), (bf16, None)])
    def test_no_number_of_rows_needs_another_kernel(self, dtype, kind, monkeypatch):
        weight = tw.meta((512, 1024), f8e4m3fn, target="sm_90")
        scale, said = tw.meta((4, 8), f32, target="sm_90"), []
        made = warm_up_scaled(
            weight, scale, dtype=dtype, kind=kind, transpose_b=True,
            report=lambda *so_far: said.append(so_far),
        )  # fmt: skip
        assert 3 <= made <= 8
        assert said == [(done, made) for done in range(1, made + 1)]
        module = sys.modules["tilewright.kernel"]
        monkeypatch.setattr(module, "make_executable", lambda *_: pytest.fail("compiled"))
        for m in (1, 2, 3, 16, 17, 40, 100, 300, 1001, 3000, 8192):
            x = tw.meta((m, 1024), dtype, target="sm_90")
            x_scale = None if kind is None else tw.meta((m, 8), f32, target="sm_90")
            scaled_matmul(x, weight, x_scale, scale, transpose_b=True).close()

    def test_rows_that_are_not_even_and_the_cpu(self):
        weight = tw.meta((333, 1001), f8e4m3fn, target="sm_90")
        assert 3 <= warm_up_scaled(weight, report=lambda *_: None) <= 9
        on_cpu = tw.zeros((32, 48), f8e4m3fn, device="cpu")
        assert warm_up_scaled(on_cpu, dtype=bf16, report=lambda *_: None) >= 1

    def test_another_kind_is_refused(self):
        with pytest.raises(tw.LaunchError, match=r"`kind` of warm_up_scaled is one of None, 'ten"):
            warm_up_scaled(tw.zeros((32, 48), f8e4m3fn), kind="block")
