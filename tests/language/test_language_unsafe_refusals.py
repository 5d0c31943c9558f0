"""Pointers and unsafe blocks where they do not belong: refused in words, never a crash."""

import importlib.util

import pytest

import tilewright as tw
from tilewright import f32

HEAD = """
import tilewright as tw
from tilewright import Mut, Ptr, Ref, Const, f32, i32
from tilewright.dims import B, N
load, danger = tw.load, tw.unsafe
def through(p):
    return tw.load(p)
def moved(p, n):
    with tw.unsafe("own block"):
        return p + n
@tw.kernel(unsafe=True)
def k(z: Mut[f32, B], p: Ptr[f32], q: Ptr[f32], n: i32) -> None:
"""

INSIDE = [
    "p == q", "p < q", "-p", "not p", "p * 2", "2 - p", "p @ q", "p[0]", "p[n]", "p.T", "p.load()",
    "p.astype(f32)", "p.item()", "p if n > 0 else q", "tw.where(n > 0, p, q)", "tw.exp(p)",
    "tw.sum(p)", "f32(p)", "int(p)", "abs(p)", "min(p, q)", "len(p)", "range(p)",
    "tw.load(p, mask=p)", "tw.load(p, padding=q)", "tw.store(p, q)", "tw.store(1.0, 1.0)",
    "tw.load(n)", "tw.full((4,), p, f32)", "p.reshape(3)", "p.reshape(2)", "p.broadcast_to(3)",
    "(p + tw.arange(4)).broadcast_to(8)", "(p + tw.arange(4)) + tw.arange(8)", "p + None",
    "p + 'a'", "p + (1, 2)", "p + True", "tw.load(p, ordering=n)", "tw.load(p, scope=None)",
    "tw.assume(p)", "tw.assume(tw.arange(4) > 1)", "tw.assume_bounds(p, 0, 1)",
    "tw.assume_bounds(1.5, 0, 1)", "tw.assume_bounds(n, n)", "tw.assume_bounds(n, 0, 2**40)",
    "tw.assume_divisible(n, n)", "tw.assume_divisible(n, 0)", "tw.assume_divisible(1.5, 2)",
    "tw.atomic_add(p, q)", "tw.atomic_and(p, 1.0)", "z.unchecked(0)",
    "z.partition(8).store_unchecked(p, 0)", "z.partition(8).load_unchecked(1.5)",
    "z.partition(8).store_unchecked(tw.zeros((4,), f32), 0)", "tw.unsafe('nested')",
]  # fmt: skip

STATEMENTS = [
    "    load(p)",
    "    through(p)",
    "    tw.store(moved(p, 1), 1.0)",
    "    with danger('alias'):\n        pass\n    load(p)",
    "    with danger('x'), danger('y'):\n        pass",
    "    with danger('a' + 'b'):\n        pass",
    "    with open('x'):\n        pass",
    "    with danger('x'):\n        for at in p:\n            pass",
    "    with danger('x'):\n        r = p\n        for i in range(n):\n            r = r + 1",
    "    with danger('x'):\n        if n > 0:\n            r = p\n        else:\n"
    "            r = q\n        tw.store(r, 1.0)",
    "    with danger('x'):\n        p += 1\n        p[0] = 1.0",
    "    p = 1\n    with danger('x'):\n        tw.store(p, 1.0)",
]


@pytest.fixture
def refusal(tmp_path):
    def refuse(body):
        path = tmp_path / "kernels.py"
        path.write_text(HEAD + body + "\n")
        spec = importlib.util.spec_from_file_location("kernels", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        tensors = [tw.zeros((64,), f32) for _ in range(3)]
        with pytest.raises(tw.CompileError) as error:
            module.k.unsafe(tensors[0].partition(32), tensors[1], tensors[2], 3)
        return str(error.value)

    return refuse


@pytest.mark.parametrize("expression", INSIDE)
def test_an_expression_is_refused_inside_a_block(refusal, expression):
    text = refusal(f"    with danger('x'):\n        _ = {expression}")
    assert text.startswith("error[")
    assert "Operand" not in text


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_is_refused(refusal, statement):
    text = refusal(statement)
    assert text.startswith("error[")
    assert "Operand" not in text
