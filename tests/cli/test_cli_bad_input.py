"""Bad input: a clear message, exit code 2, no traceback."""

import pytest

KERNELS = (
    "import tilewright as tw\nfrom tilewright import Mut, f32\nfrom tilewright.dims import B\n"
)
ONE = "@tw.kernel\ndef {name}(z: Mut[f32, B]) -> None:\n    z.store(tw.zeros((B,), f32))\n"


def refused(run, *args) -> str:
    result = run(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr


@pytest.mark.parametrize("command", ["explain", "compile", "disasm"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("coppy", "has no kernel `coppy`; did you mean copy?"),
        ("zzz", "has no kernel `zzz`; it has copy, widened, scaled, chosen, widths, picked, "),
        ("part", "`part` in {file} is a function, no kernel: decorate a function with @tw.kernel"),
        ("LIMIT", "`LIMIT` in {file} is of type int, no kernel"),
        ("", "say which kernel: {file}::copy, {file}::widened, "),
    ],
)
def test_a_name_that_is_no_kernel(run, sample, command, name, said):
    file = sample("").removesuffix("::")
    assert said.format(file=file) in refused(run, command, sample(name))


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("nowhere/add.py", "there is no file nowhere/add.py"),
        (
            "src/tilewright/sorce.py",
            "there is no file src/tilewright/sorce.py; did you mean source.py?",
        ),
        ("src", "src is a folder: say FILE::kernel"),
        ("README.md", "README.md is no Python file"),
    ],
)
def test_a_file_that_cannot_be_loaded(run, file, said):
    assert said in refused(run, "explain", f"{file}::add")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:\n", "broken.py:1: invalid syntax"),
        ("import math\n\nmath.sqrt(-1)\n", "broken.py:3: ValueError: "),
        ("import no_such_module\n", "broken.py:1: ModuleNotFoundError: No module named"),
        ("raise SystemExit(3)\n", 'under `if __name__ == "__main__":`'),
        ("x = 1\n", "broken.py has no kernel: decorate a function with @tw.kernel"),
    ],
)
def test_a_file_that_goes_wrong(run, tmp_path, text, said):
    file = tmp_path / "broken.py"
    file.write_text(text)
    assert said in refused(run, "explain", file)


def test_a_kernel_with_a_wrong_signature_is_refused_as_a_kernel(run, tmp_path):
    file = tmp_path / "wrong.py"
    file.write_text(f"{KERNELS}@tw.kernel\ndef wrong(z) -> None:\n    pass\n")
    result = run("explain", file)
    assert result.exit_code == 1
    assert "CompileError: parameter `z` of kernel `wrong` has no annotation" in result.stderr


def test_the_only_kernel_of_a_file_needs_no_name(run, tmp_path):
    file = tmp_path / "single.py"
    file.write_text(KERNELS + ONE.format(name="only"))
    result = run("explain", file)
    assert result.exit_code == 0
    assert result.stdout.startswith("only  z: f32[1024]")


def test_what_a_file_prints_does_not_spoil_the_answer(run, tmp_path):
    file = tmp_path / "talking.py"
    file.write_text(f"{KERNELS}print('hello')\n{ONE.format(name='only')}")
    result = run("explain", file, "--json")
    assert result.stdout.startswith("{")
    assert "hello" in result.stderr


def test_a_file_finds_its_neighbours_and_its_package(run, tmp_path):
    (tmp_path / "beside.py").write_text("SIZE = 1\n")
    (tmp_path / "alone.py").write_text(f"{KERNELS}import beside\n{ONE.format(name='only')}")
    package = tmp_path / "a_package_of_tests"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("SIZE = 1\n")
    (package / "kernels.py").write_text(f"{KERNELS}from .inner import SIZE\n{ONE.format(name='k')}")
    assert run("explain", tmp_path / "alone.py").exit_code == 0
    assert run("explain", f"{package / 'kernels.py'}::k").exit_code == 0


@pytest.mark.parametrize(
    ("kernel", "setting", "said"),
    [
        ("copy", "BM", "--set BM: write it as NAME=VALUE"),
        ("copy", "BMM=3", "kernel `copy` has no BMM; did you mean BM?"),
        ("copy", "Q=3", "kernel `copy` has no Q; there are T, BM, BN"),
        ("copy", "BM=0", "a positive whole number is needed"),
        ("widths", "N=-1", "a whole number, not negative, is needed"),
        ("chosen", "KIND=1", "Kind is one of PLAIN (0), DOUBLE (2), FREE (as given), OTHER (2): "),
        ("chosen", "KIND=2", "Kind is one of PLAIN (0), DOUBLE (2), FREE (as given), OTHER (2): "),
        ("chosen", "BY=0x1", "a whole number is needed"),
        ("chosen", "BY=1.0", "a whole number is needed"),
        ("copy", "BM=-4", "a positive whole number is needed"),
        ("copy", "BM=wide", "a positive whole number is needed"),
        ("copy", "T=f31", "there is no dtype f31; did you mean f32?"),
        ("copy", "T=", "there is no dtype ; there are bool"),
        ("widened", "TWICE=maybe", "say true or false"),
        ("scaled", "BY=two", "a number is needed"),
    ],
)
def test_a_setting_that_makes_no_sense(run, sample, kernel, setting, said):
    assert said in refused(run, "explain", sample(kernel), "--set", setting)


def test_a_constant_without_a_value(run, sample):
    said = refused(run, "explain", sample("widened"))
    assert "constant `TWICE` of kernel `widened` has no default" in said
    assert "--set NAME=VALUE" in said


def test_a_target_that_does_not_exist(run, sample):
    assert "'sm_75' is not one of 'sm_80'" in refused(
        run, "explain", sample("copy"), "--target", "sm_75"
    )


def test_a_tile_that_is_no_power_of_two_is_the_kernels_mistake(run, sample):
    result = run("explain", sample("copy"), "--set", "BM=96")
    assert result.exit_code == 1
    assert result.stderr.startswith("error[")


def test_no_command_and_an_unknown_one(run):
    assert "demo" in run().output
    assert "No such command 'explane'" in refused(run, "explane")


def test_the_version_is_told(run):
    assert run("--version").stdout.startswith("tilewright, version ")
