"""What a kernel takes from outside, changed after it was compiled; files that change under it."""

import importlib
import itertools
import os
import sys

import pytest
from compiled_kernels import compiled_kernels

import tilewright as tw
from tilewright import Mut, f32, i32
from tilewright.dims import B
from tilewright.kernels import add_elements

SCALE = 2
KIND = i32
PAIR = (1, (2, 3.0))


def plus(tile, amount=1, *, twice=False):
    return tile + amount * (2 if twice else 1)


def minus(tile, amount=1):
    return tile - amount


CHANGE = plus


def run(kernel):
    z = tw.zeros((4,), i32)
    kernel(z.partition(4)).sync()
    return int(z.numpy()[0])


@tw.kernel
def scaled(z: Mut[i32, B]) -> None:
    z.store(tw.full((B,), SCALE, i32) + CHANGE(tw.zeros((B,), i32)) * 10)


@tw.kernel
def of_kind(z: Mut[i32, B]) -> None:
    z.store(tw.full((B,), PAIR[1][1], f32).astype(KIND).astype(i32) + PAIR[0])


def test_a_changed_global_is_seen(monkeypatch):
    assert run(scaled) == 12
    monkeypatch.setitem(globals(), "SCALE", 5)
    assert run(scaled) == 15
    monkeypatch.setitem(globals(), "SCALE", 2)
    assert run(scaled) == 12
    assert len(scaled._compiled) == 2, "what was compiled for 2 is used again"


def test_a_global_that_is_gone_or_cannot_be_used_is_an_error(monkeypatch):
    assert run(scaled) == 12
    monkeypatch.delitem(globals(), "SCALE")
    with pytest.raises(tw.CompileError, match="`SCALE` is not defined"):
        run(scaled)
    monkeypatch.setitem(globals(), "SCALE", [2])
    with pytest.raises(tw.CompileError, match="cannot use `SCALE`"):
        run(scaled)


OURS = tw


@tw.kernel
def by_another_name(z: Mut[i32, B]) -> None:
    z.store(OURS.full((B,), 3, i32))


def captures_of(kernel):
    return [compiled.captures for _, compiled in compiled_kernels(kernel)]


def test_only_what_this_package_says_itself_is_never_looked_at_again():
    assert run(by_another_name) == 3
    assert not any(found.are_fixed for found in captures_of(by_another_name))
    add_elements(tw.zeros((4,), i32).partition(4), tw.ones((4,), i32), tw.ones((4,), i32)).sync()
    assert all(found.are_fixed for found in captures_of(add_elements))


def test_another_helper_is_seen(monkeypatch):
    assert run(scaled) == 12
    monkeypatch.setitem(globals(), "CHANGE", minus)
    assert run(scaled) == -8


def test_a_helper_that_is_changed_in_place_is_seen(monkeypatch):
    assert run(scaled) == 12
    monkeypatch.setattr(plus, "__defaults__", (4,))
    assert run(scaled) == 42
    monkeypatch.setattr(plus, "__kwdefaults__", {"twice": True})
    assert run(scaled) == 82
    monkeypatch.setattr(plus, "__kwdefaults__", None)
    with pytest.raises(tw.CompileError, match="twice"):
        run(scaled)


def test_values_that_compare_equal_are_told_apart(monkeypatch):
    assert run(of_kind) == 4
    monkeypatch.setitem(globals(), "PAIR", (1, (2, 3.0)))
    assert run(of_kind) == 4
    assert len(of_kind._compiled) == 1, "an equal tuple is the same"
    for count, third in enumerate((3, 0.0, -0.0), start=2):
        monkeypatch.setitem(globals(), "PAIR", (1, (2, third)))
        assert run(of_kind) == 1 + third
        assert len(of_kind._compiled) == count
    monkeypatch.setitem(globals(), "KIND", f32)
    assert run(of_kind) == 1
    assert len(of_kind._compiled) == 5


def test_a_changed_closure_is_seen():
    def make(amount):
        @tw.kernel
        def kernel(z: Mut[i32, B]) -> None:
            z.store(tw.full((B,), amount, i32))

        def change(to):
            nonlocal amount
            amount = to

        return kernel, change

    (one, change_one), (two, _) = make(1), make(2)
    assert (run(one), run(two)) == (1, 2)
    change_one(7)
    assert (run(one), run(two)) == (7, 2)


def test_a_variable_that_its_function_has_not_set_is_no_global():
    def make():
        @tw.kernel
        def kernel(z: Mut[i32, B]) -> None:
            z.store(tw.full((B,), SCALE, i32))

        early = kernel
        with pytest.raises(tw.CompileError, match="`SCALE`"):
            run(early)
        SCALE = 3
        return early, SCALE

    assert run(make()[0]) == 3


def test_a_global_named_like_a_builtin_is_seen(monkeypatch):
    @tw.kernel
    def smaller(z: Mut[i32, B]) -> None:
        z.store(tw.full((B,), min(3, 5), i32))

    assert run(smaller) == 3
    monkeypatch.setitem(globals(), "min", max)
    assert run(smaller) == 5


# --- files ---

HEAD = "import tilewright as tw\nfrom tilewright import Mut, i32\nfrom tilewright.dims import B\n"
KERNEL = "@tw.kernel\ndef kernel(z: Mut[i32, B]) -> None:\n    z.store(tw.full((B,), {}, i32))\n"
_times = itertools.count(1_700_000_000, 10)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a module; each version is younger than the one before."""
    monkeypatch.syspath_prepend(str(tmp_path))
    written = []

    def write_module(name, text):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        now = next(_times)
        os.utime(path, (now, now))
        importlib.invalidate_caches()
        written.append(name)

    yield write_module
    for name in written:
        sys.modules.pop(name, None)


def test_a_module_that_is_loaded_again_has_its_new_kernels(write):
    """The text of the first version was kept, and the second was compiled from it."""
    write("hole_reloaded", HEAD + KERNEL.format(1))
    module = importlib.import_module("hole_reloaded")
    assert run(module.kernel) == 1
    write("hole_reloaded", HEAD + KERNEL.format(2))
    importlib.reload(module)
    assert run(module.kernel) == 2


def test_a_helper_whose_file_has_changed_is_not_read_from_it(write):
    """Python runs the helper as it was loaded; the file holds another one."""
    write("hole_helper", "def helper():\n    return 1\n")
    write("hole_user", HEAD + "import hole_helper\n" + KERNEL.format("hole_helper.helper()"))
    user = importlib.import_module("hole_user")
    write("hole_helper", "def helper():\n    return 2\n")
    with pytest.raises(tw.CompileError, match="has changed since it was imported; reload it"):
        run(user.kernel)
    importlib.reload(user.hole_helper)
    assert run(user.kernel) == 2


def test_a_kernel_defined_again_is_another_kernel(write):
    write("hole_twice", HEAD + KERNEL.format(1) + "first = kernel\n" + KERNEL.format(2))
    module = importlib.import_module("hole_twice")
    assert (run(module.first), run(module.kernel)) == (1, 2)


ALLOWED = tw.unsafe


@tw.kernel
def promised(z: Mut[i32, B], n: i32) -> None:
    with ALLOWED("callers pass a positive number"):
        tw.assume(n > 0)
    z.store(tw.full((B,), 1, i32))


def test_what_allows_unsafe_code_is_captured_like_anything_else(monkeypatch):
    z = tw.zeros((4,), i32)
    promised(z.partition(4), 1).sync()
    monkeypatch.setitem(globals(), "ALLOWED", plus)
    with pytest.raises(tw.CompileError, match=r"the only block of this kind is `with tw\.unsafe"):
        promised(z.partition(4), 1)
    monkeypatch.setitem(globals(), "ALLOWED", tw.unsafe)
    promised(z.partition(4), 1).sync()
