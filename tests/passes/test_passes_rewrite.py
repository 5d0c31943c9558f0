"""Rebuilding functions: what is shared, what is substituted, what definitions say."""

from ir_samples import I32, Sample, mnemonics, only, text

from tilewright.dtypes import Element, u32
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import Continue, For, If, Loop, Return, Yield
from tilewright.ir.ops.elementwise import AddI, SubI
from tilewright.ir.rewrite import (
    Rewriter,
    definitions,
    first_values,
    is_loop,
    nested_ops,
    use_counts,
    when,
    widened,
    with_parts,
)


def example():
    s = Sample()
    z = s.view("z")
    with s.loop(s.count("z")) as k:
        s.store(s.tile(1), z, s.sum(k, s.index(2)))
    return s.done()


def test_without_rules_a_function_stays_what_it_is():
    function = example()
    again = Rewriter().function(function)
    assert again is not function
    assert text(again) == text(function)
    assert again.body.ops[0] is function.body.ops[0]  # ops are immutable, so they are shared


def test_a_rule_replaces_an_op_and_its_uses_everywhere():
    def turn(rewriter, op):
        new = SubI(lhs=rewriter.new(op.lhs), rhs=rewriter.new(op.rhs))
        rewriter.replace(op, rewriter.builder.add(new).result)

    function = example()
    before = text(function)
    turned = Rewriter({AddI: turn}).function(function)
    assert text(function) == before
    assert text(turned) == before.replace("addi", "subi")


def test_definitions_and_uses():
    function = example()
    found, uses = definitions(function), use_counts(function)
    (add,), (loop,) = only(function, AddI), only(function, For)
    assert found[add.result].op is add
    counter = found[loop.body.args[0]]
    assert (counter.op, counter.position, counter.is_argument) == (loop, 0, True)
    assert uses[add.result] == 1
    assert uses[loop.body.args[0]] == 1
    assert add in set(nested_ops(loop))
    assert loop not in set(nested_ops(loop))


def test_parts_are_exchanged_and_names_kept():
    one, two = Value(I32), Value(I32)
    op = AddI(lhs=one, rhs=two, dtype=u32)
    op.result.hint = "total"
    new = with_parts(op, rhs=one)
    assert new.operands == (one, one)
    assert (new.result.hint, new.result.dtype) == ("total", u32)


def test_loops_and_branches_take_more_values():
    extra, bound = Value(I32), Value(I32)
    loop = For(lower_bound=bound, upper_bound=bound, step=bound, body=Block())
    assert is_loop(loop)
    assert widened(loop, ()) is loop
    assert first_values(widened(loop, (extra,))) == (extra,)
    endless = widened(Loop(body=Block()), (extra,))
    assert (endless.init_values, endless.types) == ((extra,), (I32,))
    branch = If(condition=bound, then_body=Block(), else_body=Block())
    assert not is_loop(branch)
    assert first_values(branch) == ()
    assert widened(branch, (extra,)).types == (I32,)


def test_when_builds_a_branch():
    s = Sample()
    with when(s, s.constant(1, Element.I1)):
        s.index(5)
    function = s.done()
    assert mnemonics(function) == ["constant", "if", "constant", "yield", "yield", "return"]
    (branch,) = only(function, If)
    assert [type(op) for op in branch.else_body.ops] == [Yield]
    assert type(function.body.ops[-1]) is Return
    assert not only(function, Continue)
