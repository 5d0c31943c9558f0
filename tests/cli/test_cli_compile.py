"""`tilewright compile` and `disasm`: every form, what is reported, and what can go wrong."""

import json

import pytest

from tilewright.backends.cuda.cubin import cubin_resources


def test_tile_ir_is_printed_and_the_report_goes_elsewhere(run, sample):
    result = run("compile", sample("copy"), "--emit", "tileir", "--target", "sm_90")
    assert result.exit_code == 0
    assert result.stdout.startswith("entry @copy(")
    assert result.stdout.endswith("}\n")
    assert "front end" in result.stderr
    assert run("disasm", sample("copy"), "--target", "sm_90").stdout == result.stdout


def test_bytecode_goes_to_a_file_and_comes_back_as_text(run, sample, tmp_path):
    file = tmp_path / "copy.tileirbc"
    result = run("compile", sample("copy"), "--emit", "bytecode", "-o", file, "--target", "sm_90")
    assert result.exit_code == 0
    assert file.stat().st_size > 100
    text = run("disasm", file).stdout
    ours = run("disasm", sample("copy"), "--target", "sm_90").stdout
    assert ours.strip() in text
    assert "loc(" in run("disasm", file, "-g").stdout


def test_a_long_path_is_broken_and_never_cut(run, sample, tmp_path):
    file = tmp_path / ("long" * 20)
    result = run("compile", sample("copy"), "--emit", "bytecode", "-o", file, columns=60)
    assert "…" not in result.stdout
    assert str(file) in "".join(result.stdout.split())


def test_a_cubin_is_written_and_its_resources_told(run, sample, tmp_path):
    file = tmp_path / "copy.cubin"
    result = run("compile", sample("copy"), "-o", file, "--target", "sm_80", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    cubin = file.read_bytes()
    assert found["bytes"] == len(cubin)
    (resources,) = found["resources"]
    assert resources["registers"] == cubin_resources(cubin)["copy"].registers > 0
    assert resources["occupancy"] > 1
    assert 0 < resources["estimate"]["share"] <= 1
    assert found["hints"] == {"num_ctas": None, "occupancy": None, "num_worker_warps": None}
    assert found["target"] == "sm_80"
    assert found["tileiras"].startswith("13.")
    assert found["front_end_seconds"] > 0
    assert found["tileiras_seconds"] > 0


def test_chosen_hints_occupancy_and_an_estimate_are_shown(run):
    gemm = "examples/gemm.py::gemm"
    small = run("compile", gemm, "--set", "BM=64", "--set", "BN=64", "--target", "sm_90").stdout
    assert "occupancy=2 (chosen by its tiles)" in small
    assert "2 blocks a multiprocessor" in small
    assert "at most 50% of the matrix products' peak, by a simple model" in small


def test_remarks_stand_beside_their_lines(run):
    gemm = "src/tilewright/cli/tour_kernels.py::gemm_persistent"
    result = run("compile", gemm, "--remarks", "--target", "sm_90")
    assert result.exit_code == 0
    assert "registers a thread" in result.stdout
    assert "tileiras 13." in result.stdout
    row = next(line for line in result.stdout.splitlines() if "TMA Load" in line)
    assert "tw.mma(xs[i, k], ys[k, j], acc)" in row


@pytest.mark.parametrize("form", ["bytecode", "tileir"])
def test_only_a_cubin_needs_the_toolchain(run, sample, no_toolkit, tmp_path, form):
    file = tmp_path / "out"
    assert run("compile", sample("copy"), "--emit", form, "-o", file).exit_code == 0
    assert file.stat().st_size > 100


def test_a_missing_toolchain_is_named_with_the_way_out(run, sample, no_toolkit):
    result = run("compile", sample("copy"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("ToolchainError: no usable Tile IR toolkit")
    assert "correct TILEWRIGHT_TOOLKIT, or unset it" in result.stderr


def test_a_refused_kernel_gives_no_file(run, sample, tmp_path):
    file = tmp_path / "denied.cubin"
    result = run("compile", sample("denied"), "-o", file, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["problems"][0]["code"] == "bounds"
    assert not file.exists()


def test_what_cannot_be_asked_for(run, sample, tmp_path):
    result = run("compile", sample("copy"), "--emit", "tileir", "--remarks")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "use --emit cubin" in result.stderr
    result = run("compile", sample("copy"), "--emit", "tileir", "-o", tmp_path / "no" / "file")
    assert result.exit_code == 2
    assert "cannot be written: No such file or directory" in result.stderr


def test_files_that_hold_no_bytecode(run, tmp_path):
    file = tmp_path / "thing"
    result = run("disasm", file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot be read: No such file or directory" in result.stderr
    file.write_bytes(b"\x7fELF\x02")
    assert "machine code, not Tile IR" in run("disasm", file).stderr
    file.write_bytes(b"nothing of the kind")
    assert "is no Tile IR bytecode that can be read" in run("disasm", file).stderr
    result = run("disasm", file, "--target", "sm_90")
    assert result.exit_code == 2
    assert "--set and --target are for a kernel" in result.stderr


def test_all_kernels_of_a_file_side_by_side(run, tmp_path):
    file = tmp_path / "several.py"
    file.write_text(
        "import tilewright as tw\nfrom tilewright import Const, Mut, Ref, f32\n"
        "from tilewright.dims import B, N\n"
        "@tw.kernel\ndef one(z: Mut[f32, B], x: Ref[f32, N]) -> None:\n"
        "    z.store(x.load_like(z) + 1)\n"
        "@tw.kernel\ndef wrong(z: Mut[f32, B]) -> None:\n    z.store(z)\n"
        "@tw.kernel\ndef two(z: Mut[f32, B], x: Ref[f32, N]) -> None:\n"
        "    z.store(x.load_like(z) + 2)\n",
    )
    result = run("compile", file, "--all", "--target", "sm_90")
    assert result.exit_code == 1
    told = [line.split()[0] for line in result.stdout.splitlines()]
    assert told == ["kernel", "one", "two"]
    assert "wrong could not be compiled" in result.stderr
    assert "error[types]" in result.stderr
    answer = json.loads(run("compile", file, "--all", "--target", "sm_90", "--json").stdout)
    found = {one["kernel"]: one for one in answer["kernels"]}
    assert list(found) == ["one", "wrong", "two"]
    assert found["one"]["resources"][0]["registers"] > 0
    assert found["two"]["error"] is None
    assert "error[types]" in found["wrong"]["error"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--set", "B=64"], "--all takes a FILE and --target"),
        (["--emit", "tileir"], "--all takes a FILE and --target"),
    ],
)
def test_all_kernels_are_compiled_as_they_usually_are(run, sample, options, text):
    file = sample("copy").partition("::")[0]
    result = run("compile", file, "--all", *options)
    assert result.exit_code == 2
    assert text in result.stderr


def test_a_file_without_kernels_has_none_to_compile(run, tmp_path):
    file = tmp_path / "none.py"
    file.write_text("")
    result = run("compile", file, "--all")
    assert result.exit_code == 2
    assert "has no kernel: decorate a function with @tw.kernel" in result.stderr
