"""Emission of loops: those of Tile IR are structured, so they become Python's own.

A counted loop that only accumulates products of tiles along the counter is also emitted as one
product of the panels that those tiles form, on which BLAS is fast. The product runs when the panels
lie inside their tensors; otherwise the loop runs, and reports faults.
"""

from __future__ import annotations

from tilewright.backends.cpu import panels, promises
from tilewright.backends.cpu.contractions import Contraction, contraction
from tilewright.backends.cpu.emitter import Emitter, Rules
from tilewright.backends.cpu.rules.carried import assign, bind_carried, unpack
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import Break, Continue, For, Loop
from tilewright.ir.ops.memory import LoadView
from tilewright.ir.types import TileType

__all__ = ["RULES"]


def _loop(em: Emitter, op: Loop) -> None:
    bind_carried(em, op.body.args)
    assign(em, op.body.args, op.init_values)
    bind_carried(em, op.result_values)
    em.emit("while True:")
    with em.indented(), em.target(Break, op.result_values), em.target(Continue, op.body.args):
        em.emit_stop()
        unpack(em, op.body.args)
        em.write(op.body)
    unpack(em, op.result_values)


def _for(em: Emitter, op: For) -> None:
    _, *carried = op.body.args
    bind_carried(em, carried)
    assign(em, carried, op.init_values)
    product = None if em.plan.watched else contraction(op, em.plan.hoisted)
    if product is not None and em.held[op.step].constant == 1:
        _write_product(em, op, product)
        em.emit("else:")
        with em.indented():
            _write_loop(em, op)
    else:
        _write_loop(em, op)
    for value, result in zip(carried, op.result_values, strict=True):
        if em.is_held(value):
            # The loop's own variable changes when an outer loop runs it again.
            em.define(result, em.held[value].text, em.held[value].shape)
    unpack(em, op.result_values)


def _write_loop(em: Emitter, op: For) -> None:
    counter, *carried = op.body.args
    bounds = [em.plain(value) for value in (op.lower_bound, op.upper_bound, op.step)]
    step = em.held[op.step].constant
    if step is None or step <= 0:
        em.emit(em.call(promises.require_step, em.site(op), bounds[2], op.unsigned_cmp))
    if step != 1:  # with step one, a counter below its bound cannot wrap
        site, bits = em.site(op), _bits(counter)
        em.emit(em.call(promises.require_countable, site, bits, op.unsigned_cmp, *bounds))
    if op.unsigned_cmp:
        text = em.call(promises.unsigned_range, _bits(counter), *bounds)
    else:
        text = f"range({', '.join(bounds)})"
    name = em.fresh()
    em.emit(f"for {name} in {text}:")
    em.bind(counter, name)
    with em.indented(), em.target(Continue, carried):
        em.emit_stop()
        unpack(em, carried)
        em.write(op.body)


def _write_product(em: Emitter, op: For, product: Contraction) -> None:
    """Emit the loop as one product, under the condition that both panels exist and fit."""
    bounds = f"({em.plain(op.lower_bound)}, {em.plain(op.upper_bound)})"
    names = []
    for load, axis in (product.lhs, product.rhs):
        index = ["0" if at == axis else em.plain(value) for at, value in enumerate(load.index)]
        view = em.held[load.view].text
        name = em.fresh()
        where = f"({', '.join(index)},)"
        em.emit(f"{name} = {em.call(panels.panel, view, axis, where, bounds, product.is_single)}")
        em.bind(load.tile, name, None)
        names.append(name)
    axes = product.lhs[1], product.rhs[1]
    em.emit(f"if {em.call(panels.fit, *names, *axes)}:")
    with em.indented(), em.target(Continue, op.body.args[1:]):
        em.write(Block(op.body.args, [o for o in op.body.ops[:-1] if not isinstance(o, LoadView)]))
        assign(em, op.body.args[1:], op.body.ops[-1].operands)


def _bits(value: Value) -> int:
    assert isinstance(value.type, TileType)
    return int(getattr(value.type.element, "bits", 64))


# Rules of this module.
RULES: Rules = {For: _for, Loop: _loop}
