"""The selective scan of a state-space model: a recurrence along time, B channels side by side.

`h = exp(dt * a) * h + dt * b * x` and `y = h @ c`, with b, c and dt from the input itself. A block
owns B channels for all time steps: it keeps their states in a tile and writes one step after the
other.
"""

import numpy as np

import tilewright as tw
from tilewright import All, Cut, Mut, Ref, f32
from tilewright.dims import B, D, L, N


@tw.kernel(deny_checks=True)
def selective_scan(
    y: Mut[f32, Cut[L, All], Cut[D, B]], x: Ref[f32, L, D], dt: Ref[f32, L, D], a: Ref[f32, D, N],
    b: Ref[f32, L, N], c: Ref[f32, L, N], *, STATES: tw.Const[int] = 16,
) -> None:  # fmt: skip
    """N states for each channel; STATES is the power of two that holds them."""
    j = y.index[1]
    xs, dts, parts = x.partition(1, B), dt.partition(1, B), y.partition(1, B)
    bs, cs = b.partition(1, STATES), c.partition(1, STATES)
    rates = a.partition(B, STATES)[j, 0]  # [B, STATES]
    h = tw.zeros((B, STATES), f32)
    for t in range(parts.num_tiles(0)):
        step = dts[t, j].reshape(B, 1)
        h = tw.exp(step * rates) * h + step * bs[t, 0] * xs[t, j].reshape(B, 1)
        parts.store(tw.sum(h * cs[t, 0], axis=1).reshape(1, B), t, 0)


def main() -> None:
    """Compare with NumPy: 40 time steps, 70 channels, 12 states."""
    random = np.random.default_rng(0)
    x, dt = random.standard_normal((40, 70)), random.uniform(0.01, 0.3, (40, 70))
    a, (b, c) = -random.uniform(0.5, 4, (70, 12)), random.standard_normal((2, 40, 12))
    h, wanted = np.zeros((70, 12)), np.empty((40, 70))
    for t in range(40):
        h = np.exp(dt[t, :, None] * a) * h + dt[t, :, None] * b[t] * x[t, :, None]
        wanted[t] = h @ c[t]
    y = tw.zeros(x.shape, f32)
    given = (tw.from_numpy(array.astype(np.float32)) for array in (x, dt, a, b, c))
    selective_scan(y.partition(None, 32), *given).sync()
    error = np.abs(y.numpy() - wanted).max()
    assert error < 1e-4, error
    print(f"scan over 40 moments: off by at most {error:.1e}")


if __name__ == "__main__":
    main()
