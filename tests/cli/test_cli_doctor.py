"""`tilewright doctor`: what is there, what is not, and the command that helps."""

import json
import os
from importlib import metadata
from types import SimpleNamespace

import pytest

from tilewright.backends.cuda import gpus as gpus_module
from tilewright.backends.cuda.gpus import Gpu, list_gpus
from tilewright.cli import doctor, survey
from tilewright.cli.survey import Finding, PartState
from tilewright.runtime.devices.backend import load_backend

H200 = Gpu("NVIDIA H200", "sm_90", "143771 MiB", "580.159.04", "700.00 W", "1980 MHz")


@pytest.fixture
def machine(monkeypatch):
    """Pretend that the machine has these GPUs, and that this is why they cannot be used."""

    def pretend(*gpus: Gpu, why: str | None = None) -> None:
        monkeypatch.setattr(survey, "list_gpus", lambda: gpus)
        backend = SimpleNamespace(missing=lambda: why)
        real = load_backend("cpu")
        monkeypatch.setattr(
            survey, "load_backend", lambda kind: backend if kind == "cuda" else real
        )

    return pretend


def found(environment=None) -> dict[str, Finding]:
    return {one.name: one for one in survey.survey(environment or {})}


def test_this_machine_in_both_forms(run):
    result = run("doctor")
    assert result.exit_code in (0, 1)
    assert "a kernel on cpu" in result.stdout
    answer = json.loads(run("doctor", "--json").stdout)
    assert answer["ok"] is (result.exit_code == 0)
    states = {finding["name"]: finding["state"] for finding in answer["findings"]}
    assert states["Python"] == states["numpy"] == states["a kernel on cpu"] == "good"


def test_no_gpu_is_no_fault(machine):
    machine(why="there is no CUDA driver here")
    findings = found(os.environ)
    assert findings["NVIDIA driver"].state is PartState.ABSENT
    assert findings["tileiras"].detail.startswith("13.")
    assert "a kernel on cuda:0" not in findings
    assert not [one for one in findings.values() if one.state is PartState.WRONG]


def test_packages_that_only_a_gpu_needs(machine, monkeypatch):
    def version(name: str) -> str:
        if name in ("cuda-core", "nvidia-nvvm"):
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(metadata, "version", version)
    machine(why="there is no CUDA driver here")
    assert found()["cuda-core"].state is PartState.ABSENT
    machine(H200, why="the CUDA packages are not installed")
    findings = found()
    assert findings["cuda-core"].state is PartState.WRONG
    assert findings["cuda-core"].fix == "pip install 'tilewright[cuda]'"
    assert findings["NVIDIA driver"].fix == "pip install 'tilewright[cuda]'"
    assert findings["nvidia-nvvm"].state is PartState.ABSENT  # the toolkit may come from elsewhere
    assert findings["libnvvm"].state is PartState.GOOD


def test_a_gpu_without_a_toolkit(machine, tmp_path):
    machine(H200)
    finding = found({"TILEWRIGHT_TOOLKIT": str(tmp_path)})["CUDA toolkit"]
    assert finding.state is PartState.WRONG
    assert "bin/tileiras is missing" in finding.detail
    assert finding.fix == "unset TILEWRIGHT_TOOLKIT"


def test_a_stale_variable_is_named_though_it_does_no_harm(machine, tmp_path):
    machine(why="there is no CUDA driver here")
    finding = found({"CUDA_HOME": str(tmp_path / "cuda-12")})["CUDA_HOME"]
    assert finding.state is PartState.ABSENT
    assert "which does not exist" in finding.detail
    assert finding.fix == "unset CUDA_HOME"
    assert "bin/ptxas is missing" in found({"CUDA_HOME": str(tmp_path)})["CUDA_HOME"].detail


def test_a_variable_that_cannot_be_read(machine):
    machine(why="there is no CUDA driver here")
    finding = found({"TILEWRIGHT_TILEIRAS_TIMEOUT": "soon"})["environment"]
    assert finding.state is PartState.WRONG
    assert finding.fix == "unset TILEWRIGHT_TILEIRAS_TIMEOUT"


def test_a_driver_or_a_gpu_that_is_too_old(machine):
    machine(Gpu("Tesla T4", "sm_75", "16 GiB", "550.54"), why="not tried here")
    findings = found()
    assert "550.54 is too old" in findings["NVIDIA driver"].detail
    assert findings["NVIDIA driver"].state is findings["GPU"].state is PartState.WRONG
    assert "sm_80 to sm_121" in findings["GPU"].detail


def test_a_gpu_is_tried(machine, monkeypatch):
    machine(H200)
    monkeypatch.setattr(survey, "_works", lambda device: Finding(device, PartState.GOOD, ""))
    findings = found(os.environ)
    assert findings["GPU"].detail == "NVIDIA H200, sm_90, 143771 MiB"
    assert findings["NVIDIA driver"].detail == "580.159.04"
    assert "cuda:0" in findings


def test_a_kernel_that_does_not_run(machine, monkeypatch):
    finding = survey._works("cuda:99")
    assert finding.state is PartState.WRONG
    assert finding.detail.startswith("DriverError: ")


def test_nvidia_smi_is_read(monkeypatch, tmp_path):
    monkeypatch.setattr(gpus_module.shutil, "which", lambda _: None)
    assert list_gpus() == ()
    program = tmp_path / "nvidia-smi"
    row = "NVIDIA H200, 9.0, 143771 MiB, 580.159.04, 700.00 W, 1980 MHz"
    program.write_text(f"#!/bin/sh\necho '{row}'\necho 'odd'\n")
    program.chmod(0o755)
    monkeypatch.setattr(gpus_module.shutil, "which", lambda _: str(program))
    assert list_gpus() == (H200,)
    program.chmod(0o644)
    assert list_gpus() == ()


def test_what_is_wrong_ends_the_command_with_1(run, monkeypatch):
    findings = [
        Finding("cuda-core", PartState.WRONG, "not installed", "pip install it"),
        Finding("tileiras", PartState.WRONG, "not installed", "pip install it"),
    ]
    monkeypatch.setattr(doctor, "survey", lambda _: findings)
    result = run("doctor")
    assert result.exit_code == 1
    assert "for cuda-core, tileiras: pip install it" in result.stdout
    assert "something is missing here" in result.stdout
