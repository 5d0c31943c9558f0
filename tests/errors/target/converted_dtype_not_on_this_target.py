"""A conversion needs the dtype as well."""

from dataclasses import replace

import tilewright as tw
from tilewright import Mut, Ref, f8e4m3fn, f32
from tilewright.dims import B, N
from tilewright.frontend.signature.specialization import Specialization, TensorSpecialization


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z).astype(f8e4m3fn).astype(f32))


spec = TensorSpecialization(f32, (True,), 16, (16,), (1,))
scale.specialized(
    Specialization((replace(spec, tile=(128,)), spec), (("B", 128),), (), target="sm_80")
)
