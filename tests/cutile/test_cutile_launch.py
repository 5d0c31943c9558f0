"""Programs of cuTile Python run on the CPU as they are: arguments, behaviour, the command."""

import enum
import math
import subprocess
import sys

import cuda.tile as ct
import ml_dtypes
import numpy as np
import pytest
from cutile_kernels import PROGRAMS

import tilewright as tw
from tilewright import cutile


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=lambda program: program.name)
def test_kernels_of_cutile_give_what_numpy_gives(program):
    """Arguments are described by themselves: no signature is written."""
    arguments = program.arguments()
    kernel = ct.kernel(program.kernel, **program.hints)
    with cutile.on_cpu(strict=True, race_check=True):
        ct.launch(None, program.grid, kernel, arguments)
    for place, wanted in program.expect(*program.arguments()).items():
        np.testing.assert_allclose(
            arguments[place].astype(np.float64),
            wanted.astype(np.float64),
            rtol=program.tolerance,
            atol=program.tolerance,
        )


@ct.kernel
def scaled_sum(x, y, z, B: ct.Constant[int], factor):
    i = ct.bid(0)
    ct.store(z, (i,), ct.load(x, (i,), (B,)) + ct.load(y, (i,), (B,)) * factor)


@ct.kernel
def far_away(x, z):
    ct.store(z, (ct.bid(0),), ct.load(x, (ct.bid(0) + 5,), (64,)) + 1)


@ct.kernel
def far_store(x, z):
    ct.store(z, (ct.bid(0) + 5,), ct.load(x, (ct.bid(0),), (64,)))


@ct.kernel
def everybody_at_zero(z):
    ct.store(z, (0,), ct.full((64,), ct.bid(0), ct.float32))


@ct.kernel
def truth_of_floats(x, z):
    told = ct.astype(ct.load(x, (0,), (64,)), ct.bool_)
    ct.store(z, (0,), ct.astype(told, ct.int32))


@ct.kernel
def sum_of_lists(arrays, numbers, z):
    total = ct.zeros((64,), ct.float32)
    for i in range(len(arrays)):
        total += ct.load(arrays[i], (0,), (64,))
    ct.store(z, (0,), total + numbers[0] * numbers[1])


@ct.kernel
def transposed(x, z, B: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(z, (j, i), ct.transpose(ct.load(x, (i, j), (B, B))))


def test_scalars_and_constants():
    x, y, z = np.arange(100, dtype=np.float32), ones(100), np.zeros(100, np.float32)
    cutile.launch(None, (2,), scaled_sum, (x, y, z, 64, 2.0))
    np.testing.assert_array_equal(z, x + 2)
    cutile.launch(None, (4,), scaled_sum, (x, y, z, 32, np.float32(3)))
    np.testing.assert_array_equal(z, x + 3)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64, np.int32])
def test_dtypes_of_numpy(dtype):
    x, y, z = ones(70, dtype=dtype), ones(70, dtype=dtype), np.zeros(70, dtype)
    cutile.launch(None, (2,), scaled_sum, (x, y, z, 64, 2))
    np.testing.assert_array_equal(z.astype(np.float64), np.full(70, 3.0))


def test_lists_and_tuples():
    x, y, z = np.arange(64, dtype=np.float32), ones(64), np.zeros(64, np.float32)
    cutile.launch(None, (1,), sum_of_lists, ([x, y, x], (2.0, 3.0), z))
    np.testing.assert_array_equal(z, 2 * x + 7)


def test_views_with_strides_and_axes_of_one_element():
    """The stride of an axis of one element promises nothing, whatever it is."""
    base = np.arange(6 * 40, dtype=np.float32).reshape(6, 40)
    for x in (
        base[:, ::2],
        base.T,
        base[2:3, 1:],
        np.lib.stride_tricks.as_strided(base, (1, 8), (4, 4)),
    ):
        z = np.zeros(x.shape[::-1], np.float32)
        grid = (-(-x.shape[0] // 16), -(-x.shape[1] // 16))
        with cutile.on_cpu(strict=True, race_check=True):
            cutile.launch(None, grid, transposed, (x, z, 16))
        np.testing.assert_array_equal(z, x.T)


def test_one_array_as_input_and_output():
    x = np.arange(128, dtype=np.float32)
    with cutile.on_cpu(race_check=True):
        ct.launch(None, (2,), scaled_sum, (x, x, x, 64, 1.0))
    np.testing.assert_array_equal(x, 2 * np.arange(128, dtype=np.float32))


def test_a_tile_wholly_outside_is_padding_or_reported():
    x, z = ones(100), np.zeros(100, np.float32)
    cutile.launch(None, (2,), far_away, (x, z))
    np.testing.assert_array_equal(z, ones(100))
    cutile.launch(None, (2,), far_store, (np.zeros(100, np.float32), z))
    np.testing.assert_array_equal(z, ones(100))
    for kernel in (far_away, far_store):
        with (
            cutile.on_cpu(strict=True),
            pytest.raises(tw.UndefinedBehaviourError, match="outside the view"),
        ):
            ct.launch(None, (2,), kernel, (x, z))


def test_a_float_is_true_unless_it_is_zero():
    x = np.array([0.0, -0.0, 0.5, -7.0, np.inf, 1e-30, 300.0, 1.0] * 8, np.float32)
    z = np.zeros(64, np.int32)
    cutile.launch(None, (1,), truth_of_floats, (x, z))
    np.testing.assert_array_equal(z, x != 0)


def test_races_are_reported_with_both_blocks():
    z = np.zeros(100, np.float32)
    cutile.launch(None, (2,), everybody_at_zero, (z,))
    with (
        cutile.on_cpu(race_check=True),
        pytest.raises(
            tw.UndefinedBehaviourError, match=r"race in kernel `everybody_at_zero`: block"
        ),
    ):
        ct.launch(None, (2,), everybody_at_zero, (z,))


@pytest.mark.parametrize(
    ("grid", "arguments", "told"),
    [
        ((2,), (), "takes 5 arguments (x, y, z, B, factor), and 0 are given"),
        ((0,), None, "a grid has at least one block along each axis; not (0,)"),
        ((1, 1, 1, 1), None, "a grid has one to three whole numbers"),
        ((2,), ("x", 1, 1, 64, 1.0), "argument `x` is a str: cuTile's kernels take arrays"),
        ((2,), (ones(4)[::-1], ones(4), ones(4), 64, 1.0), "argument `x` has a negative stride"),
        ((2,), (ones(4, dtype=complex), ones(4), ones(4), 64, 1.0), "has no dtype complex128"),
        ((2,), (ones(4, dtype=">f4"), ones(4), ones(4), 64, 1.0), "the order of another machine"),
        ((2,), (ones(4), ones(4), ones(4), 64, 2**70), "does not fit int64"),
        ((2,), (ones(4), ones(4), ones(4), 64, np.timedelta64(1, "s")), "is a timedelta64"),
        (3, None, "a grid has one to three whole numbers, such as (8, 4, 1); not 3"),
        (("2",), None, "a grid has one to three whole numbers, such as (8, 4, 1); not ('2',)"),
        ((math.nan,), None, "a grid has one to three whole numbers, such as (8, 4, 1); not (nan,)"),
        ((2**20, 2**11, 1), None, "a grid has at most 2147483647 blocks; not (1048576, 2048, 1)"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(grid, arguments, told):
    given = (ones(64), ones(64), ones(64), 64, 1.0) if arguments is None else arguments
    with pytest.raises(tw.LaunchError) as refused:
        cutile.launch(None, grid, scaled_sum, given)
    assert told in str(refused.value)


def test_memory_that_is_read_only_is_not_written():
    z = ones(64)
    z.flags.writeable = False
    with pytest.raises(tw.UndefinedBehaviourError, match="read-only"):
        cutile.launch(None, (1,), scaled_sum, (ones(64), ones(64), z, 64, 1.0))


def test_arrays_with_less_memory_than_they_say_are_refused():
    short = np.lib.stride_tricks.as_strided(ones(2), (64,), (4,))
    with pytest.raises(tw.LaunchError, match="reaches beyond the memory of the array"):
        cutile.launch(None, (1,), scaled_sum, (ones(64), ones(64), short, 64, 1.0))
    torch = pytest.importorskip("torch", reason="needs torch")
    z = torch.zeros(64)
    z.untyped_storage().resize_(8)
    with pytest.raises(tw.LaunchError, match="`z` reaches over 256 bytes of its storage"):
        cutile.launch(None, (1,), scaled_sum, (ones(64), ones(64), z, 64, 1.0))
    z.untyped_storage().resize_(256)
    cutile.launch(None, (1,), scaled_sum, (ones(64), ones(64), z, 64, 1.0))
    assert z.tolist() == [2.0] * 64


class Copied:
    """An array that makes a copy of itself when its memory is asked for."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **given):
        return self.array.copy().__dlpack__(**given)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_memory_lives_as_long_as_the_launch():
    z = ones(1 << 16)
    given = (Copied(ones(1 << 16)), Copied(ones(1 << 16)), z, 64, 1.0)
    cutile.launch(None, (1 << 10,), scaled_sum, given)
    assert (z == 2).all()


class Level(enum.IntEnum):
    THREE = 3


def test_members_of_enums_are_numbers():
    z = ones(64)
    cutile.launch(None, (1,), scaled_sum, (ones(64), ones(64), z, 64, Level.THREE))
    assert (z == 4).all()


def test_what_is_no_kernel_is_refused():
    with pytest.raises(tw.LaunchError, match="is no kernel of cuTile"):
        cutile.launch(None, (1,), len, ())


def test_the_end_of_the_block_puts_everything_back():
    launch = ct.launch
    with cutile.on_cpu():
        assert ct.launch is cutile.launch
    assert ct.launch is launch


def test_torch_tensors_on_cuda_live_on_the_cpu():
    torch = pytest.importorskip("torch", reason="needs torch")
    available = torch.cuda.is_available
    with cutile.on_cpu(race_check=True):
        x = torch.arange(100, device="cuda", dtype=torch.float32)
        y = torch.ones(100).cuda()
        z = torch.empty_like(x, device=torch.device("cuda", 0))
        assert x.is_cuda
        assert torch.cuda.is_available()
        ct.launch(torch.cuda.current_stream(), (2, 1, 1), scaled_sum, (x, y, z, 64, 2.0))
        torch.cuda.synchronize()
        assert torch.equal(z, x.to("cuda:0") + 2)
    assert torch.cuda.is_available is available
    assert not x.is_cuda


PROGRAM = """
import sys

import cuda.tile as ct
import numpy as np
from cuda.tile import launch


@ct.kernel
def fill(z, B: ct.Constant[int]):
    ct.store(z, (ct.bid(0) // {share},), ct.full((B,), ct.bid(0), ct.int32))


if __name__ == "__main__":
    z = np.zeros(128, np.int32)
    launch(None, (2,), fill, (z, 64))
    print(z[0], z[64], *sys.argv[1:])
"""


def run_program(tmp_path, share, *options):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(share=share), encoding="utf-8")
    command = [sys.executable, "-m", "tilewright", "cutile", "--race-check", str(program), *options]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_command_runs_a_program_as_it_is(tmp_path):
    done = run_program(tmp_path, 1, "--flag", "word")
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 1 --flag word\n", "")


def test_the_command_tells_of_a_race(tmp_path):
    done = run_program(tmp_path, 2)
    assert done.returncode == 1
    assert "race in kernel `fill`" in done.stderr
    assert "Traceback" not in done.stderr
