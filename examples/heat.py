"""The heat equation on a plate: a five-point stencil, with steps recorded once and replayed.

Two buffers alternate: a step reads one and writes the other, so the graph has two steps.
"""

import numpy as np

import tilewright as tw
from tilewright import Cut, Mut, Ref, f32
from tilewright.dims import BM, BN, M, N


@tw.kernel(deny_checks=True)
def step(z: Mut[f32, Cut[M, BM], Cut[N, BN]], x: Ref[f32, M, N], rate: f32) -> None:
    """`z = x + rate * laplacian(x)`; the outside of the plate has temperature 0."""
    i, j = z.index
    around = tw.zeros((BM, BN), f32)
    for beside in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        around += x.windows(BM, BN, step=(BM, BN), start=beside)[i, j]
    here = x.load_like(z)
    z.store(here + rate * (around - 4 * here))


def main() -> None:
    """Twenty steps, compared with NumPy."""
    plate = np.zeros((50, 90), np.float32)
    plate[20:30, 40:60] = 100
    x, z = tw.from_numpy(plate), tw.zeros(plate.shape, f32)
    with tw.graph() as two_steps:
        two_steps.record(step(z.partition(16, 32), x, 0.2))
        two_steps.record(step(x.partition(16, 32), z, 0.2))
    for _ in range(10):
        two_steps.launch().submit()
    for _ in range(20):
        around = np.pad(plate, 1)
        neighbours = around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, :-2] + around[1:-1, 2:]
        plate = plate + np.float32(0.2) * (neighbours - 4 * plate)
    error = np.abs(x.numpy() - plate).max()
    assert error < 1e-4, error
    print(f"20 steps of heat: off by at most {error:.1e}")


if __name__ == "__main__":
    main()
