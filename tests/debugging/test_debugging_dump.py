"""TILEWRIGHT_DUMP and TILEWRIGHT_LOG: files of each stage, lines of each event."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from debugged_kernels import nameless

import tilewright as tw
from tilewright import bytecode, f32
from tilewright.backends.cuda.toolkits import inspect_toolkits
from tilewright.errors import TilewrightError
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.ir.text import module_text
from tilewright.jit.compile import dumping, executable
from tilewright.settings import DumpSetting, Settings, current_settings

HERE = Path(__file__).parent
SCRIPT = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import tilewright as tw
from debugged_kernels import nameless

with tw.device("cpu"):
    x, z = tw.ones((8,), tw.f32), tw.zeros((8,), tw.f32)
    nameless(z.partition(4), x).sync()
    with tw.graph() as graph:
        graph.record(nameless(z.partition(4), x))
    graph.launch().sync()
"""


@pytest.fixture
def dumping_to(tmp_path, monkeypatch):
    def dump(kernel=""):
        settings = Settings(dump=DumpSetting(tmp_path, kernel))
        for module in (dumping, executable):
            monkeypatch.setattr(module, "current_settings", lambda: settings)
        return tmp_path

    return dump


def _compile(kernel, target):
    hints = kernel.hints.of(target)
    return kernel.observed(None).specialized(
        sample_specialization(kernel.signature, target, {}, hints)
    )


def test_every_stage_is_a_file(dumping_to):
    folder = dumping_to()
    compiled = _compile(nameless, "sm_90")
    (made,) = folder.iterdir()
    assert made.name.startswith("nameless-sm_90-")
    files = {re.sub(r"^\d\d-", "", path.name): path for path in made.iterdir()}
    assert "def nameless(z: Mut" in files["source.py"].read_text()
    assert "nameless" in files["specialisation.txt"].read_text()
    passes = "lowered hoist_checks place_checks order_tokens bind_arguments lower_assumptions"
    assert {f"{name}-nameless.tileir" for name in passes.split()} <= files.keys()
    assert "launch_value" in files["lowered-nameless.tileir"].read_text()
    assert "launch_value" not in files["bind_arguments-nameless.tileir"].read_text()
    assert files["module.tileir"].read_text().strip() == module_text(compiled.module).strip()
    assert bytecode.decode(files["module.tilebc"].read_bytes()).module.functions
    assert json.loads(files["ledger.json"].read_text()) == compiled.ledger.to_json()


def test_only_the_named_kernel_is_dumped(dumping_to):
    folder = dumping_to("other")
    _compile(nameless, "cpu")
    assert not list(folder.iterdir())
    dumping_to("nameless")
    _compile(nameless, "cpu")
    assert len(list(folder.iterdir())) == 1


@pytest.mark.skipif(
    not any(one.toolkit for one in inspect_toolkits(current_settings())), reason="needs tileiras"
)
def test_the_cubin_is_dumped(dumping_to):
    folder = dumping_to()
    x, z = (tw.meta((64,), f32, target="sm_90") for _ in range(2))
    nameless.observed(None)(z.partition(16), x).compile()
    (cubin,) = folder.glob("nameless-*/kernel.cubin")
    assert cubin.read_bytes()[:4] == b"\x7fELF"


def test_a_folder_that_cannot_be_written_is_a_warning(dumping_to, caplog):
    folder = dumping_to()
    folder.rmdir()
    folder.write_text("a file")
    _compile(nameless, "cpu")
    assert "cannot be written" in caplog.text


@pytest.mark.parametrize(
    ("text", "folder", "kernel"),
    [("out", "out", ""), ("out:add", "out", "add"), ("a:b/c", "a:b/c", ""), (":add", ":add", "")],
)
def test_the_forms_of_the_variable(text, folder, kernel):
    found = Settings.from_environment({"TILEWRIGHT_DUMP": text}).dump
    assert found == DumpSetting(Path(folder), kernel)


def _log_of(topics):
    environment = os.environ | {"TILEWRIGHT_LOG": topics, "TILEWRIGHT_CACHE": "off"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return [line for line in done.stderr.splitlines() if line.startswith("tilewright: ")]


def test_topics_of_the_log():
    told = "\n".join(_log_of("all"))
    assert re.search(r"`nameless` specialised for .* on cpu: compiled in \d", told)
    launches = re.findall(
        r"launch of (.*), built at <string>:(\d+), on default stream of cpu", told
    )
    assert launches == [("nameless", "9"), ("graph replay", "12")]
    assert all("compiled in" in line for line in _log_of("compile"))


def test_an_unknown_topic_is_refused():
    with pytest.raises(TilewrightError, match="'launches' is no topic; there are all, cache"):
        Settings.from_environment({"TILEWRIGHT_LOG": "launches"})
    assert Settings.from_environment({"TILEWRIGHT_LOG": "wait, Cache"}).log == ("cache", "wait")


def test_a_dump_changes_no_result(dumping_to):
    dumping_to()
    with tw.device("cpu"):
        x, z = tw.from_numpy(np.arange(8, dtype=np.float32)), tw.zeros((8,), f32)
        nameless.observed(None)(z.partition(4), x).sync()
        assert z.numpy().tolist() == list(range(8))
