"""Forces between all pairs of bodies: B bodies to a block, against all others tile by tile."""

import numpy as np

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel(deny_checks=True)
def accelerations(
    ax: Mut[f32, Cut[N, B]], ay: Mut[f32, Cut[N, B]], az: Mut[f32, Cut[N, B]],
    x: Ref[f32, N], y: Ref[f32, N], z: Ref[f32, N], mass: Ref[f32, N], softening: f32,
    *, P: Const[int] = 64,
) -> None:  # fmt: skip
    """`a_i = sum(m_j * (r_j - r_i) / |r_j - r_i|^3)`; bodies behind the edge have no mass."""
    xs, ys, zs, masses = x.partition(P), y.partition(P), z.partition(P), mass.partition(P)
    own_x, own_y, own_z = (x.load_like(ax), y.load_like(ay), z.load_like(az))
    sum_x, sum_y, sum_z = tw.zeros((B,), f32), tw.zeros((B,), f32), tw.zeros((B,), f32)
    for j in range(masses.num_tiles(0)):
        dx, dy, dz = xs[j] - own_x[:, None], ys[j] - own_y[:, None], zs[j] - own_z[:, None]
        near = tw.rsqrt(dx * dx + dy * dy + dz * dz + softening)  # [B, P]
        pull = masses[j] * near * near * near
        sum_x += tw.sum(dx * pull, axis=1)
        sum_y += tw.sum(dy * pull, axis=1)
        sum_z += tw.sum(dz * pull, axis=1)
    ax.store(sum_x)
    ay.store(sum_y)
    az.store(sum_z)


def main() -> None:
    """Compare with NumPy in double precision: 200 bodies."""
    random = np.random.default_rng(0)
    places, mass = random.standard_normal((3, 200)), random.uniform(0.1, 1, 200)
    apart = places[:, None, :] - places[:, :, None]
    wanted = (apart * mass / ((apart**2).sum(axis=0) + 0.01) ** 1.5).sum(axis=2)
    found = [tw.zeros((200,), f32) for _ in range(3)]
    given = (tw.from_numpy(array.astype(np.float32)) for array in (*places, mass))
    accelerations(*(a.partition(32) for a in found), *given, 0.01).sync()
    error = max(np.abs(a.numpy() - w).max() for a, w in zip(found, wanted, strict=True))
    assert error < 1e-3, error
    print(f"forces between 200 bodies: off by at most {error:.1e}")


if __name__ == "__main__":
    main()
