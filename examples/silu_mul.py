"""Pointwise kernels of a transformer: the residual sum, and the gate of a feed-forward layer."""

import numpy as np

import tilewright as tw
from tilewright import Cut, Mut, Ref, Tile, f16, f32
from tilewright.dims import BM, BN, M, N, T


def silu(x: Tile[f32]) -> Tile[f32]:
    """`x * sigmoid(x)`."""
    return x / (1 + tw.exp(-x))


@tw.kernel(deny_checks=True)
def add_2d(z: Mut[T, Cut[M, BM], Cut[N, BN]], x: Ref[T, M, N], y: Ref[T, M, N]) -> None:
    """`z = x + y`."""
    z.store(x.load_like(z) + y.load_like(z))


@tw.kernel(deny_checks=True)
def silu_mul(z: Mut[T, Cut[M, BM], Cut[N, BN]], gate: Ref[T, M, N], up: Ref[T, M, N]) -> None:
    """`z = silu(gate) * up`, computed in f32."""
    z.store((silu(gate.load_like(z).astype(f32)) * up.load_like(z).astype(f32)).astype(z.dtype))


def main() -> None:
    """Compare with NumPy."""
    generator = np.random.default_rng(0)
    gate, up = generator.standard_normal((2, 37, 500)).astype(np.float16)
    g, u, z = tw.from_numpy(gate), tw.from_numpy(up), tw.zeros(gate.shape, f16)

    silu_mul(z.partition(8, 128), g, u).sync()
    wide = gate.astype(np.float32)
    np.testing.assert_allclose(z.numpy(), wide / (1 + np.exp(-wide)) * up, rtol=2e-3, atol=1e-4)
    print(f"silu_mul of {gate.shape}: right")

    add_2d(z.partition(8, 128), g, u).sync()
    np.testing.assert_array_equal(z.numpy(), gate + up)
    print(f"add_2d of {gate.shape}: right")


if __name__ == "__main__":
    main()
