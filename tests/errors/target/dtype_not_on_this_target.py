"""8-bit floats came with a later GPU."""

from dataclasses import replace

import tilewright as tw
from tilewright import Mut, Ref, f8e4m3fn
from tilewright.dims import B, N
from tilewright.frontend.signature.specialization import Specialization, TensorSpecialization


@tw.kernel
def scale(z: Mut[f8e4m3fn, B], x: Ref[f8e4m3fn, N]) -> None:
    z.store(x.load_like(z))


spec = TensorSpecialization(f8e4m3fn, (True,), 16, (16,), (1,))
scale.specialized(
    Specialization((replace(spec, tile=(128,)), spec), (("B", 128),), (), target="sm_80")
)
