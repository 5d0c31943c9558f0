"""Finding the toolkit: places, order, and what is said about each thing that is wrong."""

from pathlib import Path

import pytest
from fake_toolkits import LIBRARY, script, toolkit

from tilewright.backends.cuda import toolkits
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.backends.cuda.toolkits import find_toolkit, inspect_toolkits
from tilewright.errors import ToolchainError
from tilewright.settings import Settings

_FIX = 'pip install "tilewright[cuda]"'


@pytest.fixture
def no_packages(monkeypatch):
    """As if no `nvidia` package were installed."""
    monkeypatch.setattr(toolkits, "find_spec", lambda _: None)


def _problems(root: Path) -> tuple[str, ...]:
    (inspection,) = inspect_toolkits(Settings(toolkit=root))
    assert (inspection.toolkit is None) == bool(inspection.problems)
    return inspection.problems


def test_the_installed_toolkit():
    toolchain = find_toolchain()
    assert toolchain.toolkit.version.startswith("13.4.")
    assert toolchain.newest_bytecode == (13, 4)
    assert toolchain.version == toolchain.toolkit.version
    assert toolchain.toolkit.tileirdisasm is not None
    assert find_toolchain() is toolchain


def test_a_complete_toolkit(tmp_path):
    found = find_toolkit(Settings(toolkit=toolkit(tmp_path / "kit", "13.4.7")))
    assert found.version == "13.4.7"
    assert found.release == (13, 4)
    assert found.ptxas == tmp_path / "kit/bin/ptxas"
    assert found.tileirdisasm is None


def test_the_library_may_be_where_nvcc_has_it(tmp_path):
    root = toolkit(tmp_path / "kit")
    (root / "nvvm/lib64").mkdir(parents=True)
    (root / LIBRARY).rename(root / "nvvm/lib64/libnvvm.so")
    assert _problems(root) == ()


@pytest.mark.parametrize("name", ["bin/tileiras", "bin/ptxas", LIBRARY])
def test_a_missing_file_is_named(tmp_path, name):
    assert _problems(toolkit(tmp_path / "kit", without=(name,))) == (f"{name} is missing",)


def test_all_missing_files_are_named(tmp_path):
    assert len(_problems(tmp_path)) == 3


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        (
            {"ptxas": "13.0.88"},
            "release 13.4 or newer is needed, but this is tileiras 13.4.92, ptxas 13.0.88, "
            "libnvvm 13.4.92",
        ),
        (
            {"libnvvm": "13.5.1"},
            "the releases are mixed: tileiras 13.4.92, ptxas 13.4.92, libnvvm 13.5.1",
        ),
        (
            {"version": "12.8.61"},
            "release 13.4 or newer is needed, but this is tileiras 12.8.61, ptxas 12.8.61, "
            "libnvvm 12.8.61",
        ),
    ],
)
def test_releases_must_be_new_and_one(tmp_path, versions, message):
    assert _problems(toolkit(tmp_path / "kit", **versions)) == (message,)


def test_a_patch_release_apart_is_fine(tmp_path):
    assert _problems(toolkit(tmp_path / "kit", ptxas="13.4.99")) == ()


def test_a_tool_that_does_not_run(tmp_path):
    root = toolkit(tmp_path / "kit")
    script(root / "bin/ptxas", "exit 1")
    assert _problems(root) == ("ptxas does not run or tell its version",)
    (root / "bin/ptxas").write_bytes(b"not a program")
    assert _problems(root) == ("ptxas does not run or tell its version",)


def test_a_library_without_a_version(tmp_path):
    root = toolkit(tmp_path / "kit")
    (root / LIBRARY).write_bytes(b"")
    assert _problems(root) == ("libnvvm does not run or tell its version",)


# --- where it is looked for ----------------------------------------------------------------------


def test_the_setting_is_searched_alone(tmp_path):
    settings = Settings(toolkit=tmp_path / "none", cuda_home=toolkit(tmp_path / "home"))
    with pytest.raises(ToolchainError) as caught:
        find_toolkit(settings)
    assert "TILEWRIGHT_TOOLKIT" in str(caught.value)
    assert "CUDA_HOME" not in str(caught.value)
    assert f"correct TILEWRIGHT_TOOLKIT, or unset it and run: {_FIX}" in str(caught.value)


def test_packages_come_before_cuda_home(tmp_path):
    settings = Settings(cuda_home=toolkit(tmp_path / "home", "13.9.9"))
    places = [inspection.place for inspection in inspect_toolkits(settings)]
    assert places == ["the installed nvidia packages", "CUDA_HOME"]
    assert find_toolkit(settings).version != "13.9.9"


@pytest.mark.usefixtures("no_packages")
def test_then_cuda_home_cuda_path_and_path(tmp_path):
    kits = [toolkit(tmp_path / name) for name in ("home", "path", "bin")]
    settings = Settings(cuda_home=kits[0], cuda_path=kits[1], path=(tmp_path, kits[2] / "bin"))
    found = [(inspection.place, inspection.root) for inspection in inspect_toolkits(settings)]
    assert found == [("CUDA_HOME", kits[0]), ("CUDA_PATH", kits[1]), ("PATH", kits[2])]
    assert find_toolkit(settings).root == kits[0]


@pytest.mark.usefixtures("no_packages")
def test_a_stale_cuda_home_is_passed_over(tmp_path):
    stale = toolkit(tmp_path / "old", "12.4.1", without=("bin/tileiras",))
    settings = Settings(cuda_home=stale, cuda_path=toolkit(tmp_path / "new"))
    assert find_toolkit(settings).root == tmp_path / "new"


@pytest.mark.usefixtures("no_packages")
def test_a_stale_cuda_home_alone_is_an_error(tmp_path):
    stale = toolkit(tmp_path / "old", "12.4.1", without=("bin/tileiras",))
    with pytest.raises(ToolchainError) as caught:
        find_toolkit(Settings(cuda_home=stale))
    assert str(caught.value) == (
        "no usable Tile IR toolkit\n"
        f"  CUDA_HOME ({stale}): bin/tileiras is missing; release 13.4 or newer is needed, "
        "but this is ptxas 12.4.1, libnvvm 12.4.1\n"
        f"  run: {_FIX}"
    )


@pytest.mark.usefixtures("no_packages")
def test_nothing_at_all():
    with pytest.raises(ToolchainError) as caught:
        find_toolkit(Settings())
    assert str(caught.value) == (
        "no usable Tile IR toolkit\n"
        "  no installed package, CUDA_HOME, CUDA_PATH or PATH has tileiras\n"
        f"  run: {_FIX}"
    )
