"""Every command over every odd input: a message and an exit code, never a traceback of ours.

What comes from a file, its names among it, reaches the terminal as text: no escape sequence acts
there, and no bracket is taken for markup.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilewright.bytecode import encode
from tilewright.cli import main
from tilewright.ir.function import Module
from tilewright.ir.text import parse_module

TILE_IR = ("asm", "disasm", "run-bytecode")
LOADING = ("explain", "compile", "compile --all", "check", "witness", "disasm")
COMMANDS = tuple(dict.fromkeys((*TILE_IR, *LOADING, "tune --device cpu")))
ODD_NAME = "a\x1b[31m[bold]\u202eb"


def outcome(command: str, path: object, *more: str):
    result = CliRunner().invoke(main, [*command.split(), str(path), *more])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (0, 1, 2), result.output
    assert "Traceback" not in result.output
    assert "internal error" not in result.output
    assert not {"\x1b", "\x00", "\u202e"} & set(result.output)
    return result


def make_file(folder: Path, kind: str) -> Path:
    path = folder / "odd.py"
    if kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "below a file":
        (folder / "file").write_text("")
        return folder / "file" / "odd.py"
    elif kind == "long name":
        return folder / f"{'x' * 5000}.py"
    elif kind == "no name":
        return Path()
    elif kind == "odd name":
        return folder / f"{ODD_NAME}.py"
    elif kind == "odd name, there":
        path = folder / f"{ODD_NAME}.py"
        path.write_bytes(b"\x7f")
    elif kind == "byte that is no text":
        return folder / "a\udcffb.py"
    else:
        path.write_bytes(CONTENTS[kind])
    return path


CONTENTS = {
    "empty": b"",
    "garbage": bytes(range(256)) * 8,
    "zeros": bytes(4096),
    "ELF": b"\x7fELF" + bytes(60),
    "begins as bytecode": b"\x7fTileIR\x00\x0d\x03\x00\x00" + b"\xff" * 64,
    "one long line": b"(" * 100_000,
    "no UTF-8": b"# \xff\xfe\nx = '\xff'\n",
}
KINDS = (
    "folder", "loop", "below a file", "long name", "no name", "odd name", "odd name, there",
    "byte that is no text", *CONTENTS,
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_none_of_the_kind(command, kind, tmp_path):
    result = outcome(command, make_file(tmp_path, kind))
    told = kind == "empty" and command in ("asm", "check")  # which holds nothing, and says so
    assert told or result.exit_code in (1, 2)
    assert result.output.strip()


def test_an_odd_name_is_shown_as_it_is(tmp_path):
    path = tmp_path / f"{ODD_NAME}.py"
    shown = r"a\x1b[31m[bold]\u202eb.py"
    assert shown in outcome("explain", path).output
    assert shown in outcome("asm", path).output


@pytest.mark.parametrize("command", TILE_IR)
def test_a_pipe_is_read_as_a_file(command, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"\xff garbage",))
    writer.start()
    assert outcome(command, pipe).exit_code == 2
    writer.join()


@pytest.mark.parametrize("command", LOADING[:-1])
def test_a_pipe_is_no_file_with_kernels(command, tmp_path):
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    assert "is a pipe or a device" in outcome(command, pipe).output


RAISING = {
    "1 / 0\n": "odd.py:1: ZeroDivisionError: division by zero",
    "def f():\n    raise KeyError('\\x1b[2J')\n\nf()\n": "odd.py:2: KeyError: ",
    "import sys\nsys.exit('bye')\n": "ended itself while it was loaded (SystemExit('bye'))",
    "class Odd(BaseException): pass\nraise Odd('x')\n": "odd.py:2: Odd: x",
    "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd\n": (
        "odd.py:3: Odd: (it has no text that can be shown)"
    ),
    "raise GeneratorExit\n": "odd.py:1: GeneratorExit",
    "raise SyntaxError('no')\n": "odd.py:1: SyntaxError: no",
    "def f(): f()\nf()\n": "odd.py:1: RecursionError: maximum recursion depth exceeded",
    "raise ExceptionGroup('many', [ValueError(1)])\n": "odd.py:1: ExceptionGroup: many",
    "x = 1\x00\n": "null bytes",
    "raise OSError(28, 'full', 'x')\n": "odd.py:1: OSError: [Errno 28] full: 'x'",
    "raise BrokenPipeError(32, 'gone')\n": "odd.py:1: BrokenPipeError: [Errno 32] gone",
    "raise MemoryError\n": "odd.py:1: MemoryError",
}


@pytest.mark.parametrize("text", RAISING)
@pytest.mark.parametrize("command", LOADING)
def test_a_file_that_raises_at_import_is_told_by_its_own_lines(command, text, tmp_path):
    path = tmp_path / "odd.py"
    path.write_text(text)
    result = outcome(command, path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert RAISING[text] in result.output
    assert "tilewright/cli" not in result.output
    assert "importlib" not in result.output


def test_the_lines_on_the_way_are_the_users_own(tmp_path):
    (tmp_path / "odd.py").write_text("import further\n\nfurther.go(3)\n")
    (tmp_path / "further.py").write_text("def go(n):\n    return go(n - 1) if n else 1 / 0\n")
    output = outcome("explain", tmp_path / "odd.py").output
    assert output.splitlines()[0].endswith("odd.py:3: ZeroDivisionError: division by zero")
    assert "odd.py:3, in <module>" in output
    assert "further.py:2, in go" in output
    assert len(output.splitlines()) == 6


def test_a_cutile_program_that_raises_is_told_by_its_own_lines(tmp_path):
    pytest.importorskip("cuda.tile", reason="needs cuTile Python")
    path = tmp_path / "odd.py"
    path.write_text("def f():\n    1 / 0\n\nf()\n")
    result = outcome("cutile", path)
    assert result.exit_code == 1
    assert "odd.py:2: ZeroDivisionError: division by zero" in result.output
    assert "odd.py:4, in <module>" in result.output
    assert "runpy" not in result.output
    result = CliRunner().invoke(main, ["--traceback", "cutile", str(path)])
    assert "Traceback" in result.output


# --- Tile IR files ----------------------------------------------------------------------------


def bytecode(folder: Path, text: str, producer: str | None = None) -> Path:
    path = folder / "odd.tileirbc"
    module = parse_module(text, "odd")
    module = Module(module.functions, globals=module.globals, producer=producer)
    path.write_bytes(encode(module, (13, 3)).data)
    return path


@pytest.mark.parametrize("command", ["disasm", "run-bytecode"])
def test_names_and_texts_of_a_file_are_only_shown(command, tmp_path):
    text = 'entry @"k\\1B[31m[bold]\\00"() {\n  %0 = print_tko "\\1B[2J" -> token\n  return\n}\n'
    path = bytecode(tmp_path, text, producer="me\x1b[5m\nentry @evil() {")
    assert outcome(command, path).exit_code == 0
    assert outcome(command, path, "--nothing\x1b[31m").exit_code == 2


def test_a_producer_stays_in_its_comment(tmp_path):
    path = bytecode(tmp_path, "entry @k() {\n  return\n}\n", producer="me\nentry @evil() {\x1b")
    output = outcome("disasm", path).output
    assert output.startswith("// Producer: me\\nentry @evil() {\\x1b\nentry @k() {\n")


def test_a_text_too_long_to_be_read_is_not_made(tmp_path):
    numbers = ", ".join(map(str, range(1 << 14)))
    text = f"entry @k() {{\n  %0 = constant <i32: [{numbers}]> : tile<16384xi32>\n  return\n}}\n"
    module = parse_module(text, "odd")
    op, *rest = module.functions[0].body.ops
    again = [type(op)(value=op.value, to=op.to) for _ in range(1 << 12)]
    module.functions[0].body.ops[:] = [*again, *rest]
    path = tmp_path / "odd.tileirbc"
    path.write_bytes(encode(module, (13, 3)).data)
    result = outcome("disasm", path)
    assert result.exit_code == 2
    assert "its constants alone would be 512.0 MiB of text, more than 256.0 MiB" in result.output
    assert outcome("run-bytecode", path, "--memory-limit", "64M").exit_code == 0


def test_memory_beyond_the_limit_is_refused(tmp_path):
    text = "".join(f"global  @g{i} <i64: 0> : tile<16777216xi64>\n" for i in range(200))
    asked = "".join(f"  %{i} = get_global @g{i} : tile<ptr<i64>>\n" for i in range(200))
    path = bytecode(tmp_path, f"{text}entry @k() {{\n{asked}  return\n}}\n")
    result = outcome("run-bytecode", path, "--memory-limit", "8G")
    assert result.exit_code == 2
    assert "needs more than 8.0 GiB of memory at once" in result.output
    assert "--memory-limit BYTES allows it more" in result.output


ENDLESS = "entry @k() {\n  loop {\n    continue\n  }\n  return\n}\n"


def test_time_beyond_the_limit_ends_a_run(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    result = outcome("run-bytecode", bytecode(tmp_path, ENDLESS), "--time-limit", "0.2")
    assert result.exit_code == 2
    assert "not done within 0.2 s, and ended; --time-limit SECONDS allows it more" in result.output
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "-inf", "1e300", "later", "", "0x10"])
@pytest.mark.parametrize(
    "command",
    ["run-bytecode --time-limit", "tune --seconds", "tune --patience", "tune --budget"],
)
def test_an_odd_time_limit(command, limit, tmp_path):
    name, option = command.split()
    assert outcome(name, "matmul", option, limit).exit_code == 2


@pytest.mark.parametrize("limit", ["0", "-1", "1.5G", "8g", "G", "", "9" * 30, "٣"])
def test_an_odd_memory_limit(limit):
    result = outcome("run-bytecode", "x", "--memory-limit", limit)
    assert result.exit_code == 2
    assert "is no amount of memory" in result.output


@pytest.mark.parametrize("grid", ["", "1,2,3,4", "٣", "9" * 5000, str(2**31), "-1", "1,,2"])
def test_an_odd_grid(grid, tmp_path):
    assert outcome("run-bytecode", bytecode(tmp_path, ENDLESS), "--grid", grid).exit_code == 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04",
        b"\x93NUMPY\x01\x00\xff\xff",
        b"\x93NUMPY\x01\x00\x10\x00{'descr':9**9**9}",
        b"\x93NUMPY\x01\x00\x43\x00{'descr': '<f4', 'fortran_order': False, 'shape': (%d,)}\n"
        % 10**12,
    ],
)
def test_an_odd_array(data, tmp_path):
    array = tmp_path / "odd.npy"
    array.write_bytes(data)
    text = "entry @k(%arg0: tile<ptr<f32>>, %arg1: tile<i32>, %arg2: tile<i32>) {\n  return\n}\n"
    result = outcome("run-bytecode", bytecode(tmp_path, text), "--arg", str(array))
    assert result.exit_code == 2
    assert "no array can be read from it" in result.output


# --- the last place that can tell -------------------------------------------------------------


def test_a_mistake_of_ours_is_one_line_and_its_traceback_is_there_for_those_who_ask(monkeypatch):
    def mistake(*_):
        raise KeyError("odd\x1b")

    monkeypatch.setattr("tilewright.cli.disasm.read_bytecode", mistake)
    result = CliRunner().invoke(main, ["disasm", "x"])
    assert result.exit_code == 3
    assert result.output.startswith("internal error: KeyError: 'odd\\x1b'\nThis is a mistake of")
    assert "Traceback" not in result.output
    result = CliRunner().invoke(main, ["--traceback", "disasm", "x"])
    assert result.exit_code == 3
    assert "Traceback" in result.output


def test_an_interrupt_is_told_and_has_its_code(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tilewright.cli.disasm.read_bytecode", interrupted)
    result = CliRunner().invoke(main, ["disasm", "x"])
    assert (result.exit_code, result.output) == (130, "\nAborted!\n")


# --- streams ----------------------------------------------------------------------------------

COMMAND = f"{sys.executable} -m tilewright"


def shell(line: str, **environment: str):
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        env={**os.environ, "TILEWRIGHT_CACHE": "off", **environment},
        timeout=120,
        check=False,
    )


def test_streams_that_are_closed_full_or_of_few_characters(tmp_path):
    text = 'entry @k() {\n  %0 = print_tko "\\C3\\A4\\0A" -> token\n  return\n}\n'
    path = bytecode(tmp_path, text, producer="ä" * 400_000)
    source = tmp_path / "ä.tileir"
    source.write_text("entry @k() {\n  return\n}\n")
    done = shell(f"{COMMAND} asm {source}", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\xe4.tileirbc, " in done.stdout
    done = shell(f"{COMMAND} disasm {path} | head -c 5; exit ${{PIPESTATUS[0]}}")
    assert done.returncode in (0, 1), "click says nothing of readers that have gone"
    assert done.stderr == b""
    done = shell(f"{COMMAND} run-bytecode {path} >&-")
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    done = shell(f"{COMMAND} disasm {path} >/dev/full")
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == ["Error: No space left on device"]


def test_one_interrupt_ends_a_run(tmp_path):
    tile = "tile<32768xi32>"
    path = bytecode(
        tmp_path,
        f"""\
entry @k() {{
  %0 = print_tko "runs" -> token
  %1 = iota : {tile}
  %2 = loop iter_values(%arg0 = %1) : {tile} -> {tile} {{
    %3 = addi %arg0, %1 : {tile}
    continue %3 : {tile}
  }}
  return
}}
""",
    )
    command = [sys.executable, "-m", "tilewright", "run-bytecode", str(path), "--grid", "8"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env={**os.environ, "PYTHONUNBUFFERED": "1"}, **streams) as run:
        try:
            assert run.stdout.read(4) == b"runs"
            run.send_signal(signal.SIGINT)
            errors = run.communicate(timeout=60)[1]
        finally:
            run.kill()
    assert run.returncode == 130
    assert b"Traceback" not in errors


def test_json_is_ascii_whatever_a_file_is_called(tmp_path):
    path = tmp_path / "ä\u202e.py"
    path.write_text("x = 1\n")
    result = outcome("check", path, "--json")
    assert result.stdout.isascii()
    assert json.loads(result.stdout)
