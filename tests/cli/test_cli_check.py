"""`tilewright check`: what is unsafe in a file and why, which checks are left, and exit codes."""

import json
from pathlib import Path

import pytest

FILE = Path(__file__).parent / "unsafe_samples.py"
EXAMPLES = Path(__file__).parents[2] / "examples"


def line_of(text):
    return next(n for n, line in enumerate(FILE.read_text().splitlines(), 1) if text in line)


def test_every_unsafe_block_is_listed_with_its_reason(run):
    result = run("check", FILE)
    assert result.exit_code == 1  # for the one that was not compiled
    assert result.stderr.endswith(
        "unsafe_samples.py::unset was not compiled: constant `STEP` of kernel `unset` has no "
        "default: choose a value for it, with --set NAME=VALUE\n"
    )
    text = result.stdout
    for reason in (
        "callers pass the number",
        "it is not: m and h2",
        "nobody sets it",
        "never compiled here",
    ):
        assert f"line {line_of(reason)}" in text
        assert reason in text
    assert "  safe  safe\n" in text
    assert "  permute_heads  unsafe kernel\n" in text
    assert "not compiled: constant `STEP` of kernel `unset` has no default" in text
    assert "6 kernels: 2 safe, 4 unsafe; 4 unsafe blocks; 1 check left in kernels" in text


def test_machines_get_the_same(run):
    result = run("check", FILE, "--json")
    found = {one["kernel"]: one for one in json.loads(result.stdout)["kernels"]}
    assert list(found) == [
        "safe", "through_a_helper", "permute_heads", "waits_for_ever", "residual", "unset",
    ]  # fmt: skip
    assert found["safe"]["unsafe_blocks"] == []
    [block] = found["through_a_helper"]["unsafe_blocks"]
    assert block["function"] == "tile_at"
    assert f"unsafe_samples.py:{line_of('callers pass')}:" in block["location"]
    assert found["permute_heads"]["unsafe_kernel"] is True
    [check] = found["residual"]["checks_in_kernel"]
    assert (check["subject"], check["axis"]) == ("x", 0)
    assert "STEP" in found["unset"]["left_out"]


@pytest.mark.parametrize(
    ("options", "faults"),
    [
        (["--deny-unsafe"], ["through_a_helper", "permute_heads", "waits_for_ever", "unset"]),
        (["--deny-checks"], ["residual"]),
        (
            ["--deny-checks", "--deny-unsafe"],
            ["through_a_helper", "permute_heads", "waits_for_ever", "residual", "unset"],
        ),
    ],
)
def test_what_is_denied_fails(run, options, faults):
    result = run("check", FILE, *options, "--set", "STEP=2")
    assert result.exit_code == 1
    assert [line.split("::")[1].split()[0] for line in result.stderr.splitlines()] == faults


UNCOMPILED = """
import tilewright as tw
from tilewright import Const, Mut, Ref, f32
from tilewright.dims import B, N

@tw.kernel
def shift(z: Mut[f32, B], x: Ref[f32, N], *, OFF: Const[int]) -> None:
    z.store(x.load_like(z) + OFF)

@tw.kernel
def broken(z: Mut[f32, B], x: Ref[f32, N], *, OFF: Const[int]) -> None:
    z.store(undefined_name + OFF)

@tw.kernel
def ragged(z: Mut[f32, B]) -> None:
    segment, piece = z.index
    z.store(tw.full((B,), z.segment[1] - z.rows[0], tw.i32).astype(f32))
"""


def test_a_kernel_that_was_not_compiled_is_not_called_safe(run, tmp_path):
    path = tmp_path / "uncompiled.py"
    path.write_text(UNCOMPILED)
    result = run("check", path)
    assert result.exit_code == 1
    assert "  shift  not compiled\n" in result.stdout
    assert "  broken  not compiled\n" in result.stdout
    assert "3 kernels: 1 safe, 0 unsafe, 2 not compiled;" in result.stdout
    found = json.loads(run("check", path, "--json").stdout)["kernels"]
    assert [(one["verdict"], one["compiled"]) for one in found] == [
        ("not compiled", False),
        ("not compiled", False),
        ("safe", True),
    ]


WHOLE_ROWS = """
import tilewright as tw
from tilewright import All, Mut, f32


@tw.kernel
def whole(z: Mut[f32, All]) -> None:
    z.store(undefined_name)
"""


def test_whole_axes_are_not_tried_by_segments(run, tmp_path):
    """A refused kernel is tried with ragged rows, which need a tile along the rows."""
    path = tmp_path / "whole.py"
    path.write_text(WHOLE_ROWS)
    result = run("check", path)
    assert result.exit_code == 1
    assert "  whole  refused\n" in result.stdout
    assert "undefined_name" in result.stdout + result.stderr


def test_constants_without_a_default_are_set(run, tmp_path):
    path = tmp_path / "uncompiled.py"
    path.write_text(UNCOMPILED)
    result = run("check", path, "--set", "OFF=2")
    assert result.exit_code == 1
    assert "  shift  safe\n" in result.stdout
    assert "  broken  refused\n" in result.stdout
    assert "error[names]: `undefined_name` is not defined" in result.stdout
    assert result.stderr == f"{path}::broken is refused\n"
    unknown = run("check", path, "--set", "WIDTH=2")
    assert unknown.exit_code == 2
    assert "--set WIDTH=2: no kernel here has WIDTH; there are B, OFF" in unknown.stderr


def test_kernels_of_ragged_rows_are_compiled_as_such(run, tmp_path):
    path = tmp_path / "ragged.py"
    path.write_text(UNCOMPILED.replace("OFF: Const[int]", "OFF: Const[int] = 1"))
    result = run("check", path)
    assert "  ragged  safe\n" in result.stdout
    library = Path(__file__).parents[2] / "src/tilewright/kernels/heads/varlen.py"
    assert run("check", library).exit_code == 0


def test_several_files_and_a_kernel_that_is_refused(run, tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text(
        "import tilewright as tw\nfrom tilewright import Mut, f32\nfrom tilewright.dims import B\n"
        "@tw.kernel\ndef k(z: Mut[f32, B]) -> None:\n    z.store(z)\n",
    )
    result = run("check", EXAMPLES / "add.py", bad)
    assert result.exit_code == 1
    assert "  add  safe\n" in result.stdout
    assert "error[types]" in result.stdout
    assert f"{bad}::k is refused" in result.stderr


INFERRED = """
import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32
from tilewright.dims import BM, M, N


@tw.kernel
def totals(z: Mut[f32, Cut[M, BM]], x: Ref[f32, M, N], *, N: Const[int]) -> None:
    z.store(tw.sum(x.partition(BM, N)[z.index[0], 0], axis=1))
"""
SAMPLE = "with N = 128 as a sample of inferred values: --set N=… tries another\n"


def test_constants_that_launches_infer_are_sampled(run, tmp_path):
    path = tmp_path / "inferred.py"
    path.write_text(INFERRED)
    result = run("check", path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"  totals  safe\n    {SAMPLE}" in result.stdout
    assert json.loads(run("check", path, "--json").stdout)["kernels"][0]["samples"] == {"N": 128}
    assert SAMPLE in run("explain", path).stdout
    for command in ("check", "explain"):
        chosen = run(command, path, "--set", "N=64")
        assert chosen.exit_code == 0
        assert "sample" not in chosen.stdout.replace("/inferred.py", "")
    refused = run("check", path, "--set", "N=60")
    assert refused.exit_code == 1
    assert "error[types]" in refused.stdout


# Constants of examples that have no default: their launches compute them.
SETTINGS = {
    "autotune.py": ("PARTS=4",),
    "mixture_of_experts.py": ("BM=16", "BE=8", "K=2"),
    "sorting.py": ("B=16", "D=16", "K=4"),
}


def test_the_examples_but_for_pointers_are_safe(run):
    files = {path.name: path for path in EXAMPLES.glob("*.py") if path.name != "pointers.py"}
    special = [((files.pop(name),), chosen) for name, chosen in SETTINGS.items()]
    for paths, chosen in (*special, (tuple(files.values()), ())):
        options = [part for one in chosen for part in ("--set", one)]
        result = run("check", *paths, *options, "--deny-unsafe", "--deny-checks", "--target=sm_120")
        assert (result.exit_code, result.stderr) == (0, "")


def test_a_file_that_is_not_there(run):
    result = run("check", "nowhere.py")
    assert result.exit_code == 2
    assert "there is no file nowhere.py" in result.stderr


def test_kernels_of_other_compilers_are_listed_with_their_reasons(run):
    file = FILE.parent / "external_samples.py"
    result = run("check", file)
    assert result.exit_code == 0
    assert "  touch  external kernel\n" in result.stdout
    assert "unsafe  reads and writes nothing: it returns at once" in result.stdout
    assert "1 kernel: 1 safe, 0 unsafe; 1 external kernel; no unsafe blocks" in result.stdout
    [told] = json.loads(run("check", file, "--json").stdout)["external_kernels"]
    assert told["kernel"] == "touch"
    assert file.read_text().splitlines()[told["line"] - 1].startswith("touch = ")
    denied = run("check", file, "--deny-unsafe")
    assert denied.exit_code == 1
    assert "external_samples.py::touch is external (--deny-unsafe)" in denied.stderr
