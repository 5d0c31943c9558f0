"""`breakpoint()` in a kernel: pdb and editors stop in each block, with tiles as arrays."""

import subprocess
import sys
from pathlib import Path

import debugged_kernels
import numpy as np
import pytest
from debugged_kernels import scaled, stops_in_a_branch, stops_with_arguments

import tilewright as tw
from tilewright import f32
from tilewright.frontend.signature.samples import sample_specialization

FILE = Path(debugged_kernels.__file__)
LINES = FILE.read_text(encoding="utf-8").splitlines()
SCRIPT = f"""
import sys
sys.path.insert(0, {str(FILE.parent)!r})
import numpy as np
import tilewright as tw
from debugged_kernels import scaled

with tw.device("cpu"):
    x, z = tw.from_numpy(np.arange(8, dtype=np.float32)), tw.zeros((8,), tw.f32)
    scaled(z.partition(4), x, 3.0).sync()
    print("result", z.numpy().tolist())
"""
COMMANDS = """p product.tolist()
p __block__, by, N, B, x
list
c
p product.tolist(), type(product).__name__
c
"""


def test_commands_typed_into_pdb():
    """Each block stops once, at the line behind the call, and the launch continues."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=COMMANDS,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    told = done.stdout
    assert told.count(f"{FILE}({_line('z.store(product)')})scaled()") == 2
    assert "(Pdb) [0.0, 3.0, 6.0, 9.0]" in told
    assert "((0,), np.float32(3.0), np.int32(8), 4, <tensor `x`>)" in told
    assert "breakpoint()" in told
    assert "([12.0, 15.0, 18.0, 21.0], 'ndarray')" in told
    assert "result [0.0, 3.0, 6.0, 9.0, 12.0, 15.0, 18.0, 21.0]" in told


def _line(text):
    return next(number for number, line in enumerate(LINES, 1) if text in line)


@pytest.fixture
def stops(monkeypatch):
    """The frames in which an editor would stop: file, line, and names."""
    found = []

    def hook(*_, **__):
        frame = sys._getframe(1)
        found.append((frame.f_code.co_filename, frame.f_lineno, dict(frame.f_locals)))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    return found


def test_an_editor_stops_at_the_line_of_the_kernel(stops):
    with tw.device("cpu"):
        x, z = tw.from_numpy(np.arange(12, dtype=np.float32)), tw.zeros((12,), f32)
        scaled(z.partition(4), x, 2.0).sync()
    assert [(file, line) for file, line, _ in stops] == [(str(FILE), _line("breakpoint()"))] * 3
    assert [names["__block__"] for *_, names in stops] == [(0,), (1,), (2,)]
    assert [names["tile"].tolist() for *_, names in stops] == np.arange(12).reshape(3, 4).tolist()


def test_only_blocks_that_get_there_stop(stops):
    with tw.device("cpu"):
        x, z = tw.ones((16,), f32), tw.zeros((16,), f32)
        stops_in_a_branch(z.partition(4), x).sync()
        assert z.numpy().tolist() == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 1, 1, 1, 1, 1, 1, 1, 1]
    assert [names["__block__"] for *_, names in stops] == [(1,)]
    assert stops[0][2]["half"].tolist() == [0.5] * 4


def test_a_change_in_the_debugger_changes_nothing(monkeypatch):
    def hook(*_, **__):
        sys._getframe(1).f_locals["product"][:] = -1

    monkeypatch.setattr(sys, "breakpointhook", hook)
    with tw.device("cpu"):
        x, z = tw.ones((8,), f32), tw.zeros((8,), f32)
        scaled(z.partition(4), x, 2.0).sync()
        assert z.numpy().tolist() == [2.0] * 8


def test_an_exception_in_the_debugger_ends_the_launch(monkeypatch):
    def hook(*_, **__):
        raise SystemError("quit")

    monkeypatch.setattr(sys, "breakpointhook", hook)
    with tw.device("cpu"):
        x, z = tw.ones((8,), f32), tw.zeros((8,), f32)
        with pytest.raises(SystemError, match="quit"):
            scaled(z.partition(4), x, 2.0).sync()
        tw.fill(z, 0).sync()
        assert not z.numpy().any()


def _specialized(kernel, target):
    return kernel.specialized(
        sample_specialization(kernel.signature, target, {}, kernel.hints.of(target))
    )


def test_a_gpu_has_no_debugger():
    with pytest.raises(tw.CompileError) as refused:
        _specialized(scaled, "sm_90")
    assert "`breakpoint()` on a GPU (sm_90)" in str(refused.value)
    assert 'run the launch under `tw.device("cpu")`' in str(refused.value)
    _specialized(scaled, "cpu")


def test_it_takes_no_arguments():
    with pytest.raises(tw.CompileError, match="it takes no arguments in a kernel"):
        _specialized(stops_with_arguments, "cpu")
