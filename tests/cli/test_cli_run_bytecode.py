"""`tilewright run-bytecode`: arrays and scalars in, the last array out, every way to be wrong."""

# ruff: noqa: E501 (Tile IR has long lines)

import ml_dtypes
import numpy as np
import pytest

from tilewright.bytecode import encode
from tilewright.ir.text import parse_module

# y = a * x + y over tiles of 8, and a kernel that prints.
TEXT = """\
entry @saxpy(%arg0: tile<f32>, %arg1: tile<ptr<f32>>, %arg2: tile<i32>, %arg3: tile<i32>, %arg4: tile<ptr<f32>>, %arg5: tile<i32>, %arg6: tile<i32>) {
  %tview = make_tensor_view %arg1, shape = [%arg2], strides = [%arg3] : tile<i32> -> tensor_view<?xf32, strides=[?]>
  %tview_0 = make_tensor_view %arg4, shape = [%arg5], strides = [%arg6] : tile<i32> -> tensor_view<?xf32, strides=[?]>
  %blockId_x, %blockId_y, %blockId_z = get_tile_block_id : tile<i32>
  %pview = make_partition_view %tview : partition_view<tile=(8), tensor_view<?xf32, strides=[?]>>
  %pview_1 = make_partition_view %tview_0 : partition_view<tile=(8), tensor_view<?xf32, strides=[?]>>
  %tile, %result_token = load_view_tko weak %pview[%blockId_x] : partition_view<tile=(8), tensor_view<?xf32, strides=[?]>>, tile<i32> -> tile<8xf32>, token
  %tile_2, %result_token_3 = load_view_tko weak %pview_1[%blockId_x] : partition_view<tile=(8), tensor_view<?xf32, strides=[?]>>, tile<i32> -> tile<8xf32>, token
  %reshape = reshape %arg0 : tile<f32> -> tile<1xf32>
  %bcast = broadcast %reshape : tile<1xf32> -> tile<8xf32>
  %0 = fma %bcast, %tile, %tile_2  : tile<8xf32>
  %1 = store_view_tko weak %0, %pview_1[%blockId_x] token = %result_token_3 : tile<8xf32>, partition_view<tile=(8), tensor_view<?xf32, strides=[?]>>, tile<i32> -> token
  return
}
entry @say(%arg0: tile<ptr<bf16>>, %arg1: tile<i32>, %arg2: tile<i32>, %arg3: tile<i64>, %arg4: tile<i1>) {
  %result, %result_token = load_ptr_tko weak %arg0 : tile<ptr<bf16>> -> tile<bf16>, token
  %0 = print_tko "%.2f %d %d\\0A", %result, %arg3, %arg4 : tile<bf16>, tile<i64>, tile<i1> -> token
  return
}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kernels.tileirbc"
    path.write_bytes(encode(parse_module(TEXT, "kernels.mlir"), (13, 3)).data)
    return path


@pytest.fixture
def arrays(tmp_path):
    x, y = np.arange(20, dtype=np.float32), np.ones(20, np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    return tmp_path / "x.npy", tmp_path / "y.npy"


def test_the_last_array_is_written(run, file, arrays, tmp_path):
    x, y = arrays
    out = tmp_path / "out.npy"
    result = run(
        "run-bytecode", file, "--entry", "saxpy", "--grid", "3", "--arg", "f32:2.5", "--arg", x,
        "--arg", y, "--out", out,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(np.load(out), 2.5 * np.arange(20) + 1)
    assert np.load(y).tolist() == [1.0] * 20, "the files that were given stay"
    assert "saxpy: 3x1x1 blocks in" in result.output
    assert "out.npy: float32 (20,)" in result.output


def test_the_same_array_may_be_passed_in_fortran_order(run, tmp_path):
    text = """\
entry @k(%arg0: tile<ptr<i32>>, %arg1: tile<i64>, %arg2: tile<i64>, %arg3: tile<i64>, %arg4: tile<i64>) {
  %tview = make_tensor_view %arg0, shape = [%arg1, %arg2], strides = [%arg3, %arg4] : tile<i64> -> tensor_view<?x?xi32, strides=[?,?]>
  %pview = make_partition_view %tview : partition_view<tile=(1x1), tensor_view<?x?xi32, strides=[?,?]>>
  %cst_0 = constant <i32: 0> : tile<i32>
  %cst_1 = constant <i32: 1> : tile<i32>
  %cst_7 = constant <i32: 7> : tile<1x1xi32>
  %0 = store_view_tko weak %cst_7, %pview[%cst_0, %cst_1] : tile<1x1xi32>, partition_view<tile=(1x1), tensor_view<?x?xi32, strides=[?,?]>>, tile<i32> -> token
  return
}
"""
    file = tmp_path / "k.bc"
    file.write_bytes(encode(parse_module(text, "k.mlir"), (13, 1)).data)
    for order in "CF":
        np.save(tmp_path / "a.npy", np.zeros((2, 3), np.uint32, order=order))
        out = tmp_path / "out.npy"
        result = run("run-bytecode", file, "--arg", tmp_path / "a.npy", "--out", out)
        assert result.exit_code == 0, result.output
        assert np.load(out).tolist() == [[0, 7, 0], [0, 0, 0]]
        assert np.load(out).dtype == np.uint32


def test_a_file_may_be_nested_as_deep_as_a_thousand_elifs(run, tmp_path):
    """The same file goes through the assembler, the printer and the CPU backend."""
    depth = 1000
    text = f"""\
entry @k(%arg0: tile<ptr<i32>>, %arg1: tile<i32>, %arg2: tile<i32>) {{
  %cst_true = constant <i1: true> : tile<i1>
  %cst_7 = constant <i32: 7> : tile<i32>
  {"if %cst_true {" * depth}
  %0 = store_ptr_tko weak %arg0, %cst_7 : tile<ptr<i32>>, tile<i32> -> token
  {"}" * depth}
}}
"""
    (tmp_path / "deep.tileir").write_text(text)
    np.save(tmp_path / "a.npy", np.zeros(2, np.int32))
    file, out = tmp_path / "deep.tileirbc", tmp_path / "out.npy"
    assert run("asm", tmp_path / "deep.tileir", "-o", file).exit_code == 0
    assert run("disasm", file).output.count("if %true") == depth
    result = run("run-bytecode", file, "--arg", tmp_path / "a.npy", "--out", out)
    assert result.exit_code == 0, result.output
    assert np.load(out).tolist() == [7, 0]


def test_what_a_kernel_prints_and_narrow_floats(run, file, tmp_path):
    np.save(tmp_path / "n.npy", np.array([1.5, 2]).astype(ml_dtypes.bfloat16))
    result = run(
        "run-bytecode", file, "--entry", "say", "--arg", tmp_path / "n.npy", "--arg", "i64:-9",
        "--arg", "i1:1",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "1.50 -9 1\n" in result.output


def test_undefined_behaviour_is_told(run, file, arrays):
    x, y = arrays
    call = ("run-bytecode", file, "--entry", "saxpy", "--arg", "f32:1", "--arg", x, "--arg", y)
    result = run(*call, "--grid", "4")
    assert result.exit_code == 1
    assert "UndefinedBehaviourError: undefined behaviour in kernel `saxpy`" in result.output
    assert "3 is not in [0, 3)" in result.output


def test_races_are_told_where_they_are_watched_for(run, tmp_path):
    # One token too few: the store of y is not ordered behind its load.
    text = TEXT.replace(" token = %result_token_3", "")
    file = tmp_path / "racy.tileirbc"
    file.write_bytes(encode(parse_module(text, "racy.mlir"), (13, 3)).data)
    np.save(tmp_path / "x.npy", np.zeros(8, np.float32))
    call = ("run-bytecode", file, "--entry", "saxpy", "--arg", "f32:1")
    call += ("--arg", tmp_path / "x.npy", "--arg", tmp_path / "x.npy")
    assert run(*call).exit_code == 0
    result = run(*call, "--race-check")
    assert result.exit_code == 1
    assert "race in kernel `saxpy`, inside block (0, 0, 0)" in result.output


WRONG = [
    # what is given instead of what is right, and what is said
    (["--grid", "3,x"], "--grid 3,x: write one to three whole numbers"),
    (["--grid", "1,1,1,1"], "--grid 1,1,1,1: write one to three whole numbers"),
    (["--entry", "saxpi"], "has no such entry; did you mean saxpy?"),
    (["--entry", "zzz"], "has no such entry; it has saxpy, say"),
    (["--arg", "q32:7"], "--arg q32:7: give the name of a .npy file, or TYPE:NUMBER"),
    (["--arg", "i32:x"], "--arg i32:x: a whole number is needed behind the colon"),
    (["--arg", "f32:x"], "--arg f32:x: a number is needed behind the colon"),
    (["--arg", "i8:256"], "--arg i8:256: the number does not fit in 8 bits"),
    (["--arg", "nowhere.npy"], "--arg nowhere.npy cannot be read: No such file or directory"),
    (["--arg", "f32:1", "--arg", "f32:2"], "here it takes ptr<f32>"),
    (["--arg", "i32:1"], "entry `saxpy` takes (tile<f32>, tile<ptr<f32>>"),
    (["--arg", "f32:1"], "1 of them are given: pass the others"),
]


@pytest.mark.parametrize(("given", "said"), WRONG)
def test_each_mistake_has_its_words(run, file, given, said):
    entry = [] if "--entry" in given else ["--entry", "saxpy"]
    result = run("run-bytecode", file, *entry, *given)
    assert result.exit_code == 2, result.output
    assert said in result.output.replace("\n", " ")


def test_there_must_be_an_array_to_write(run, tmp_path):
    file = tmp_path / "nothing.tileirbc"
    file.write_bytes(encode(parse_module("entry @nothing() {\n  return\n}\n", "n"), (13, 1)).data)
    assert run("run-bytecode", file, "--grid", "2,2,2").exit_code == 0
    result = run("run-bytecode", file, "--out", tmp_path / "out.npy")
    assert result.exit_code == 2
    assert "--out: no array is passed" in result.output


def test_arrays_that_do_not_fit(run, file, tmp_path):
    np.save(tmp_path / "f64.npy", np.zeros(8))
    np.save(tmp_path / "rank2.npy", np.zeros((8, 8), np.float32))
    np.save(tmp_path / "x.npy", np.zeros(8, np.float32))
    (tmp_path / "text.npy").write_text("hello")
    call = ("run-bytecode", file, "--entry", "saxpy", "--arg", "f32:1", "--arg")
    for name, said in (
        ("f64.npy", "the array has float64, but the entry takes f32"),
        ("rank2.npy", "here it takes ptr<f32>"),
        ("text.npy", "no array can be read from it"),
    ):
        result = run(*call, tmp_path / name)
        assert result.exit_code == 2, result.output
        assert said in result.output.replace("\n", " ")
    x = tmp_path / "x.npy"
    result = run(*call, x, "--arg", x, "--arg", x)
    assert result.exit_code == 2
    assert "all of them are given" in result.output


def test_files_that_are_no_bytecode(run, tmp_path, file):
    assert run("run-bytecode", tmp_path / "nowhere").exit_code == 2
    broken = tmp_path / "broken"
    broken.write_bytes(file.read_bytes()[:100])
    result = run("run-bytecode", broken)
    assert result.exit_code == 2
    assert "is no Tile IR bytecode that can be read" in result.output


def test_an_entry_must_be_chosen_where_there_are_several(run, file):
    result = run("run-bytecode", file)
    assert result.exit_code == 2
    assert "has several entries; choose one with --entry: saxpy, say" in result.output


def test_a_file_that_cannot_be_written(run, file, arrays, tmp_path):
    x, y = arrays
    call = ("run-bytecode", file, "--entry", "saxpy", "--arg", "f32:1", "--arg", x, "--arg", y)
    result = run(*call, "--out", tmp_path / "no" / "out.npy")
    assert result.exit_code == 2
    assert "cannot be written" in result.output
