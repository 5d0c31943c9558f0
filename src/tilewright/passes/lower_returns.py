"""Lowers a `return` inside a loop to a `break` with a flag and a `return` after the loop.

    before                                  after
    %r = loop iter_values(%v = %x) {        %r, %over = loop iter_values(%v = %x) {
      if %c { return }                        if %c { break %zero, %true }
      if %d { break %v }                      if %d { break %v, %false }
      continue %w                             continue %w
    }                                       }
                                            if %over { return }

tileiras drops a `return` in a loop that is nested in a branch or another loop, and runs the code
after it (13.4). The results of the loop are dead on that path. Runs after `lower_exits`: a counted
loop has no `return` any more.
"""

from __future__ import annotations

from tilewright.dtypes import Element
from tilewright.ir.function import Function
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.addresses import IntToPtr
from tilewright.ir.ops.control import Break, If, Loop, Return, Yield
from tilewright.ir.ops.memory import MakeToken
from tilewright.ir.ops.shape import Constant
from tilewright.ir.rewrite import Rewriter, Rule, nested_ops, with_parts
from tilewright.ir.types import PtrType, TileType, TokenType, Type, scalar

__all__ = ["lower_returns"]

_TRUTH = scalar(Element.I1)


def lower_returns(function: Function) -> Function:
    """Replace every `return` in a loop."""
    loops = (op for op in function.walk() if isinstance(op, Loop))
    return _Leaving().function(function) if any(map(_returns, loops)) else function


def _returns(loop: Loop) -> bool:
    return any(isinstance(op, Return) for op in nested_ops(loop))


class _Leaving(Rewriter):
    def __init__(self) -> None:
        super().__init__(_RULES)
        # Result types of each enclosing loop without the flag, or None for a loop without a flag.
        self.loops: list[tuple[Type, ...] | None] = []

    def news(self, is_over: bool) -> Value:
        """The flag whether the kernel has returned."""
        return self.builder.add(Constant(value=is_over, to=_TRUTH)).result

    def anything(self, of: Type) -> Value:
        """A placeholder value, which is dead."""
        if isinstance(of, TokenType):
            return self.builder.add(MakeToken()).result
        assert isinstance(of, TileType), "a loop carries tiles and tokens"
        if isinstance(of.element, PtrType):
            zero = self.builder.add(Constant(value=0, to=of.with_element(Element.I64))).result
            return self.builder.add(IntToPtr(source=zero, to=of)).result
        return self.builder.add(Constant(value=0, to=of)).result


def _loop(leaving: _Leaving, op: Loop) -> None:
    if not _returns(op):
        leaving.loops.append(None)
        leaving.keep(op)
        leaving.loops.pop()
        return
    leaving.loops.append(op.types)
    body = leaving.block(op.body)
    leaving.loops.pop()
    first = tuple(leaving.new(value) for value in op.init_values)
    types = (*op.types, _TRUTH)
    new = leaving.builder.add(with_parts(op, init_values=first, body=body, types=types))
    leaving.replace(op, *new.results)
    with leaving.builder.inside(Block()) as then_body:
        _return(leaving, Return())
    over = new.result_values[-1]
    leaving.builder.add(If(condition=over, then_body=then_body, else_body=Block((), [Yield()])))


def _break(leaving: _Leaving, op: Break) -> None:
    if leaving.loops[-1] is None:
        leaving.keep(op)
        return
    values = tuple(leaving.new(value) for value in op.values)
    leaving.builder.add(Break(values=(*values, leaving.news(False))))


def _return(leaving: _Leaving, op: Return) -> None:
    if not leaving.loops:
        leaving.keep(op)
        return
    given = leaving.loops[-1]
    assert given is not None, "a loop with a return inside has been seen as such"
    values = tuple(map(leaving.anything, given))
    leaving.builder.add(Break(values=(*values, leaving.news(True))))


_RULES: dict[type[Op], Rule] = {Break: _break, Loop: _loop, Return: _return}
