"""The game of life, with dead cells beyond the border.

A block owns a tile of the next generation. Windows that start one row or column earlier, or later,
hold the neighbours; cells outside the world read as dead.
"""

import numpy as np
import numpy.typing as npt

import tilewright as tw
from tilewright import Cut, Mut, Ref, i8
from tilewright.dims import BM, BN, M, N


@tw.kernel(deny_checks=True)
def generation(z: Mut[i8, Cut[M, BM], Cut[N, BN]], x: Ref[i8, M, N]) -> None:
    """A cell lives with three neighbours, or with two if it was alive."""
    i, j = z.index
    around = tw.zeros((BM, BN), i8)
    for down in tw.static_range(-1, 2):
        for right in tw.static_range(-1, 2):
            if (down, right) != (0, 0):
                around += x.windows(BM, BN, step=(BM, BN), start=(down, right))[i, j]
    alive = x.load_like(z)
    z.store(((around == 3) | ((around == 2) & (alive == 1))).astype(i8))


def expected(world: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """The next generation in NumPy."""
    rows, columns = world.shape
    around = np.pad(world, 1)
    shifted = (
        around[d : d + rows, r : r + columns]
        for d in range(3)
        for r in range(3)
        if (d, r) != (1, 1)
    )
    count = sum(shifted, np.zeros_like(world))
    result: npt.NDArray[np.int8] = ((count == 3) | ((count == 2) & (world == 1))).astype(np.int8)
    return result


def main() -> None:
    """Thirty generations of a world that no tile divides, each compared with NumPy."""
    world = np.random.default_rng(0).integers(0, 2, (45, 70)).astype(np.int8)
    x, z = tw.from_numpy(world), tw.zeros(world.shape, i8)
    for _ in range(30):
        generation(z.partition(16, 32), x).submit()
        x, z = z, x
        world = expected(world)
    np.testing.assert_array_equal(x.numpy(), world)
    print(f"30 generations: right, {world.sum()} cells live")


if __name__ == "__main__":
    main()
