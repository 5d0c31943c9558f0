"""The front of the library: every name is there, is loaded when it is used, and says what it is."""

import subprocess
import sys
import tomllib
from pathlib import Path
from types import FunctionType

import pytest
from placement_ratchet import PINNED

import tilewright as tw
from tilewright import kernels
from tilewright.kernels.reference import attention, choices, memory_bound, products


@pytest.mark.parametrize("name", kernels.__all__)
def test_a_name(name):
    found = getattr(kernels, name)
    assert found.__doc__
    assert found.__name__ == name
    if isinstance(found, tw.Kernel):
        assert found.options.deny_checks
        assert not found.options.unsafe


def test_no_kernel_has_a_check_inside():
    """Where the checks of each are settled is pinned, and none of them hoisted or left in place."""
    pinned = tomllib.loads(PINNED.read_text(encoding="utf-8"))
    public = [getattr(kernels, name) for name in kernels.__all__]
    for kernel in (one for one in public if isinstance(one, tw.Kernel)):
        home = kernel.__module__.removeprefix("tilewright.").replace(".", "/")
        *_, hoisted, in_place = pinned[f"src/tilewright/{home}.py::{kernel.__qualname__}"]
        assert hoisted == in_place == 0


def test_every_function_has_a_reference():
    families = (attention, choices, memory_bound, products)
    references = {name for family in families for name in family.__all__}
    references |= {"sum", "mean", "max", "min"}  # kinds of `memory_bound.reduce`
    functions = {n for n in kernels.__all__ if isinstance(getattr(kernels, n), FunctionType)}
    nothing = {"decode_parts", "warm_up", "warm_up_scaled"}  # which compute nothing
    assert functions - references == nothing


def test_there_are_no_others():
    assert dir(kernels) == kernels.__all__
    with pytest.raises(AttributeError, match=r"'tilewright\.kernels' has no attribute 'sofmax'"):
        kernels.sofmax  # noqa: B018 (looking is the test)


def test_modules_are_loaded_by_their_names_alone():
    code = (
        "import sys, tilewright as tw\n"
        "assert 'tilewright.kernels' not in sys.modules\n"
        "from tilewright import kernels\n"
        "assert 'tilewright.kernels.rows.norms' not in sys.modules\n"
        "kernels.rms_norm\n"
        "assert 'tilewright.kernels.rows.norms' in sys.modules\n"
        "assert 'tilewright.kernels.rows.scans' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_module_hides_a_function():
    """Whoever imports a module makes it an attribute of the package, in place of the function."""
    modules = {path.stem for path in Path(kernels.__file__).parent.iterdir()}
    assert modules & set(kernels.__all__) == set()
