"""The part in C: it is built without a warning, used where it fits, and can be left out."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import tilewright
from tilewright import native
from tilewright.native.build import build
from tilewright.native.checksum import checksum

SOURCES = sorted(Path(native.__file__).parent.glob("*.c"))
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only")


def include_of(python):
    """The folder of a Python's headers; None if that Python is not here."""
    if python == f"python3.{sys.version_info.minor}":
        return sysconfig.get_paths()["include"]
    found = shutil.which(python)
    ask = "import sysconfig; print(sysconfig.get_paths()['include'])"
    told = found and subprocess.run([found, "-c", ask], capture_output=True, text=True)
    return told.stdout.strip() if told and told.returncode == 0 else None


@pytest.mark.parametrize("python", ["python3.11", "python3.12", "python3.13"])
def test_it_compiles_without_a_warning(python):
    include = include_of(python)
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or include is None or not Path(include, "Python.h").exists():
        pytest.skip(f"needs a C compiler and the headers of {python}")
    subprocess.run([compiler, *STRICT, f"-I{include}", *map(str, SOURCES)], check=True)


def test_an_extension_of_other_sources_is_not_used(monkeypatch):
    if native.EXTENSION is None:
        pytest.skip(f"launches run in Python: {native.WHY_NOT}")
    monkeypatch.setattr(native, "checksum", lambda: checksum() + 1)
    assert native._load() == (None, "the part in C was built from other sources")
    monkeypatch.setattr(native, "checksum", lambda: None)  # of a wheel, which has no sources
    assert native._load() == (native.EXTENSION, "")


def test_a_missing_compiler_is_an_error_of_the_build_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("LDSHARED", "no-such-compiler")
    with pytest.raises(OSError, match="no-such-compiler"):
        build(0, tmp_path)


@pytest.mark.parametrize("value", ["0", "1", "yes"])
def test_a_variable_leaves_it_out(value):
    code = "from tilewright import native; print(native.WHY_NOT)"
    environment = {"PATH": "", "TILEWRIGHT_NATIVE": value, "PYTHONPATH": _source_folder()}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    if value == "yes":
        assert "TILEWRIGHT_NATIVE='yes': it is 0 or 1" in ran.stderr
    else:
        assert (ran.stdout == "TILEWRIGHT_NATIVE=0 is set\n") is (value == "0"), ran.stderr


def _source_folder():
    return str(Path(tilewright.__file__).parents[1])


def test_methods_in_c_are_documented_as_their_definitions():
    from tilewright.runtime.ops.launch import LaunchOp

    assert LaunchOp.submit.__doc__.startswith("Hand the operation to a stream")
    with pytest.raises(TypeError):
        LaunchOp.submit(3)
