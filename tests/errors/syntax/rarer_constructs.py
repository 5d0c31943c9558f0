"""Everything else that Python has and kernels do not, by its name."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


def made(counter):
    @tw.kernel
    def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        nonlocal counter
        a = {1, 2}
        b = {n: n for n in (1, 2)}
        c = {n for n in (1, 2)}
        d = tw.num_blocks() not in (1, 2)
        e = tw.num_blocks() is not 1

        class Thing: ...

        async def later(): ...

        try:
            z.store(x.load_like(z))
        except* ValueError:
            pass
        yield from x

    return scale


made(1)(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
