"""`y += alpha * x` in place, for any float dtype: a block reads and writes its own piece only."""

import numpy as np

import tilewright as tw
from tilewright import Mut, Ref
from tilewright.dims import B, N, T


@tw.kernel(deny_checks=True)
def saxpy(y: Mut[T, B], x: Ref[T, N], alpha: T) -> None:
    """`y = alpha * x + y`; T is one dtype wherever it stands."""
    y.store(alpha * x.load_like(y) + y.load())


def main() -> None:
    """The same kernel on three dtypes, on a length that no tile divides."""
    for dtype in ("float16", "float32", "float64"):
        x = np.linspace(-1, 1, 10_007).astype(dtype)
        y = tw.from_numpy(x[::-1].copy())
        saxpy(y.partition(1024), tw.from_numpy(x), 0.5).sync()
        np.testing.assert_allclose(y.numpy(), 0.5 * x + x[::-1], rtol=1e-3)
        print(f"saxpy of {x.size} {y.dtype.label}: right")


if __name__ == "__main__":
    main()
