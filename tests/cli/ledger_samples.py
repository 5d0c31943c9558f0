"""A kernel whose checks are settled in every place that there is."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, K, M, N


@tw.kernel
def everywhere(z: Mut[f32, B], x: Ref[f32, M, N], rows: Ref[i32, K], first: i32) -> None:
    tw.require(N % 16 == 0)
    xs, places = x.partition(1, 16), rows.partition(1)
    row = places[z.index[0]].item()
    total = tw.zeros((1, 16), f32)
    for j in range(xs.num_tiles(1)):
        total += xs[row, j] + xs[first, j]
        row_of_turn = places[j].item()
        total += xs[row_of_turn, j]
    z.store(tw.sum(total) + tw.zeros((B,), f32))
