"""Puts tokens into samples, and compares the order they give with the order a run needs."""

from block_interpreter import World, run, unordered_conflicts
from ir_samples import only

from tilewright.ir.launch_terms import Extent, ScalarArgument
from tilewright.ir.ops.memory import LoadView, StoreView
from tilewright.passes.drop_dead_code import drop_dead_code
from tilewright.passes.merge_duplicates import merge_duplicates
from tilewright.passes.order_tokens import order_tokens


def ordered(sample):
    return drop_dead_code(order_tokens(merge_duplicates(sample.done())))


def execute(function, *, condition=1, count=4, blocks=1):
    terms = {Extent(name, axis): 4 * count for name in "xyz" for axis in range(3)}
    terms[ScalarArgument("c")] = condition
    return run(function, World(terms, blocks)).accesses


def assert_ordered(function, **run_with):
    for condition in (0, 1):
        accesses = execute(function, condition=condition, **run_with)
        assert unordered_conflicts(accesses) == []


def loads_and_stores(function):
    return only(function, LoadView), only(function, StoreView)
