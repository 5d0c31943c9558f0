"""Whatever an author writes is compiled or refused with a message: never a crash of ours.

Every kind of thing that a kernel can name is put into every place where an expression can stand.
"""

import importlib.util
import itertools
from pathlib import Path

import pytest

import tilewright as tw
from tilewright.frontend.specialization import Specialization, TensorSpec

HEADER = """
import math

import numpy as np

import tilewright as tw
from tilewright import Const, Mapped, Mut, Ref, bool_, f16, f32, i32, u32
from tilewright.dims import B, BM, D, N, T

LIST, ARRAY = [1, 2], np.zeros(3)


def plain(a, b=2):
    return a
"""

KERNEL = """

@tw.kernel
def kernel_{number}(
    z: Mut[f32, B], w: Mapped[f32, BM], x: Ref[f32, N], ids: Ref[i32, N],
    alpha: f32, i: i32, u: u32, *, C: Const[int] = 4,
) -> None:
    t, ti, xs, zs = x.load_like(z), ids.load_like(z), x.partition(8), z.partition(4)
    tb = t > 0.5
    for at in w.indices():
        {statement}
"""

THINGS = (
    "3", "-1", "10**400", "1.5", "math.nan", "True", "None", "'text'", "...", "2j",
    "t", "ti", "tb", "alpha", "i", "(i > 0)", "u", "x", "z", "w", "xs", "zs", "at", "w.indices()",
    "(1, 2)", "(i, t)", "()", "f32", "T", "tw.exp", "plain", "len", "range(3)", "math", "t.astype",
    "LIST", "ARRAY", "N", "B", "D", "nothing", "x.shape", "z.index",
)  # fmt: skip

EXPRESSIONS = (
    "-{0}", "~{0}", "not {0}", "{0}.shape", "{0}.T", "{0}.nothing", "{0}[0]", "{0}[i]",
    "{0}[:, None]", "{0}[0:2]", "{0}()", "{0}(t)", "{0}.load()", "{0}.store(t)",
    "{0}.store(t, at)", "{0}.partition(8)", "{0}.num_tiles(0)", "{0}.load_like(z)",
    "{0}.astype(f16)", "{0}.reshape(2, 4)", "{0}.permute(0)", "{0}.broadcast_to(2, 8)",
    "{0}.item()", "x.load_like({0})", "x.load_like(z, padding={0})", "x.partition({0})",
    "xs[{0}]", "zs[{0}]", "zs.store(t, {0})", "zs.store({0}, 0)", "z.store({0})",
    "w.store({0}, at)", "w.store(t, {0})", "xs.num_tiles({0})", "z.partition({0})",
    "t.astype({0})", "t.reshape({0})", "t[{0}]", "t.permute({0})", "x.shape[{0}]", "at[{0}]",
    "tw.zeros({0}, f32)", "tw.zeros((8,), {0})", "tw.full((8,), {0}, i32)", "tw.arange({0})",
    "tw.exp({0})", "tw.abs({0})", "tw.minimum({0}, t)", "tw.clamp(t, {0}, 1)",
    "tw.fma({0}, t, 1)", "tw.where({0}, t, 0)", "tw.where(tb, {0}, {0})", "tw.sum({0})",
    "tw.sum(t, axis={0})", "tw.sum(t, keepdims={0})", "tw.mma({0}, {0}, {0})", "tw.block_id({0})",
    "tw.cdiv(i, {0})", "tw.require({0})", "tw.static_assert({0})", "len({0})", "min({0}, 2)",
    "max({0})", "abs({0})", "int({0})", "f16({0})", "plain({0}, b={0})", "plain(*{0})",
    "{0} if i > 0 else {0}", "1 if {0} else 2", "{0} < {0} < {0}", "{0} is None",
)  # fmt: skip

STATEMENTS = (
    "q = {0}\n        for _ in range(3):\n            q = q + 1",
    "q = 0\n        for _ in range(3):\n            q = {0}",
    "q = 1\n        if i > 0:\n            q = {0}\n        p = q",
    "if {0}:\n            pass",
    "for k in {0}:\n            pass",
    "for k in range({0}, 0, -1):\n            pass",
    "q, p = {0}",
    "q = 1\n        q += {0}",
    "return {0}",
    "{0}[0] = t",
)

SHARES = 8

OPERATORS = (
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "@",
    "&",
    "<<",
    "==",
    "<",
    "and",
    "or",
    "is",
    "in",
)


def programs() -> list[str]:
    every = [f"q = {form.format(thing)}" for form in EXPRESSIONS for thing in THINGS]
    every += [form.format(thing) for form in STATEMENTS for thing in THINGS]
    pairs = itertools.islice(itertools.product(THINGS, repeat=2), 0, None, 3)
    signs = itertools.cycle(OPERATORS)
    every += [f"q = {left} {next(signs)} {right}" for left, right in pairs]
    return [statement for statement in every if _is_python(statement)]


def _is_python(statement: str) -> bool:
    try:
        compile(f"def f():\n    if 1:\n        {statement}\n", "case", "exec")
    except SyntaxError:
        return False
    return True


def kernels(folder: Path, share: int) -> list[tw.Kernel]:
    """Every eighth program as a kernel of a module that is written for the purpose."""
    path = folder / f"kernels_{share}.py"
    mine = enumerate(programs()[share::SHARES])
    text = [KERNEL.format(number=number, statement=statement) for number, statement in mine]
    path.write_text(HEADER + "".join(text), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [value for name, value in vars(module).items() if name.startswith("kernel_")]


def _spec(dtype: type[tw.DType], *tile: int) -> TensorSpec:
    return TensorSpec(dtype, (True,), 16, (16,), (1,), tile=tile)


SPECIALIZATION = Specialization(
    tensors=(_spec(tw.f32, 8), _spec(tw.f32, 8), _spec(tw.f32), _spec(tw.i32)),
    constants=(("B", 8), ("BM", 8), ("C", 4)),
    scalars=(tw.f32, tw.i32, tw.u32),
    target="sm_90",
)


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("share", range(SHARES))
def test_every_kernel_is_compiled_or_refused(tmp_path, share):
    compiled, refusals = [], []
    for kernel in kernels(tmp_path, share):
        try:
            compiled.append(kernel.specialized(SPECIALIZATION))
        except tw.CompileError as error:
            refusals.append(str(error))
    assert compiled
    assert refusals
    assert all(text.startswith("error[") for text in refusals)
