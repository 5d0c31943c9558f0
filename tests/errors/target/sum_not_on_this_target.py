"""Atomic sums of bf16 came with a later GPU."""

import tilewright as tw
from tilewright import Accum, Mut, Ref, bf16, i32
from tilewright.dims import B, N
from tilewright.frontend.signature.samples import sample_specialization


@tw.kernel
def total_of(done: Mut[i32, B], total: Accum[bf16, N], x: Ref[bf16, N]) -> None:
    total.add(x.load_like(done), done.index[0])


total_of.specialized(sample_specialization(total_of.signature, "sm_80"))
