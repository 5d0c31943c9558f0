"""Who may touch what: minted indices, pieces, and handles while work is in flight."""

import gc
import threading

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mapped, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, N
from tilewright.errors import BorrowError, MovedError


def walked(n, blocks=2, group=1):
    return tw.zeros((n,), i32).partition(4).persistent(blocks=blocks, group=group)


def same(thing):
    return thing


def stored(z, tile, at):
    z.store(tile, at)


# --- indices ---


@tw.kernel
def swapped(z: Mapped[i32, B], w: Mapped[i32, B]) -> None:
    for at in z.indices():
        w.store(tw.ones((B,), i32), at)


@tw.kernel
def kept_in_a_tuple(z: Mapped[i32, B]) -> None:
    kept = (0, 1)
    for at in z.indices():
        kept = (at, 1)
    z.store(tw.ones((B,), i32), kept[0])


@tw.kernel
def chosen(z: Mapped[i32, B], c: i32) -> None:
    for at in z.indices():
        for other in z.indices():
            z.store(tw.ones((B,), i32), at if c > 0 else other)


@tw.kernel
def rebuilt(z: Mapped[i32, B]) -> None:
    for at in z.indices():
        z.store(tw.ones((B,), i32), (at[0],))


@tw.kernel
def numbered(z: Mapped[i32, B]) -> None:
    for _ in z.indices():
        z.store(tw.ones((B,), i32), tw.block_id(0))


@tw.kernel
def kept_by_a_name(z: Mapped[i32, B]) -> None:
    place = 0
    for at in z.indices():
        place = at
    z.store(tw.ones((B,), i32), place)


@pytest.mark.parametrize(
    "kernel", [swapped, kept_in_a_tuple, chosen, rebuilt, numbered, kept_by_a_name]
)
def test_an_index_is_only_what_its_own_walk_gave(kernel):
    given = {"z": walked(16), "w": walked(16), "c": 1}
    with pytest.raises(tw.CompileError):
        kernel(**{name: given[name] for name in kernel._call_signature.parameters})


@tw.kernel
def passed_on(z: Mapped[i32, B]) -> None:
    for at in z.indices():
        pair = (same(at), z.load(at))
        stored(z, pair[1] + 1, pair[0])
        for again in z.indices():
            z.store(z.load(again) + 1, again)


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_an_index_may_be_passed_on(blocks):
    """Walks inside walks visit the own tiles only."""
    output = walked(16, blocks)
    passed_on(output).sync()
    steps = [len(range(b, 4, blocks)) for b in range(blocks)]
    mine = [steps[tile % blocks] for tile in range(4)]
    assert output.tensor.numpy().tolist() == [1 + turns for turns in mine for _ in range(4)]


@tw.kernel
def aliased(z: Mapped[i32, B], w: Mapped[i32, B]) -> None:
    z = w
    walk = z.indices()
    store = z.store
    for at in walk:
        store(z.load(at) + 1, at)


def test_another_name_is_the_same_output():
    z, w = walked(16), walked(20)
    aliased(z, w).sync()
    assert z.tensor.numpy().tolist() == [0] * 16
    assert w.tensor.numpy().tolist() == [1] * 20


@tw.kernel
def two_walks(z: Mapped[i32, BM, BN], w: Mapped[i32, BM, BN]) -> None:
    for at in z.indices():
        z.store(z.load(at) + 1, at)
    for at in w.indices():
        w.store(w.load(at) + 1, at)


@pytest.mark.parametrize("blocks", [1, 2, 5, 1000])
@pytest.mark.parametrize("groups", [(1, 2), (3, 1), (7, 100), (2**31 - 1, 2**31), (2**40, 2)])
def test_groups_of_any_size_visit_every_tile_once(groups, blocks):
    """A group of 2**31 rows became a negative number of rows."""
    shapes = (10, 7), (1, 13)
    outputs = [
        tw.zeros(shape, i32).partition(2, 2).persistent(blocks=blocks, group=(group, 1))
        for shape, group in zip(shapes, groups, strict=True)
    ]
    two_walks(*outputs).sync()
    assert all((output.tensor.numpy() == 1).all() for output in outputs)


@pytest.mark.parametrize("group", [(0, 1), (-3, 1), (2.5, 1), (True, 1), ("a", 1), (), (1,), 3])
def test_a_schedule_made_by_hand_is_checked_too(group):
    """The class is public, and `.persistent` is not the only way to it."""
    cut = tw.zeros((10, 7), i32).partition(2, 2)
    with pytest.raises(tw.LaunchError, match="group"):
        tw.PersistentPartition(cut, 2, group)


def test_a_schedule_made_by_hand_takes_all_tiles():
    cut = tw.zeros((10, 7), i32).partition(2, 2, prefix=True)
    for make in (cut.persistent, lambda: tw.PersistentPartition(cut, None, (1, 1))):
        with pytest.raises(tw.LaunchError, match="a walk takes all tiles"):
            make()


def test_a_schedule_made_by_hand_has_one_order():
    cuts = [tw.zeros((10, 7), i32).partition(2, 2, order=(1, 0)) for _ in range(2)]
    with pytest.raises(tw.LaunchError, match="both say which tiles come first: give one"):
        tw.PersistentPartition(cuts[0], None, (2, 1))
    two_walks(*(tw.PersistentPartition(cut, 3, (1, 1)) for cut in cuts)).sync()
    assert all((cut.tensor.numpy() == 1).all() for cut in cuts)


def test_a_schedule_made_by_hand_may_have_groups_of_any_size():
    cuts = [tw.zeros((10, 7), i32).partition(2, 2) for _ in range(2)]
    two_walks(*(tw.PersistentPartition(cut, 3, (2**31, 1)) for cut in cuts)).sync()
    assert all((cut.tensor.numpy() == 1).all() for cut in cuts)


# --- pieces ---


@tw.kernel
def two_outputs(z: Mut[i32, BM, BN], w: Mut[i32, BM]) -> None:
    z.store(z.load() + 1)
    w.store(w.load() + 1)


def test_one_block_owns_one_piece_of_each_output():
    z, w = tw.zeros((10, 4), i32), tw.zeros((10,), i32)
    two_outputs(z.partition(4, 4), w.partition(4)).sync()
    assert (z.numpy() == 1).all()
    assert (w.numpy() == 1).all()
    for shape in ((10, 8), (4, 12), (10, 0)):
        with pytest.raises(tw.LaunchError, match="grid"):
            two_outputs(tw.zeros(shape, i32).partition(4, 4), w.partition(4))


@tw.kernel
def by_parts(z: Mut[i32, BM, BN]) -> None:
    small, flat = z.partition(2, 2), z.partition(4, 1)
    for i in range(small.num_tiles(0)):
        for j in range(small.num_tiles(1)):
            small.store(small[i, j] + 1, i, j)
    for i in range(flat.num_tiles(0)):
        for j in range(flat.num_tiles(1)):
            flat.store(flat[i, j] * 2, i, j)
    if z.index[0] == 0:
        z.store(z.load() + 10)


@pytest.mark.parametrize("shape", [(16, 16), (11, 13), (8, 1), (1, 9), (0, 5), (3, 3)])
def test_parts_of_ragged_pieces(shape):
    z = tw.zeros(shape, i32)
    by_parts(z.partition(8, 8)).sync()
    want = np.full(shape, 2)
    want[:8] += 10
    assert (z.numpy() == want).all()


@tw.kernel
def one_part(z: Mut[i32, B], i: i32) -> None:
    parts = z.partition(2)
    parts.store(tw.ones((2,), i32), i)


@pytest.mark.parametrize("n", [16, 15, 13, 9])
@pytest.mark.parametrize("i", [-(2**31), -1, 0, 1, 3, 4, 2**31 - 1])
def test_a_store_into_a_part_stays_in_the_piece(n, i):
    z = tw.zeros((n,), i32)
    pieces = [range(start, min(start + 8, n)) for start in range(0, n, 8)]
    fits = all(0 <= 2 * i < len(piece) for piece in pieces)
    if fits:
        one_part(z.partition(8), i).sync()
        assert z.numpy().sum() == sum(len(piece[2 * i : 2 * i + 2]) for piece in pieces)
    else:
        with pytest.raises(tw.OutOfBoundsError):
            one_part(z.partition(8), i).sync()


# --- handles ---


@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


def tensors(count=3, n=16):
    return [tw.ones((n,), f32) for _ in range(count)]


@pytest.mark.parametrize("name", ["shape", "strides", "dtype", "storage", "region", "layout"])
def test_a_handle_cannot_be_made_to_say_something_else(name):
    """A longer shape let a kernel read behind the tensor."""
    (x,) = tensors(1)
    with pytest.raises(AttributeError, match=name):
        setattr(x, name, (1 << 20,))
    with pytest.raises(AttributeError, match=name):
        delattr(x, name)
    assert x.shape == (16,)


@pytest.mark.parametrize("n", [16, 0])
def test_nothing_is_moved_from_under_a_built_operation(n):
    """The operation could then neither run nor be closed, and held its borrows for ever."""
    z, x, y = tensors(n=n)
    operation = add(z.partition(4), x, y)
    for tensor in (z, x, y):
        with pytest.raises(BorrowError, match="before the tensor is moved"):
            tw.move(tensor)
    operation.sync()
    moved = tw.move(z)
    assert moved.numpy().tolist() == [2.0] * n
    with pytest.raises(MovedError):
        z.partition(4)


def test_a_partition_of_a_moved_tensor_is_refused():
    z, x, y = tensors()
    cut = z.partition(4)
    tw.move(z)
    with pytest.raises(MovedError):
        add(cut, x, y)


def test_a_moved_tensor_leaves_what_was_submitted_alone():
    z, x, y = tensors()
    stream = tw.Stream(tw.Device("cpu"), "moved")
    hold = stream.hold()
    operation = add(z.partition(4), x, y).submit(stream)
    moved = tw.move(z)
    hold.release()
    operation.sync()
    assert moved.numpy().tolist() == [2.0] * 16


@pytest.mark.parametrize(
    ("output", "source"),
    [
        (lambda t: t[8:24], lambda t: t[0:16]),
        (lambda t: t[0:16], lambda t: t.reshape(2, 16)[0]),
        (lambda t: t.reshape(16, 2)[:, 0], lambda t: t[0:16]),
        (lambda t: t[0:16].reshape(4, 4).reshape(16), lambda t: t[15:31]),
        (lambda t: t[:16], lambda t: t[:16]),
    ],
)
def test_no_view_lends_what_another_writes(output, source):
    (t,) = tensors(1, 32)
    with pytest.raises(BorrowError):
        add(output(t).partition(4), source(t), tw.ones((16,), f32))
    operation = add(tw.zeros((16,), f32).partition(4), source(t), source(t))
    with pytest.raises(BorrowError):
        add(output(t).partition(4), tw.ones((16,), f32), tw.ones((16,), f32))
    operation.close()


def test_views_that_do_not_meet_are_lent_apart():
    (t,) = tensors(1, 64)
    square = t.reshape(8, 8)
    add(square[:, 1].partition(4), square[:, 0], square[0:8, 2]).sync()
    assert square.numpy().sum() == 64 + 8


def test_an_operation_is_submitted_by_one_thread():
    for _ in range(20):
        z, x, y = tensors()
        operation = add(z.partition(4), x, y)
        gate, results = threading.Barrier(2), []

        def submit(operation=operation, gate=gate, results=results):
            gate.wait()
            try:
                operation.submit()
            except tw.LaunchError:
                results.append("refused")
            else:
                results.append("submitted")

        threads = [threading.Thread(target=submit) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results) == ["refused", "submitted"]
        assert z.numpy().tolist() == [2.0] * 16


def test_a_failed_result_is_never_a_result():
    @tw.kernel
    def pick(z: Mut[f32, B], x: Ref[f32, N], i: Ref[i32, N]) -> None:
        z.store(x.partition(B)[i.partition(1)[0].item()])

    z, x, w = tensors()
    pick(z.partition(4), x, tw.full((16,), 99, i32)).submit()
    behind = add(w.partition(4), z, x).submit()
    for look in (z.numpy, z[0:2].numpy, w.numpy, behind.sync, w.wait):
        with pytest.raises(tw.OutOfBoundsError):
            look()
    with pytest.raises(tw.OutOfBoundsError):
        add(tw.zeros((16,), f32).partition(4), x, z)
    add(z.partition(4), x, x).sync()  # overwritten as a whole
    assert z.numpy().tolist() == [2.0] * 16
    gc.collect()
