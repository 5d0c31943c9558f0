"""Creation and conversion kernels: identity matrix, even steps, another dtype."""

import numpy as np

import tilewright as tw
from tilewright import Cut, Mut, Ref, f16, f32
from tilewright.dims import BM, BN, B, N, T


class FROM(tw.AnyDType):
    """dtype of the source."""


@tw.kernel(deny_checks=True)
def eye(z: Mut[T, BM, BN]) -> None:
    """Ones on the diagonal, zeros elsewhere."""
    i, j = z.index
    rows = i * BM + tw.arange(BM)[:, None]
    columns = j * BN + tw.arange(BN)
    z.store((rows == columns).astype(z.dtype))


@tw.kernel(deny_checks=True)
def linspace(z: Mut[f32, B], start: f32, step: f32) -> None:
    """`start + n * step`."""
    places = z.index[0] * B + tw.arange(B)
    z.store(start + places.astype(f32) * step)


@tw.kernel(deny_checks=True)
def convert(z: Mut[T, Cut[N, B]], x: Ref[FROM, N]) -> None:
    """Every element converted to another dtype."""
    z.store(x.load_like(z).astype(z.dtype))


def main() -> None:
    """Compare with NumPy."""
    matrix = tw.zeros((30, 50), f16)
    eye(matrix.partition(16, 16)).sync()
    np.testing.assert_array_equal(matrix.numpy(), np.eye(30, 50))

    line, half = tw.zeros((101,), f32), tw.zeros((101,), f16)
    linspace(line.partition(32), -1.0, 0.02).submit()
    convert(half.partition(64), line).submit()
    np.testing.assert_allclose(line.numpy(), np.linspace(-1, 1, 101), atol=1e-6)
    np.testing.assert_array_equal(half.numpy(), line.numpy().astype(np.float16))
    print("eye, linspace and convert: right")


if __name__ == "__main__":
    main()
