"""Kernels that wait themselves for the grids before them: no access comes before the wait."""

from dataclasses import replace

import numpy as np
import pytest
from ordered_kernels import branched, in_place, left_early, repeated, walked

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, M, N
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.ir.function import Module
from tilewright.ir.op import Block, Effect
from tilewright.ir.ops.dependencies import GdcLaunchDependents, GdcWait
from tilewright.ir.ops.memory import JoinTokens, MakeToken
from tilewright.ir.rewrite import definitions
from tilewright.passes.wait_for_grids import waits_for_grids


@tw.kernel
def returning(z: Mut[i32, B], x: Ref[i32, N], n: i32) -> None:
    i = 0
    while True:
        i += 1
        if i > n:
            return
        z.store(x.load_like(z) + z.load())


@tw.kernel
def guarded(z: Mut[i32, B], x: Ref[i32, N], n: i32) -> None:
    if z.index[0] >= n:
        return
    z.store(x.load_like(z))


@tw.kernel
def searching(z: Mut[i32, B], x: Ref[i32, N], n: i32) -> None:
    i = z.index[0]
    while True:
        i += 3
        if i == n:
            return
        if i > n:
            break
    z.store(x.load_like(z))


@tw.kernel
def printing(z: Mut[i32, B], x: Ref[i32, N], n: i32) -> None:
    print("n is", n)  # noqa: T201 (the kernel prints)
    z.store(x.load_like(z))


@tw.kernel(report=tw.ReportForm.AUDIT)
def audited(z: Mut[f32, B], x: Ref[f32, M], ids: Ref[i32, N]) -> None:
    z.store(x.partition(B)[ids.partition(1)[z.index[0]].item()])


@tw.kernel(report=tw.ReportForm.AT_END)
def reporting(z: Mut[f32, B], x: Ref[f32, M], ids: Ref[i32, N]) -> None:
    z.store(x.partition(B)[ids.partition(1)[z.index[0]].item()])


@tw.kernel
def still(z: Mut[f32, B]) -> None:
    pass


KERNELS = (
    audited,
    branched,
    guarded,
    in_place,
    left_early,
    printing,
    repeated,
    reporting,
    returning,
    searching,
    still,
    walked,
)


def module(kernel, target="sm_90"):
    chosen = sample_specialization(kernel.signature, target, {}, kernel.hints.of(target))
    return kernel.specialized(chosen).module


def leads_to(token, made, wait):
    """Whether a token is the wait's, or of an access or a choice that is behind it."""
    found = made[token]
    if found.op is wait:
        return True
    if isinstance(found.op, MakeToken):
        return False
    if found.op.regions:  # control flow: what it starts with, and its accesses, lead there
        return True
    before = [v for v in found.op.operands if v.type == token.type]
    joins = all if isinstance(found.op, JoinTokens) else any
    return joins(leads_to(v, made, wait) for v in before)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_every_access_is_behind_the_wait(kernel):
    for function in module(kernel.with_hints(starts_early=True)).functions:
        first, *_ = function.body.ops
        assert isinstance(first, GdcLaunchDependents)
        ours = GdcLaunchDependents, GdcWait
        accesses = [op for op in function.walk() if "token" in op.part_names]
        accesses = [op for op in accesses if not isinstance(op, ours)]
        waits = [op for op in function.walk() if isinstance(op, GdcWait)]
        assert len(waits) == 1
        assert waits[0] in function.body.ops, "all blocks wait, whatever they choose later"
        position = function.body.ops.index(waits[0])
        for op in function.body.ops[1:position]:
            assert op.effect is Effect.NONE
            assert not op.regions, "a block might end there"
        made = definitions(function)
        assert all(leads_to(op.token, made, waits[0]) for op in accesses)
        assert not any(isinstance(op, MakeToken) for op in function.walk())


@tw.kernel
def multiply(z: Mut[f32, 16, 16], x: Ref[f32, M, N]) -> None:
    tile = x.load_like(z)
    z.store(tw.mma(tile, tile, tw.zeros((16, 16), f32)))


def waits(kernel, target="sm_90", **hints):
    """Whether a kernel waits in every entry, as its launches are told; None if in some."""
    kernel = kernel.with_hints(**hints)
    chosen = sample_specialization(kernel.signature, target, {}, kernel.hints.of(target))
    compiled = kernel.specialized(chosen)
    entries = {any(isinstance(op, GdcWait) for op in f.walk()) for f in compiled.module.functions}
    assert entries == {compiled.facts.waits_for_grids}
    return compiled.facts.waits_for_grids


@pytest.mark.parametrize("kernel", [*KERNELS, multiply], ids=lambda kernel: kernel.__name__)
def test_who_waits(kernel):
    assert waits(kernel, starts_early=True)
    assert not waits(kernel, starts_early=False)
    assert waits(kernel) == (kernel is not multiply), "left open, kernels without products wait"


@pytest.mark.parametrize("target", ["sm_89", "cpu"])
def test_only_newer_gpus_start_kernels_early(target):
    assert not waits(in_place, target)
    assert not waits(in_place, target, starts_early=True)


def test_whoever_does_something_before_does_not_count_as_waiting():
    (function,) = module(guarded.with_hints(starts_early=True)).functions
    assert waits_for_grids(Module((function,)))
    ops = function.body.ops
    wait = next(n for n, op in enumerate(ops) if isinstance(op, GdcWait))
    later = Block(function.body.args, [*ops[:wait], *ops[wait + 1 : -1], ops[wait], ops[-1]])
    assert not waits_for_grids(Module((replace(function, body=later),)))


def test_both_entries_of_an_audited_kernel_wait():
    assert len(module(audited.with_hints(starts_early=True)).functions) == 2


def test_results_are_the_same():
    x = np.arange(10, dtype=np.int32)
    for kernel in (in_place, in_place.with_hints(starts_early=True)):
        z = tw.ones((10,), i32)
        kernel(z.partition(4), tw.from_numpy(x)).sync()
        np.testing.assert_array_equal(z.numpy(), (x + 1) * 2)
