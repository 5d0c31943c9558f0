"""Large arrays are released after the last statement that names them, and never before."""

import gc
import textwrap
import weakref

import numpy as np
import pytest

from tilewright.backends.cpu.lifetimes import release

NAMES = frozenset({"v1", "v2", "v3"})


def released(text, names=NAMES):
    return "\n".join(release(textwrap.dedent(text).strip().splitlines(), names))


def expected(text):
    return textwrap.dedent(text).strip()


def test_after_the_last_use():
    assert released("""
        v1 = load()
        v2 = f(v1)
        store(v2)
        done()
        """) == expected("""
        v1 = load()
        v2 = f(v1)
        v1 = None
        store(v2)
        v2 = None
        done()
        """)  # fmt: skip


def test_other_names_and_longer_ones_are_left_alone():
    text = "v10 = f(v12)\ng(v10)\nh()"
    assert released(text) == text


def test_nothing_before_the_function_returns():
    text = "v1 = load()\nstore(v1)"
    assert released(text) == text


def test_a_branch_that_names_it_alone_releases_it():
    assert released("""
        if a:
            v1 = load()
            v2 = f(v1)
        else:
            v2 = g()
        store(v2)
        return
        """) == expected("""
        if a:
            v1 = load()
            v2 = f(v1)
            v1 = None
        else:
            v2 = g()
        store(v2)
        return
        """)  # fmt: skip


def test_a_loop_keeps_outer_values_for_all_of_its_turns():
    assert released("""
        v1 = load()
        for i in range(9):
            v2 = f(v1, i)
            store(v2)
            v3 = g(i)
            if v3: continue
        done()
        """) == expected("""
        v1 = load()
        for i in range(9):
            v2 = f(v1, i)
            store(v2)
            v2 = None
            v3 = g(i)
            if v3: continue
            v3 = None
        v1 = None
        done()
        """)  # fmt: skip


def test_a_carried_value_outlives_its_loop():
    assert released("""
        v1 = zero()
        while True:
            v2 = f(v1)
            v1, = v2,
            break
        store(v1)
        done()
        """) == expected("""
        v1 = zero()
        while True:
            v2 = f(v1)
            v1, = v2,
            v2 = None
            break
        store(v1)
        v1 = None
        done()
        """)  # fmt: skip


def test_a_nested_function_keeps_what_it_names():
    text = """
        v1 = load()
        def body(x):
            return x + v1
        v2 = f(body)
        store(v2)
        """
    assert released(text) == expected(text)


@pytest.mark.parametrize("last", ["continue", "break", "raise stop[0]"])
def test_nothing_follows_a_statement_that_leaves(last):
    assert released(f"for i in x:\n    v1 = f()\n    {last}\ndone()") == (
        f"for i in x:\n    v1 = f()\n    v1 = None\n    {last}\ndone()"
    )


def test_an_array_is_gone_while_the_function_runs():
    seen = []

    class Tracked(np.ndarray):
        pass

    def make():
        array = np.zeros(8).view(Tracked)
        seen.append(weakref.ref(array))
        return array

    def look():
        gc.collect()
        seen.append(seen[0]())

    body = release(["v1 = make()", "use(v1)", "look()", "return"], NAMES)
    source = "def run():\n" + "\n".join(f"    {line}" for line in body)
    scope = {"make": make, "use": len, "look": look}
    exec(source, scope)
    scope["run"]()
    assert seen[1] is None
