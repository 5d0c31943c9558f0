"""Hints on the decorator, on the call, and for single targets."""

import pickle

import numpy as np
import pytest
from running import assert_same

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.ir.attributes import TargetHints as Entries
from tilewright.ir.ops.memory import LoadView, StoreView


@tw.kernel(
    occupancy=2, hints={"sm_90": tw.Hints(num_worker_warps=8), "sm_100": tw.Hints(occupancy=1)}
)
def copy(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z))


def advice(kernel, target):
    """What the entry says, for a target."""
    specialization = sample_specialization(kernel.signature, target, None, kernel.hints.of(target))
    [entry] = kernel.specialized(specialization).module.functions
    return {} if entry.hints is None else dict(entry.hints.targets[0][1].items)


def test_hints_of_a_target_stand_above_those_for_all():
    assert advice(copy, "sm_120") == {"occupancy": 2}
    assert advice(copy, "sm_90") == {"occupancy": 2, "num_worker_warps_per_cta": 8}
    assert advice(copy, "sm_100") == {"occupancy": 1}


def test_hints_of_a_call_stand_above_those_of_the_decorator():
    changed = copy.with_hints(occupancy=4, hints={"sm_90": tw.Hints(num_ctas=2)})
    assert advice(changed, "sm_100") == {"occupancy": 4}
    wanted = {"occupancy": 4, "num_worker_warps_per_cta": 8, "num_cta_in_cga": 2}
    assert advice(changed, "sm_90") == wanted
    assert advice(copy, "sm_100") == {"occupancy": 1}, "the kernel itself stays as it was"
    assert advice(changed.with_hints(occupancy=1), "sm_90") == {**wanted, "occupancy": 1}


def test_a_target_without_clusters_takes_no_ctas():
    changed = copy.with_hints(num_ctas=2)
    assert advice(changed, "sm_80") == {"occupancy": 2}
    assert advice(changed, "sm_120") == {"occupancy": 2, "num_cta_in_cga": 2}


def test_kernels_with_other_hints_compute_the_same_and_share_what_was_compiled():
    x = np.arange(10, dtype=np.float32)
    for kernel in (copy, copy.with_hints(opt_level=0), copy.with_hints(num_ctas=4)):
        z = tw.zeros((10,), f32)
        kernel(z.partition(4), tw.from_numpy(x)).sync()
        assert_same(z.numpy(), x)
    specialization = sample_specialization(copy.signature, "sm_90")
    assert copy.with_hints(opt_level=1).specialized(specialization) is copy.specialized(
        specialization
    )


def test_the_level_of_optimisation_is_part_of_what_is_compiled():
    assert copy.with_hints(opt_level=0).hints.of("sm_90").opt_level == 0
    one, other = (
        sample_specialization(k.signature, "sm_90", None, k.hints.of("sm_90"))
        for k in (copy, copy.with_hints(opt_level=0))
    )
    assert one != other


def test_all_accesses_of_a_kernel_may_be_kept_off_the_accelerator():
    @tw.kernel(allow_tma=False)
    def double(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        p = x.partition(B)
        z.store(p[z.index] + p.load(z.index, latency=3, allow_tma=True) + x.load_like(z))

    def hinted(kernel):
        chosen = sample_specialization(kernel.signature, "sm_90", None, kernel.hints.of("sm_90"))
        [entry] = kernel.specialized(chosen).module.functions
        return [op.hints for op in entry.walk() if isinstance(op, LoadView | StoreView)]

    off, own = Entries.of(allow_tma=False), Entries.of(latency=3, allow_tma=True)
    assert hinted(double) == [off, own, off, off]
    assert hinted(copy) == [None, None]
    assert hinted(copy.with_hints(allow_tma=False)) == [off, off]


def test_hints_survive_pickling():
    changed = copy.with_hints(num_ctas=4)
    again = pickle.loads(pickle.dumps(changed))
    assert again.hints == changed.hints
    assert pickle.loads(pickle.dumps(copy)) is copy


@pytest.mark.parametrize(
    ("hints", "said"),
    [
        ({"num_ctas": 3}, "`num_ctas` is a power of two up to 16, not 3"),
        ({"occupancy": 0}, "`occupancy` is 1 to 32, not 0"),
        ({"occupancy": True}, "`occupancy` is 1 to 32, not True"),
        ({"num_worker_warps": 16}, "`num_worker_warps` is 4 or 8, not 16"),
        ({"opt_level": 4}, "`opt_level` is 0 to 3, not 4"),
        ({"allow_tma": 1}, "`allow_tma` is True or False, not 1"),
        ({"starts_early": 1}, "`starts_early` is True or False, not 1"),
        ({"hints": {"sm_80": tw.Hints(num_ctas=2)}}, "which has no clusters"),
        ({"hints": {"hopper": tw.Hints()}}, "not for 'hopper'"),
        ({"hints": {"sm_90": 2}}, "are a tw.Hints, not 2"),
        ({"hints": tw.Hints(num_ctas=2)}, "advice for all targets is given by itself"),
    ],
    ids=lambda case: str(case)[:40],
)
def test_hints_that_would_be_dropped_are_refused(hints, said):
    with pytest.raises(tw.CompileError, match=said):
        copy.with_hints(**hints)
