"""Counter-examples have happened: they are what a run under the watch reported."""

import tilewright as tw
from tilewright import Const, Mapped, Mut, Ptr, Ref, f32, i32
from tilewright.dims import BM, BN, B, K, N, T
from tilewright.witness.search import Suspects, find_witness


def found(kernel, *, refused=False, lines=(), **settings):
    return find_witness(kernel, settings, Suspects(frozenset(lines), refused))


@tw.kernel
def guarded_too_late(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    xs = x.partition(B)
    for i in range(n):
        if i < xs.num_tiles(0) + 1:
            z.store(xs[i])


def test_an_index_under_a_wrong_guard():
    witness = found(guarded_too_late)
    assert witness.kind == "an index outside its axis"
    failure = witness.failure
    assert failure.index == failure.extent


@tw.kernel(deny_checks=True)
def certainly_outside(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    xs = x.partition(B)
    z.store(xs[xs.num_tiles(0)])


def test_an_index_that_is_certainly_outside():
    witness = found(certainly_outside, refused=True)
    assert (witness.failure.index, witness.failure.extent) == (2, 2)


@tw.kernel(deny_checks=True)
def two_lines(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, K]) -> None:
    first = x.partition(B)[ids.partition(1)[0].item()]
    z.store(first + x.partition(B)[ids.partition(1)[1].item()])


def test_only_the_lines_in_question_count():
    line = two_lines.source.node.lineno + 2
    witness = found(two_lines, refused=True, lines=[line])
    assert witness is None or witness.failure.line == line
    assert found(two_lines, refused=True, lines=[line - 1]).failure.line == line - 1


@tw.kernel(unsafe=True)
def rows(z: Mapped[T, BM, BN], p: Ptr[T], *, EVERY: Const[bool] = True) -> None:
    for at in z.indices():
        i, j = at
        z.store(tw.zeros((BM, BN), T), at)
        with tw.unsafe("it is not: two blocks walk one row"):
            if EVERY or j == 0:
                tw.store(p + i, 0)


def test_settings_decide_what_is_searched():
    assert found(rows).kind == "a race"
    assert found(rows, EVERY=False) is None


@tw.kernel(unsafe=True)
def backwards(p: Ptr[f32], n: i32) -> None:
    with tw.unsafe("it is not: this is below the first element"):
        tw.store(p - (n * n + tw.block_id() + 1), 1.0)


def test_a_pointer_that_leaves_its_tensor():
    witness = found(backwards)
    assert witness.kind == "undefined behaviour"
    assert "n = " in " ".join(witness.arguments)


@tw.kernel(unsafe=True)
def sound(p: Ptr[f32], *, SIZE: Const[int] = 16) -> None:
    with tw.unsafe("every block has its own stretch"):
        tw.store(p + tw.block_id() * SIZE + tw.arange(SIZE), 1.0)


def test_what_is_sound_has_none():
    assert found(sound) is None
