"""Which accesses are kept off the tensor memory accelerator: those ordered through control flow."""

import pytest
from ordered_kernels import branched, in_place, left_early, repeated, walked

from tilewright.frontend.signature.samples import sample_specialization
from tilewright.ir.attributes import EVERY_TARGET, TargetHints
from tilewright.ir.ops.memory import LoadView, StoreView
from tilewright.passes.avoid_tma import _off


def accesses(kernel):
    """The accesses of a kernel in program order, and whether each may be accelerated."""
    chosen = sample_specialization(kernel.signature, "sm_90", {}, kernel.hints.of("sm_90"))
    functions = kernel.specialized(chosen).module.functions
    ops = [op for function in functions for op in function.walk()]
    views = [op for op in ops if isinstance(op, LoadView | StoreView)]
    return [
        (type(op), op.hints is None or False not in op.hints.named("allow_tma")) for op in views
    ]


@pytest.mark.parametrize("kernel", [in_place, walked])
def test_order_in_a_straight_line_is_left_alone(kernel):
    assert all(fast for _, fast in accesses(kernel))


@pytest.mark.parametrize(
    ("kernel", "slow"),
    [
        (repeated, [LoadView, StoreView]),
        (left_early, [StoreView, LoadView, StoreView]),
        (branched, [StoreView, LoadView, StoreView]),
    ],
)
def test_order_through_control_flow_needs_no_accelerator(kernel, slow):
    found = accesses(kernel)
    assert [kind for kind, fast in found if not fast] == slow
    assert any(fast for _, fast in found), "inputs and other outputs are as fast as ever"


def test_other_advice_is_kept():
    hints = TargetHints.of("sm_90", latency=3, allow_tma=True)
    off = _off(hints)
    assert off.named("latency") == (3,)
    assert off.named("allow_tma") == (False, False)
    assert dict(off.targets).keys() == {"sm_90", EVERY_TARGET}
    assert _off(None) == TargetHints.of(allow_tma=False)
