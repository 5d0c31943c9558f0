"""What only the solver finds: launches that small numbers and chance do not hit."""

import pytest

import tilewright as tw
from tilewright import Mut, Ref, f32, i32, i64
from tilewright.dims import B, K, N
from tilewright.witness.search import Suspects, find_witness
from tilewright.witness.solver import is_solver_installed

pytestmark = pytest.mark.skipif(not is_solver_installed(), reason="z3 is not installed")


def found(kernel, *, refused=False, **settings):
    return find_witness(kernel, settings, Suspects(refused=refused))


@tw.kernel
def one_scalar_in_a_million(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, K], n: i32) -> None:
    i = ids.partition(1)[0].item()
    if n * 3 + 1 == 7_654_321 and i == 5 * n:
        z.store(x.partition(B)[i])


def test_a_guard_that_only_one_number_passes():
    witness = found(one_scalar_in_a_million)
    assert witness.kind == "an index outside its axis"
    assert f"n = {7_654_320 // 3}" in witness.arguments
    assert witness.failure.index == 5 * 7_654_320 // 3


@tw.kernel
def wraps(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, K]) -> None:
    i = ids.partition(1)[0].item()
    if i > 1_000_000_000 and i * 4 == 12:
        z.store(x.partition(B)[i // 268_435_456])


def test_numbers_are_those_of_the_machine():
    witness = found(wraps)
    assert witness.kind == "an index outside its axis"
    assert witness.failure.index == (2**30 + 3) // 268_435_456


@tw.kernel
def exact_extent(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    xs = x.partition(B)
    for i in range(max(0, n)):
        if xs.num_tiles(0) == 37 and i % 41 == 40 and i < 50:
            z.store(xs[min(i, 38)])


def test_an_extent_that_is_never_tried():
    failure = found(exact_extent).failure
    assert (failure.index, failure.extent) == (38, 37)


@tw.kernel(deny_checks=True)
def floor_of_a_negative(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i64, K]) -> None:
    i = ids.partition(1)[0].item()
    if i >= -99_999 and i < -99_990 and (i % 7 == 3):
        z.store(x.partition(B)[(i // 100_000) + 0])


def test_division_is_pythons():
    assert found(floor_of_a_negative, refused=True).failure.index == -1
