"""Tools end with the call that waits for them, and with the process, with all they have started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fake_toolkits import toolkit

from tilewright.backends.cuda import tool_runs
from tilewright.backends.cuda.tool_runs import run_tool
from tilewright.backends.cuda.toolchain import Toolchain
from tilewright.backends.cuda.toolkits import find_toolkit
from tilewright.errors import ToolchainError
from tilewright.settings import Settings

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="the tools run on Linux alone"
)
PATIENCE = 60.0  # seconds for what has to happen at once
OUTPUT = 'while [ "$1" != -o ]; do shift; done; out=$2'
# Children that write down their number, keep the output open and stay: one in the tool's group, one
# in a session of its own, and one of that one's children.
STAYING = "echo $$ >> {notes}; exec /bin/sleep 500"
INNER = STAYING.replace("$$", r"\$\$")  # in double quotes
CHILDREN = {
    "in the group": f"/bin/sh -c '{STAYING}' &",
    "in a session of its own": f"/usr/bin/setsid /bin/sh -c '{STAYING}' &",
    "a child of that one": (
        f"/usr/bin/setsid /bin/sh -c \"/bin/sh -c '{INNER}' & exec /bin/true\" &"
    ),
}
WRITTEN = "while [ ! -s {notes} ]; do /bin/sleep 0.01; done"
ENDINGS = {"a result": ('printf whole > "$out"', 600.0), "the time limit": ("/bin/sleep 500", 1.0)}


def _children(notes: Path) -> list[int]:
    return [int(line) for line in notes.read_text().split()]


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait_until(is_so) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, "it does not come to that"
        time.sleep(0.01)


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """The folder in which runs make theirs."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.mark.parametrize("child", CHILDREN)
@pytest.mark.parametrize("ending", ENDINGS)
def test_children_end_with_the_tool(child, ending, tmp_path, scratch):
    notes = tmp_path / "notes"
    text, seconds = ENDINGS[ending]
    script = f"{OUTPUT}\n{CHILDREN[child]}\n{WRITTEN}\n{text}".replace("{notes}", str(notes))
    kit = toolkit(tmp_path / "kit", tileiras=script)
    tools = Toolchain(find_toolkit(Settings(toolkit=kit)), seconds)
    if ending == "a result":
        assert tools.assemble(b"", "sm_90") == b"whole"
    else:
        with pytest.raises(ToolchainError, match="took longer than 1 s and was stopped"):
            tools.assemble(b"", "sm_90")
    assert _children(notes)
    assert not any(map(_is_running, _children(notes)))
    assert list(scratch.iterdir()) == []


PROGRAM = """
import sys
from pathlib import Path
from tilewright.backends.cuda.toolchain import Toolchain
from tilewright.backends.cuda.toolkits import find_toolkit
from tilewright.jit.cache.memory import in_background
from tilewright.settings import Settings

tools = Toolchain(find_toolkit(Settings(toolkit=Path(sys.argv[1]))), 600.0)
if sys.argv[2] == "here":
    tools.assemble(b"", "sm_90")
else:
    started = [in_background(lambda: tools.assemble(b"", "sm_90")) for _ in range(40)]
    started[0].result()
"""


@pytest.mark.parametrize(
    ("number", "where"),
    [
        (signal.SIGINT, "here"),
        (signal.SIGINT, "in the background"),
        (signal.SIGTERM, "in the background"),
        (signal.SIGKILL, "here"),
    ],
)
def test_tools_end_with_the_process(number, where, tmp_path, scratch):
    """And nothing is left in the temporary folder, whatever has ended it."""
    notes = tmp_path / "notes"
    children = "\n".join(CHILDREN.values())
    script = f"{children}\nexec /bin/sleep 500".replace("{notes}", str(notes))
    kit = toolkit(tmp_path / "kit", tileiras=script)
    command = [sys.executable, "-c", PROGRAM, str(kit), where]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        _wait_until(lambda: notes.exists() and len(_children(notes)) >= len(CHILDREN))
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == -number, said.decode()
    _wait_until(lambda: not any(map(_is_running, _children(notes))))
    _wait_until(lambda: not list(scratch.iterdir()))
    begun = len(_children(notes))
    time.sleep(0.1)
    assert len(_children(notes)) == begun, "nothing more is begun"


def test_an_interrupt_ends_the_tool_of_this_thread(tmp_path, monkeypatch):
    """At whichever step of the wait it comes."""
    notes = tmp_path / "notes"
    steps = iter(range(3))

    def interrupted(pid):
        if next(steps, None) is None:
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr(tool_runs, "_has_ended", interrupted)
    command = ["/bin/sh", "-c", f"echo $$ > {notes}; exec /bin/sleep 500"]
    monkeypatch.setattr(tool_runs, "_end_of", _looking(notes))
    with pytest.raises(KeyboardInterrupt):
        run_tool(command, tmp_path, 600.0, {})
    assert not any(map(_is_running, _children(notes)))


def _looking(notes):
    from contextlib import contextmanager

    @contextmanager
    def looking(pid):
        yield lambda _: _wait_until(lambda: notes.exists() and notes.read_text())

    return looking


def test_without_word_from_the_system_the_end_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    done = run_tool(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], tmp_path, 600.0, {})
    assert (done.status, done.output, done.errors) == (3, "out\n", "err\n")


def test_a_tool_that_does_not_start(tmp_path):
    with pytest.raises(FileNotFoundError):
        run_tool([tmp_path / "none"], tmp_path, 600.0, {})


def test_many_tools_at_once_have_one_keeper(tmp_path):
    def run(number):
        folder = tmp_path / str(number)
        folder.mkdir()
        return run_tool(["/bin/sh", "-c", f"echo {number}"], folder, 600.0, {}).output

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, range(40))) == [f"{number}\n" for number in range(40)]
    assert tool_runs._running == {}
    keeper = tool_runs._keeper._process
    assert keeper.poll() is None
    assert run(40) == "40\n"
    assert tool_runs._keeper._process is keeper
    keeper.kill()  # by somebody else
    keeper.wait()
    assert [run(41), run(42)] == ["41\n", "42\n"]


def test_a_tool_that_asks_nobody_is_waited_for_by_its_own_thread_alone(tmp_path):
    """A long run in one thread holds no other thread up."""
    gate = tmp_path / "gate"
    waiting = ["/bin/sh", "-c", f"while [ ! -e {gate} ]; do /bin/sleep 0.01; done; echo late"]
    found = []
    (tmp_path / "a").mkdir()
    thread = threading.Thread(
        target=lambda: found.append(run_tool(waiting, tmp_path / "a", 600.0, {}).output)
    )
    thread.start()
    (tmp_path / "b").mkdir()
    assert run_tool(["/bin/sh", "-c", "echo at once"], tmp_path / "b", 600.0, {}).output
    assert found == []
    gate.touch()
    thread.join(PATIENCE)
    assert found == ["late\n"]


FORKED = """
import os, sys
from pathlib import Path
from tilewright.backends.cuda import tool_runs
from tilewright.backends.cuda.tool_runs import run_tool

def run():
    return run_tool(["/bin/sh", "-c", "echo done"], Path(sys.argv[1]), 600.0, {}).output

assert run() == "done\\n"
mine = tool_runs._keeper._process
child = os.fork()
if not child:
    assert tool_runs._keeper._process is None, "it is the parent's"
    assert run() == "done\\n"
    os._exit(0 if tool_runs._keeper._process.pid != mine.pid else 1)
assert os.waitpid(child, 0)[1] == 0
assert mine.poll() is None
assert run() == "done\\n"
"""


def test_a_forked_child_has_a_keeper_of_its_own(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path)], env=environment, timeout=PATIENCE, check=True
    )
