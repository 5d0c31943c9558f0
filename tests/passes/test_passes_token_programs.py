"""Random programs: whatever the nest, no conflict is left without an order."""

from hypothesis import given, settings
from hypothesis import strategies as st
from ir_samples import Sample
from token_order import assert_ordered, ordered

from tilewright.ir.ops.control import Break, Continue, Return

leaf = st.tuples(st.sampled_from(["load", "store"]), st.sampled_from("yz"), st.integers(0, 2))
jump = st.tuples(st.sampled_from(["break", "continue", "return"]), st.booleans())
statements = st.recursive(
    st.lists(leaf | jump, max_size=3),
    lambda inner: st.lists(
        leaf
        | jump
        | st.tuples(st.just("if"), inner, inner)
        | st.tuples(st.just("for"), inner)
        | st.tuples(st.just("loop"), inner)
        | st.tuples(st.just("walk"), inner),
        max_size=4,
    ),
    max_leaves=12,
)


class Program:
    """Builds a random program; an index 0 is fixed, 1 and 2 are loop counters where there are."""

    def __init__(self, steps):
        self.s = Sample()
        self.views = {name: self.s.view(name) for name in "yz"}
        self.counts = self.s.count("z")
        self.condition = self.s.scalar("c")
        self.build(steps, (self.s.index(0),), ())
        self.function = ordered(self.s)

    def build(self, steps, counters, loops):
        for step in steps:
            getattr(self, "build_" + step[0], self.build_jump)(step, counters, loops)

    def build_load(self, step, counters, loops):
        tile = self.s.load(self.views[step[1]], counters[step[2] % len(counters)])
        self.s.store(tile, self.s.view("x"), self.s.index(0))

    def build_store(self, step, counters, loops):
        at = counters[-1 - step[2] % len(counters)]
        self.s.store(self.s.tile(1), self.views[step[1]], at)

    def build_jump(self, step, counters, loops):
        kinds = {"return": Return, "continue": Continue, "break": Break}
        kind = kinds[step[0]]
        if loops and loops[-1] == "for" and kind is not Continue:
            return
        if not loops and kind is not Return:
            return
        if loops and kind is Return:
            return
        then, otherwise = (lambda: kind()), (lambda: None)
        self.s.choose(self.condition, *(then, otherwise) if step[1] else (otherwise, then))

    def build_if(self, step, counters, loops):
        def branch(steps):
            return lambda: self.build(steps, counters, loops)

        self.s.choose(self.condition, branch(step[1]), branch(step[2]))

    def build_for(self, step, counters, loops):
        with self.s.loop(self.counts) as number:
            self.build(step[1], (*counters, number), (*loops, "for"))

    def build_walk(self, step, counters, loops):
        with self.s.walk(self.counts) as (number,):
            self.build(step[1], (*counters, number), (*loops, "for"))

    def build_loop(self, step, counters, loops):
        with self.s.endless():
            self.build(step[1], counters, (*loops, "loop"))
            self.s.choose(self.condition, Break, Break)


@settings(max_examples=150, deadline=None)
@given(statements)
def test_random_programs_have_no_unordered_conflict(steps):
    assert_ordered(Program(steps).function, count=2)
