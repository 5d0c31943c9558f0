"""Random expressions, written to a file, compiled and run: the same as NumPy computes."""

import importlib.util
import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from running import run

from tilewright import f32, i32

FLOAT_OPERATORS = ("{} + {}", "{} - {}", "{} * {}", "minimum({}, {})", "maximum({}, {})",
                   "where({} < 1.5, {}, 0.25)")  # fmt: skip
INTEGER_OPERATORS = (*FLOAT_OPERATORS[:5], "{} & {}", "{} | {}", "{} ^ {}", "{} // (abs({}) + 1)",
                     "{} % (abs({}) + 3)", "where({} > 2, {}, 5)", "~{} + {}")  # fmt: skip

HEADER = """
import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N

abs, minimum, maximum, where = tw.abs, tw.minimum, tw.maximum, tw.where


@tw.kernel
def program(z: Mut[{dtype}, B], x: Ref[{dtype}, N], y: Ref[{dtype}, N], s: {dtype}) -> None:
    a, b = x.load_like(z), y.load_like(z)
{lines}    z.store(a)
"""

_numbers = itertools.count()


def statements(operators: tuple[str, ...], literal: st.SearchStrategy[str]):
    operand = st.one_of(st.sampled_from(["a", "b", "s"]), literal)
    one = st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(operators), operand, operand)
    # One side at least is a tile, so that the result is one and literals have a dtype to meet.
    lines = one.map(lambda o: f"{o[0]} = " + o[1].format(o[0], f"({o[2]} + {o[0]} - {o[3]})"))
    return st.lists(lines, min_size=1, max_size=6)


def results(folder, lines: list[str], dtype: str, x: np.ndarray, y: np.ndarray, s):
    path = folder / f"program_{next(_numbers)}.py"
    text = HEADER.format(dtype=dtype, lines="".join(f"    {line}\n" for line in lines))
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    out = f32 if dtype == "f32" else i32
    got = run(module.program, (x.shape, out), 16, x, y, s)
    names = {"a": x, "b": y, "s": x.dtype.type(s), "abs": np.abs, "minimum": np.minimum,
             "maximum": np.maximum, "where": np.where}  # fmt: skip
    with np.errstate(over="ignore"):
        for line in lines:
            exec(line, names)
    return got, names["a"].astype(x.dtype)


@settings(max_examples=25)
@given(
    lines=statements(FLOAT_OPERATORS, st.sampled_from(["0.5", "2", "-1.25"])),
    seed=st.integers(0, 1000),
)
def test_random_float_programs(lines, seed, tmp_path_factory):
    generator = np.random.default_rng(seed)
    x, y = (generator.uniform(-2, 2, 24).astype(np.float32) for _ in range(2))
    folder = tmp_path_factory.mktemp("programs")
    got, wanted = results(folder, lines, "f32", x, y, 0.75)
    scale = np.maximum(np.abs(wanted), np.abs(wanted).max())
    np.testing.assert_allclose(got / scale, wanted / scale, atol=1e-5)


@settings(max_examples=25)
@given(
    lines=statements(INTEGER_OPERATORS, st.integers(-9, 9).map(str)),
    seed=st.integers(0, 1000),
    scalar=st.integers(-(2**31), 2**31 - 1),
)
def test_random_integer_programs(lines, seed, scalar, tmp_path_factory):
    generator = np.random.default_rng(seed)
    x, y = (generator.integers(-(2**31), 2**31, 24, dtype=np.int32) for _ in range(2))
    folder = tmp_path_factory.mktemp("programs")
    got, wanted = results(folder, lines, "i32", x, y, scalar)
    np.testing.assert_array_equal(got, wanted)
