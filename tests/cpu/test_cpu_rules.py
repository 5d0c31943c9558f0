"""The rule table is total, and generated programs keep their promises about the host."""

import warnings

import numpy as np
import pytest
from cpu_programs import I32, Program, run, softmax, vector_add

from tilewright.backends.cpu.executor import compile_function
from tilewright.backends.cpu.rules import RULES
from tilewright.dtypes import Element
from tilewright.errors import InternalError
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import Extent
from tilewright.ir.op import Block
from tilewright.ir.ops import TILE_IR_OPS
from tilewright.ir.ops.control import Return
from tilewright.ir.ops.elementwise import DivF
from tilewright.ir.ops.internal import BlockInspection, LaunchValue


def test_every_op_of_tile_ir_has_a_rule_and_nothing_else_has():
    assert set(RULES) == {*TILE_IR_OPS, BlockInspection}  # which stops in a debugger


def test_an_internal_op_that_is_left_over_is_our_mistake():
    body = Block((), [LaunchValue(term=Extent("x", 0), to=I32), Return()])
    with pytest.raises(InternalError, match="launch_value is no op of Tile IR"):
        compile_function(Function("left_over", body))


def test_a_wrong_number_of_arguments_is_our_mistake():
    with pytest.raises(InternalError, match="add takes 9 arguments, got 1"):
        vector_add().run((1, 1, 1), [0], [])


def test_a_program_is_straight_code_and_does_uniform_work_once():
    outer, _, inner = vector_add(256).source.partition("def block(")
    assert outer.count("TiledView") == 3
    assert "TiledView" not in inner
    assert inner.count("add_numpy") == 2, "straight to memory inside, and to a tile at the edge"
    assert inner.count("out=") == 1


def test_an_empty_grid_runs_nothing_and_succeeds():
    z = np.zeros(0, np.float32)
    run(vector_add(16), (0, 1, 1), z, z.copy(), z.copy())


def test_a_kernel_without_ops_does_nothing():
    run(Program("idle").finish(), (3, 1, 1))


def test_numpy_neither_warns_nor_forgets_its_settings():
    program = Program()
    x, z = (program.tensor(Element.F32, 1) for _ in range(2))
    zero = program.b.index(0)
    tile = program.load(program.partition(x, (4,)), zero)
    quotient = program.add(DivF(lhs=tile, rhs=tile))
    program.store(quotient, program.partition(z, (4,)), zero)
    kernel = program.finish()
    source, target = np.zeros(4, np.float32), np.zeros(4, np.float32)
    before = np.geterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(kernel, (1, 1, 1), source, target)
    assert np.isnan(target).all()
    assert np.geterr() == before


def test_one_kernel_serves_many_launches_of_different_sizes():
    kernel = softmax(64)
    rng = np.random.default_rng(0)
    for rows, columns in ((1, 64), (5, 64), (3, 17)):
        x = rng.standard_normal((rows, columns)).astype(np.float32)
        z = np.zeros_like(x)
        run(kernel, (rows, 1, 1), z, x)
        weights = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(z, weights / weights.sum(1, keepdims=True), rtol=1e-5)
