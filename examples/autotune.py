"""Autotuning: a space of configurations, and a reference that checks each candidate.

On a GPU the first launch with a new length searches, and records the result for later processes; on
the CPU nothing is measured, and the first configuration runs. A candidate with a wrong result is
never timed, so it cannot win.
"""

from typing import Any

import numpy as np

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32
from tilewright.dims import B, N
from tilewright.tune import Space


def product(z: tw.Tensor, x: tw.Tensor, y: tw.Tensor) -> Any:
    """The reference of the kernel, called with the arguments of a launch."""
    return x.numpy().astype(np.float64) * y.numpy()


@tw.autotune(
    Space(B=(1024, 2048, 4096), PARTS=(1, 4), num_worker_warps=(4, 8)),
    key=("N",),
    reference=product,
)
@tw.kernel(deny_checks=True)
def multiply(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], y: Ref[f32, N], *, PARTS: Const[int]) -> None:
    """`z = x * y`, each piece in several parts."""
    i, part = z.index[0], B // PARTS
    parts, xs, ys = z.partition(part), x.partition(part), y.partition(part)
    for k in range(parts.num_tiles(0)):
        parts.store(xs[i * PARTS + k] * ys[i * PARTS + k], k)


def main() -> None:
    """Compare with NumPy."""
    x, y = np.random.default_rng(0).standard_normal((2, 10_007)).astype(np.float32)
    z = tw.zeros(x.shape, f32)
    multiply(z, tw.from_numpy(x), tw.from_numpy(y)).sync()
    np.testing.assert_array_equal(z.numpy(), x * y)
    chosen = multiply.choose(z, tw.from_numpy(x), tw.from_numpy(y))
    print(f"{len(multiply.space)} configurations, of which {chosen} ran: right")


if __name__ == "__main__":
    main()
