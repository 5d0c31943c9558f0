"""Whatever an author writes is compiled or refused with a message: never a crash of ours.

Every kind of thing that a kernel can name is put into every place where an expression can stand.
Then Python of every kind is put together at random, kernels that are right get something exchanged,
odd values are captured, and odd annotations read: `make syntax` does more of that
(`SYNTAX_COUNT=`, `SYNTAX_SEED=`).
"""

import ast
import importlib.util
import itertools
import os
from pathlib import Path
from random import Random

import pytest
from odd_values import ODD
from random_syntax import every_form, mutated_module, random_module

import tilewright as tw
from tilewright.frontend.signature.specialization import Specialization, TensorSpecialization

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
    return _is_python_module(f"def f():\n    if 1:\n        {statement}\n")


def kernels(folder: Path, share: int) -> list[tw.Kernel]:
    """Every eighth program as a kernel of a module that is written for the purpose."""
    mine = enumerate(programs()[share::SHARES])
    text = [KERNEL.format(number=number, statement=statement) for number, statement in mine]
    return loaded(folder / f"kernels_{share}.py", HEADER + "".join(text))


def loaded(path: Path, text: str) -> list[tw.Kernel]:
    """The kernels of a module with this text."""
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [value for name, value in vars(module).items() if name.startswith("kernel_")]


def _spec(dtype: type[tw.DType], *tile: int) -> TensorSpecialization:
    return TensorSpecialization(dtype, (True,), 16, (16,), (1,), tile=tile)


SPECIALIZATION = Specialization(
    tensors=(_spec(tw.f32, 8), _spec(tw.f32, 8), _spec(tw.f32), _spec(tw.i32)),
    constants=(("B", 8), ("BM", 8), ("C", 4)),
    scalars=(tw.f32, tw.i32, tw.u32),
    target="sm_90",
)


def outcomes(kernels: list[tw.Kernel]) -> tuple[int, list[str]]:
    """How many were compiled, and what was said of the others."""
    compiled, refusals = 0, []
    for kernel in kernels:
        try:
            kernel.specialized(SPECIALIZATION)
            compiled += 1
        except tw.CompileError as error:
            refusals.append(str(error))
        except Exception as error:
            source = ast.unparse(kernel.source.node)
            raise AssertionError(f"{type(error).__name__}: {error}\n{source}") from error
    assert all(text.startswith("error[") for text in refusals)
    return compiled, refusals


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("share", range(SHARES))
def test_every_kernel_is_compiled_or_refused(tmp_path, share):
    compiled, refusals = outcomes(kernels(tmp_path, share))
    assert compiled
    assert refusals


COUNT = int(os.environ.get("SYNTAX_COUNT", "150"))
SEED = int(os.environ.get("SYNTAX_SEED", "7"))


def test_the_forms_have_every_kind_of_node():
    trees = [ast.parse(text) for text in every_form()]
    found = {type(node) for tree in trees for node in ast.walk(tree)}
    every = {
        kind
        for base in (ast.expr, ast.stmt, ast.operator, ast.cmpop, ast.unaryop, ast.boolop)
        for kind in base.__subclasses__()
        if kind.__module__ == "ast" and kind.__name__ not in ("TypeAlias", "Num", "Str")
    }
    assert every - found == set()


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("write", [random_module, mutated_module])
def test_random_python_is_compiled_or_refused(tmp_path, write):
    compiled, refusals = outcomes(loaded(tmp_path / f"{write.__name__}.py", write(SEED, COUNT)))
    assert compiled
    assert refusals


PLACES = (
    "q = {0}", "q = {0}.x", "q = {0}.value", "q = {0}[0]", "q = {0}()", "q = {0}(t)",
    "q = {0}(i, 2)", "q = {0} + 1", "q = t + {0}", "q = {0} == {0}", "q = {0} < 2",
    "q = {0} is None", "q = {0} is {0}", "q = -{0}", "q = not {0}", "q = {0} and i > 0",
    "q = 1 if {0} else 2", "q = {0} if i > 0 else {0}", "if {0}: pass", "for q in {0}: pass",
    "for q in range({0}): pass", "print({0})", "print(f'{{{0}}}')", "print(f'{{{0}:>5}}')",
    "print(f'{{{0}!r}}')", "q = plain({0})", "q = through({0}, t)", "q = through({0}, i, i)",
    "q = t.astype({0})", "q = tw.full((8,), {0}, i32)", "q = tw.full((8,), 1, {0})", "q = xs[{0}]",
    "q = tw.sum(t, axis={0})", "q = tw.reduce(t, {0}, identity=0.0)", "q = tw.where(tb, {0}, 0)",
    "with {0}: pass", "q, p = {0}", "q = {0} ** 2", "q = {0} @ t", "q = (lambda a={0}: a)()",
    "assert i > 0, {0}", "q = len({0})", "q = min({0}, 2)", "q = int({0})", "q = x.partition({0})",
    "x.load_like(z, padding={0})", "z.store({0})", "tw.static_assert({0}, {0})", "raise {0}",
    "q = {0}(*{0})", "q = {0}(t, b=1)", "q = tw.cat((t, {0}))", "q = {0}.name", "q = abs({0})",
    "q = bool({0})", "q = {0} in (1, 2)", "q = {0} % 3", "q = {0} << 1", "tw.require({0})",
    "q = x.gather({0})", "for q in tw.static_range({0}): pass", "q = given_by_default()",
)  # fmt: skip

ODD_HEADER = """
from odd_values import ODD

VALUE_{number} = ODD[{place}]


def given_by_default(a=VALUE_{number}):
    return a


def through(f, *a):
    return f(*a)
"""


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_odd_values_are_used_or_refused(tmp_path):
    random = Random(SEED)
    chosen = [(random.randrange(len(ODD)), random.choice(PLACES)) for _ in range(COUNT * 2)]
    text = "".join(
        ODD_HEADER.format(number=number, place=place)
        + KERNEL.format(number=number, statement=form.format(f"VALUE_{number}"))
        for number, (place, form) in enumerate(chosen)
        if _is_python(form.format("VALUE"))
    )
    compiled, refusals = outcomes(loaded(tmp_path / "odd_kernels.py", HEADER + text))
    assert compiled
    assert refusals


@pytest.mark.parametrize("form", ["{0}.name", "{0}()"])
def test_every_odd_value_is_asked_for_an_attribute(tmp_path, form):
    text = "".join(
        ODD_HEADER.format(number=number, place=number)
        + KERNEL.format(number=number, statement=f"q = {form.format(f'VALUE_{number}')}")
        for number in range(len(ODD))
    )
    outcomes(loaded(tmp_path / "odd_attributes.py", HEADER + text))


ANNOTATIONS = (
    "Mut[f32, B]", "Ref[f32, N]", "Mapped[T, BM, BN]", "f32", "Const[int]", "tuple[i32, f32]",
    "Const", "Mut", "Mut[f32]", "Mut[f32, 4]", "Mut[f32, -1]", "Mut[f32, Literal[4]]",
    "Mut[f32, Literal['a']]", "Ref[N, f32]", "Ref[T, 'N']", "'Ref[f32, N]'", "'nonsense('",
    "nothing", "None", "int", "Ref[f32, N] | None", "typing.Annotated[Ref[f32, N], 3]",
    "Ref[Ref[f32, N], N]", "Const[Const[int]]", "Const[3]", "Const['a']", "list[Ref[f32, N]]",
    "Ref[f32, ...]", "Ref[f32, *(N, M)]", "Ref[f32, tw.All]", "Mut[f32, B, tw.All]", "lambda: 1",
    "[f32]", "(f32, i32)", "1", "...", "Ref[f32, 1 << 70]", "Mut[f32, Literal[1 << 40]]", "print",
    "Const[int | None]", "Const[str]", "tw.Tile[f32]", "tw.Dim", "N", "T", "tw.AnyDType",
    "tw.DType", "Mut[tw.DType, B]", "ODD[{odd}]", "ODD[{odd}]", "Ref[ODD[{odd}], N]",
    "Ref[f32, ODD[{odd}]]", "Const[ODD[{odd}]]", "tuple[ODD[{odd}], f32]",
)  # fmt: skip

SIGNATURE_HEADER = """
import typing
from typing import Literal

import tilewright as tw
from odd_values import ODD
from tilewright import Const, Mapped, Mut, Ref, f32, i32
from tilewright.dims import B, BM, BN, M, N, T
"""


def _signature(random: Random, number: int) -> str:
    names = random.sample(["z", "x", "a", "b", "B", "N", "T", "f32"], random.randint(0, 4))
    parameters = [
        f"{name}: {random.choice(ANNOTATIONS).format(odd=random.randrange(len(ODD)))}"
        + random.choice(("", "", "", " = 1", " = None", " = 10**5000", " = ODD[3]"))
        for name in names
    ]
    if random.random() < 0.3:
        parameters.insert(random.randint(0, len(parameters)), random.choice(("*", "*all_", "/")))
    kind = "async def" if random.random() < 0.05 else "def"
    gives = random.choice((" -> None", " -> None", "", " -> f32", " -> nothing"))
    return f"{kind} kernel_{number}({', '.join(parameters)}){gives}:\n    pass\n"


def test_odd_signatures_are_read_or_refused(tmp_path):
    random = Random(SEED)
    text = "from __future__ import annotations\n" + SIGNATURE_HEADER
    signatures = (_signature(random, number) for number in range(COUNT * 4))
    text += "".join(f"\n\n{one}" for one in signatures if _is_python_module(one))
    read, refusals = 0, 0
    for function in loaded(tmp_path / "odd_signatures.py", text):
        try:
            kernel = tw.kernel(function)
            read += 1
        except tw.CompileError:
            refusals += 1
            continue
        for arguments in ((), (tw.zeros((16,), tw.f32).partition(8),), (1, 2), ("a", None)):
            try:
                kernel(*arguments).sync()
            except tw.TilewrightError:
                refusals += 1
    assert read
    assert refusals


def _is_python_module(text: str) -> bool:
    try:
        compile(text, "case", "exec")
    except SyntaxError:
        return False
    return True
