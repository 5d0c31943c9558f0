"""`tilewright asm` and `disasm` of files: there and back, and what can go wrong."""

import io
import re
from pathlib import Path

import pytest

from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode import decode

TEXT = """\
// Twice a number.
entry @twice(%p: tile<ptr<f32>>) {
  %x, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
  %y = addf %x, %x : tile<f32>
  %u = store_ptr_tko weak %p, %y token=%t : tile<ptr<f32>>, tile<f32> -> token
  return
}
"""


@pytest.fixture
def text(tmp_path) -> Path:
    """A file with text that can be assembled."""
    path = tmp_path / "twice.tileir"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_there_and_back(run, text):
    result = run("asm", text)
    assert result.exit_code == 0
    made = text.with_suffix(".tileirbc")
    size = f"{made.stat().st_size:,} bytes"
    assert result.stdout == f"{made}, {size}, bytecode 13.3, entries: twice\n"
    shown = run("disasm", made)
    assert shown.exit_code == 0
    assert shown.stdout == find_toolchain().disassemble(made.read_bytes()).rstrip("\n") + "\n"
    again = text.with_name("again.tileir")
    again.write_text(shown.stdout, encoding="utf-8")
    assert run("asm", again).exit_code == 0
    assert again.with_suffix(".tileirbc").read_bytes() == made.read_bytes()


@pytest.mark.parametrize("version", ["13.1", "13.2", "13.3", "13.4"])
def test_a_version_can_be_chosen(run, text, tmp_path, version):
    out = tmp_path / "chosen"
    assert run("asm", text, "--bytecode", version, "-o", out).exit_code == 0
    assert decode(out.read_bytes()).version == tuple(map(int, version.split(".")))


def test_a_version_that_cannot_hold_it(run, text):
    wider = TEXT.replace("addf %x, %x", "atan2 %x, %x")
    text.write_text(wider, encoding="utf-8")
    result = run("asm", text, "--bytecode", "13.1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "`atan2` needs 13.2" in result.stderr
    assert not text.with_suffix(".tileirbc").exists()
    assert run("asm", text, "--bytecode", "13.2").exit_code == 0


def test_lines_of_the_text_are_kept_on_request(run, text):
    made = text.with_suffix(".tileirbc")
    run("asm", text)
    assert decode(made.read_bytes()).module.functions[0].loc is None
    run("asm", text, "--debug-info")
    added = decode(made.read_bytes()).module.functions[0].body.ops[1]
    assert str(added.loc) == f"{text}:4:8"
    assert 'twice.tileir":4:8' in run("disasm", made, "-g").stdout


def test_a_mistake_is_shown_where_it_stands(run, text):
    text.write_text(TEXT.replace("%x, %x", "%x, %z"), encoding="utf-8")
    result = run("asm", text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{text}:4:17: %z is not defined here" in result.stderr
    line, caret = result.stderr.splitlines()[-2:]
    assert line[caret.index("^") :].startswith("%z")


def test_a_broken_rule_is_told_with_its_line(run, text):
    text.write_text(TEXT.replace("addf", "addi"), encoding="utf-8")
    result = run("asm", text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "breaks the rules of Tile IR" in result.stderr
    assert f"{text}:4:8: `addi` in twice: `lhs` must be a tile of i1" in result.stderr


def test_files_that_hold_no_text(run, tmp_path):
    assert "cannot be read: No such file" in run("asm", tmp_path / "none").stderr
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    assert "is no text" in run("asm", binary).stderr
    assert run("asm", binary).exit_code == 2


def test_bytecode_that_breaks_a_rule(run, text):
    run("asm", text)
    made = text.with_suffix(".tileirbc")
    data = made.read_bytes()
    place = re.search(rb"\x02.\x00\x00\x01\x01", data).start() + 3  # the rounding of `addf`
    made.write_bytes(data[:place] + b"\x01" + data[place + 1 :])
    assert "rounding<zero>" in run("disasm", made).stdout
    made.write_bytes(data[:place] + b"\x04" + data[place + 1 :])
    result = run("disasm", made)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "`addf` in twice: " in result.stderr


def test_bytecode_that_cannot_be_read(run, text):
    run("asm", text)
    made = text.with_suffix(".tileirbc")
    made.write_bytes(made.read_bytes()[:-5])
    result = run("disasm", made)
    assert result.exit_code == 2
    assert "is no Tile IR bytecode that can be read: at byte " in result.stderr


def test_no_toolkit_is_needed(run, text, no_toolkit):
    assert run("asm", text).exit_code == 0
    made = text.with_suffix(".tileirbc")
    assert "entry @twice" in run("disasm", made).stdout
    assert run("disasm", made, "-g").exit_code == 2


def test_files_of_cutile_python(run, tmp_path):
    tile = pytest.importorskip("cuda.tile")
    from cuda.tile.compilation import CallingConvention, KernelSignature, export_kernel

    def nothing(n: tile.Constant[int]):
        tile.printf("%d\n", n)

    signature = KernelSignature((3,), CallingConvention.cutile_python_v1(), "nothing")
    file = io.BytesIO()
    export_kernel(
        tile.kernel(nothing), [signature], file,
        output_format="tileir_bytecode", bytecode_version="13.3",
    )  # fmt: skip
    path = tmp_path / "nothing.tileirbc"
    path.write_bytes(file.getvalue())
    assert "print_tko" in run("disasm", path).stdout
