"""Vector addition, once and then a thousand times: launches are queued without a wait."""

import numpy as np

import tilewright as tw
from tilewright import Cut, Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel(deny_checks=True)
def add(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    """`z = x + y`: a store takes no index, because a block owns a single piece."""
    z.store(x.load_like(z) + y.load_like(z))


def main() -> None:
    """Count to a thousand by repeated launches."""
    x, z = tw.zeros((100_000,), f32), tw.zeros((100_000,), f32)
    one = tw.ones((100_000,), f32)
    for _ in range(500):
        add(z.partition(4096), x, one).submit()
        add(x.partition(4096), z, one).submit()
    counted = x.numpy()  # waits for the last launch, and raises the failure of any
    assert np.array_equal(counted, np.full(100_000, 1000, np.float32))
    print(f"counted to {counted[0]:.0f} on {x.device.name}")


if __name__ == "__main__":
    main()
