"""`y += alpha * x` in place, for any float dtype: a block reads and writes only its own piece."""

import numpy as np

import tilewright as tw
from tilewright import Cut, Mapped, Mut, Ref
from tilewright.dims import B, N, T


@tw.kernel(deny_checks=True)
def saxpy(y: Mut[T, Cut[N, B]], x: Ref[T, N], alpha: T) -> None:
    """`y = alpha * x + y`; all occurrences of T are one dtype."""
    y.store(alpha * x.load_like(y) + y.load())


@tw.kernel(deny_checks=True)
def scale(z: Mapped[T, B], alpha: T) -> None:
    """`z *= alpha` with a few persistent blocks, each of which walks its share of the tiles."""
    for at in z.indices():
        z.store(alpha * z.load(at), at)


def main() -> None:
    """Both kernels on three dtypes, on a length that no tile divides."""
    for dtype in ("float16", "float32", "float64"):
        x = np.linspace(-1, 1, 10_007).astype(dtype)
        y = tw.from_numpy(x[::-1].copy())
        saxpy(y.partition(1024), tw.from_numpy(x), 0.5).sync()
        np.testing.assert_allclose(y.numpy(), 0.5 * x + x[::-1], rtol=1e-3)
        scale(y.partition(1024).persistent(blocks=3), -2.0).sync()
        np.testing.assert_allclose(y.numpy(), -x - 2 * x[::-1], rtol=1e-3)
        print(f"saxpy and scale of {x.size} {y.dtype.label}: right")


if __name__ == "__main__":
    main()
