"""Pieces of any extent and grids of any kind: next to each refusal of them."""

import numpy as np
from neighbours import X, launched, neighbour_of

import tilewright as tw
from tilewright import All, Mut, Ref, f32, i32
from tilewright.dims import B, M, N


@neighbour_of("types/store_of_a_whole_axis", "signature/whole_axis_of_a_ref")
def test_a_whole_axis_is_used_in_parts():
    @tw.kernel(deny_checks=True)
    def scale(z: Mut[f32, 1, All], x: Ref[f32, M, N]) -> None:
        parts = z.partition(1, 32)
        for j in range(parts.num_tiles(1)):
            parts.store(x.partition(1, 32)[z.index[0], j] * 2, 0, j)

    x = X[:249].reshape(3, 83)
    got = launched(scale, x, shape=(3, 83), tile=(1, None))
    np.testing.assert_array_equal(got, x * 2)


@neighbour_of("types/axis_of_a_given_grid", "signature/no_output")
def test_a_given_grid_has_the_axes_that_are_given():
    @tw.kernel(deny_checks=True)
    def number(z: Mut[i32, B, B]) -> None:
        z.store(tw.full((B, B), tw.block_id(1) + 10 * tw.num_blocks(1), i32))

    z = tw.zeros((4, 8), i32)
    number.grid(1, 3)(z.partition(2, 2, prefix=True)).sync()
    wanted = np.zeros((4, 8), np.int32)
    wanted[:2, :6] = np.array([30, 30, 31, 31, 32, 32])
    np.testing.assert_array_equal(z.numpy(), wanted)
