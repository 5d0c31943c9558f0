"""Programs nested deeper than Python calls functions: they compile, or are refused in words.

Results are held against what Python makes of the same text.
"""

import importlib.util
import sys
import threading
from contextvars import ContextVar

import pytest

import tilewright as tw
from tilewright import deep_calls
from tilewright.errors import CompileError
from tilewright.frontend import lowering

HEAD = """import tilewright as tw
from tilewright import Mut, i32
from tilewright.dims import B
"""


def kernel_of(body: str, folder, helpers: str = ""):
    """A kernel that computes `t` from `n` and `m`."""
    text = f"{HEAD}{helpers}\n@tw.kernel\ndef k(z: Mut[i32, B], n: i32, m: i32) -> None:\n{body}"
    path = folder / "deep.py"
    path.write_text(f"{text}    z.store(tw.full((B,), t, i32))\n")
    spec = importlib.util.spec_from_file_location("deep", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.k


def computed(kernel, n: int, m: int) -> int:
    with tw.device("cpu"):
        z = tw.zeros((4,), tw.i32)
        kernel(z.partition(4), n, m).sync()
        return int(z.numpy()[0])


def meaning(body: str, n: int, m: int, helpers: str = "") -> int:
    space: dict = {"n": n, "m": m}
    exec(helpers + "\n".join(line[4:] for line in body.splitlines()), space)
    return space["t"]


def elifs(count: int) -> str:
    arms = "".join(f"    elif m == {i}:\n        t = n + {i}\n" for i in range(count))
    return f"    if m < 0:\n        t = -1\n{arms}    else:\n        t = -2\n"


def calls(count: int) -> str:
    helpers = "\ndef f0(t, m):\n    return t + 1 if t < m else t\n"
    for i in range(1, count):
        helpers += f"\ndef f{i}(t, m):\n    return f{i - 1}(t, m) + 1 if t < m + {i} else t\n"
    return helpers


BODIES = {
    "sum of 900": "    t = " + " + ".join(["n", "m"] * 450) + "\n",
    "sum of 1000": "    t = " + " - ".join(["n"] * 999) + " + m\n",
    "400 elifs": elifs(400),
    "parentheses": "    t = " + "(m + " * 90 + "n" + ")" * 90 + "\n",
    "calls of min": "    t = " + "min(m + 1, " * 90 + "n" + ")" * 90 + "\n",
    "row of ternaries": "    t = " + "".join(f"{i} if m == {i} else " for i in range(400)) + "n\n",
    "negations": "    t = " + "-" * 500 + "n\n",
    "row of or": "    t = 1 if " + " or ".join(f"m == {i}" for i in range(2000)) + " else 0\n",
    "comparisons": "    t = 1 if " + " < ".join(f"m + {i}" for i in range(300)) + " else 0\n",
}


@pytest.mark.parametrize("name", BODIES)
def test_deep_programs_mean_what_python_means(name, tmp_path):
    kernel = kernel_of(BODIES[name], tmp_path)
    for n, m in ((5, 3), (-7, 399)):
        assert computed(kernel, n, m) == meaning(BODIES[name], n, m)


def test_helpers_that_call_each_other_400_deep(tmp_path):
    helpers, body = calls(400), "    t = f399(n, m)\n"
    kernel = kernel_of(body, tmp_path, helpers)
    assert computed(kernel, 3, 9) == meaning(body, 3, 9, helpers)


def test_5000_statements(tmp_path):
    body = "    t = n\n" + "    t += m\n" * 5000
    assert computed(kernel_of(body, tmp_path), 4, 3) == 15_004


def test_a_sum_of_more_terms_than_calls_fit_the_limit(tmp_path):
    """Python defines such a function only where it has room itself; 3.12 has none beyond 2,994."""
    count = 2900 if sys.version_info[:2] == (3, 12) else 5000
    body = "    t = " + " + ".join(["m"] * count) + "\n"
    kernel = deep_calls.with_room(lambda: kernel_of(body, tmp_path))
    assert computed(kernel, 1, 2) == 2 * count


def test_the_limit_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(deep_calls, "MOST_CALLS", 1200)
    kernel = kernel_of(BODIES["sum of 1000"], tmp_path)
    text = "kernel `k` nests expressions, branches or calls too deep: .* give parts of it names"
    with pytest.raises(CompileError, match=text):
        computed(kernel, 1, 2)


def test_a_tuple_of_tuples_that_share_their_members_is_carried(tmp_path):
    doubled = "    p = (n, m)\n    for _ in tw.static_range(9):\n        p = (p, p)\n"
    exchanged = "    for i in range(m):\n        p = (p[1], p[0])\n"
    last = "p" + "[1]" * 9
    body = f"{doubled}{exchanged}    t = {last}[1] + {last}[0]\n"
    assert computed(kernel_of(body, tmp_path), 5, 3) == 8


TWICE = "\ndef f0(t):\n    return t + 1\n" + "".join(
    f"\ndef f{i}(t):\n    return f{i - 1}(f{i - 1}(t))\n" for i in range(1, 40)
)
NESTED = "".join(f"{'    ' * (i + 1)}for i{i} in tw.static_range(1024):\n" for i in range(4))


@pytest.mark.parametrize(
    ("body", "helpers"),
    [("    t = f39(n)\n", TWICE), (f"    t = n\n{NESTED}{'    ' * 5}t += m\n", "")],
    ids=["helpers that call another twice", "unrolled loops in each other"],
)
def test_a_kernel_that_is_endless_when_written_out_is_refused(body, helpers, tmp_path, monkeypatch):
    monkeypatch.setattr(lowering, "MOST_EXPRESSIONS", 2000)
    text = "with its unrolled loops and calls written out, the kernel has over 2,000 expressions"
    with pytest.raises(CompileError, match=text) as refused:
        computed(kernel_of(body, tmp_path, helpers), 1, 2)
    assert len(refused.value.problems) == 1
    assert lowering.MOST_EXPRESSIONS == 2000
    assert computed(kernel_of("    t = f7(n)\n", tmp_path, TWICE), 1, 2) == 1 + 2**7


# --- room -----------------------------------------------------------------------------------------


def down(depth: int) -> int:
    return 0 if depth == 0 else 1 + down(depth - 1)


def test_room_is_made_and_given_back():
    before = sys.getrecursionlimit(), threading.stack_size()
    assert deep_calls.with_room(lambda: down(20_000)) == 20_000
    assert (sys.getrecursionlimit(), threading.stack_size()) == before
    with pytest.raises(RecursionError):
        deep_calls.with_room(lambda: down(200_000))
    assert (sys.getrecursionlimit(), threading.stack_size()) == before


def test_the_context_goes_along_and_failures_come_back():
    chosen: ContextVar[str] = ContextVar("chosen")
    chosen.set("here")

    def asked() -> str:
        down(5000)
        return chosen.get()

    assert deep_calls.with_room(asked) == "here"

    def failing() -> None:
        down(5000)
        raise ValueError("from below")

    with pytest.raises(ValueError, match="from below"):
        deep_calls.with_room(failing)


def test_many_threads_make_room_at_once():
    before, found = sys.getrecursionlimit(), []
    threads = [
        threading.Thread(target=lambda: found.append(deep_calls.with_room(lambda: down(5000))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [5000] * 4
    assert sys.getrecursionlimit() == before


def test_no_thread_is_no_room(monkeypatch):
    def start(thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RecursionError, match="can't start new thread"):
        deep_calls.with_room(lambda: down(5000))
