"""Graphs on the GPU: explicit nodes, replays, updates, failures and lifetimes."""

import gc

import numpy as np
import pytest
from gpu_kernels import GPU, add, gemm_persistent

import tilewright as tw
from tilewright import Mut, OutOfBoundsError, Ref, ReportForm, f16, f32, f64, i32
from tilewright.dims import B, M, N

pytestmark = pytest.mark.gpu

GOOD, BAD = [0, 1], [0, 9]


@pytest.fixture(autouse=True)
def on_gpu():
    with tw.device(GPU) as device:
        yield device


def pick(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    i = ids.partition(1)[z.index[0]].item()
    z.store(x.partition(B)[i])


PICKS = {form: tw.kernel(report=form)(pick) for form in (ReportForm.AT_END, ReportForm.AUDIT)}


def numbers(tensor):
    return tensor.numpy().tolist()


def test_a_long_chain_of_nodes_replayed():
    x, one = tw.zeros(1000), tw.ones(1000)
    y = tw.zeros(1000)
    with tw.graph() as g:
        for _ in range(150):
            g.record(add(y.partition(128), x, one))
            g.record(add(x.partition(128), y, one))
    assert numbers(x) == [0.0] * 1000
    for _ in range(10):
        g.launch().submit()
    assert numbers(x) == [3000.0] * 1000


def test_independent_nodes_and_slices():
    z, x = tw.zeros(4096), tw.from_numpy(np.arange(4096, dtype=np.float32))
    with tw.graph() as g:
        for start in range(0, 4096, 512):
            part = slice(start, start + 512)
            g.record(add(z[part].partition(64), x[part], x[part]))
        total = g.record(add(tw.zeros(4096).partition(64), z, x))[0]
    g.launch().sync()
    assert (z.numpy() == 2 * np.arange(4096)).all()
    assert (total.tensor.numpy() == 3 * np.arange(4096)).all()


def mix(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    z.store(z.load() * 3 + x.load_like(z))


MIX = tw.kernel(mix)
SIZE, BLOCK = 1 << 20, 4096  # large enough that what does not wait is seen


@pytest.mark.parametrize("seed", range(6))
def test_launches_and_graphs_on_the_same_tensors_in_any_order(seed, on_gpu):
    """As one after the other gives it: on the usual stream for a while, then on any of three."""
    draw = np.random.default_rng(seed)
    values = [draw.integers(-1000, 1000, SIZE, np.int32) for _ in range(4)]
    tensors = [tw.from_numpy(value) for value in values]
    streams = [on_gpu.stream, *(on_gpu.new_stream() for _ in range(2))]
    graphs = []
    for pairs in (((0, 1),), ((1, 2), (2, 0)), ((3, 0), (0, 3), (1, 3))):
        with tw.graph() as g:
            for z, x in pairs:
                g.record(MIX(tensors[z].partition(BLOCK), tensors[x]))
        graphs.append((g, pairs))
    for step in range(120):
        stream = streams[0] if step % 40 < 20 else streams[draw.integers(3)]
        if draw.random() < 0.5:
            graph, pairs = graphs[draw.integers(3)]
            graph.launch().submit(stream)
        else:
            z, x = (int(one) for one in draw.permutation(4)[:2])
            pairs = ((z, x),)
            MIX(tensors[z].partition(BLOCK), tensors[x]).submit(stream)
        for z, x in pairs:
            values[z] = values[z] * np.int32(3) + values[x]
    for tensor, value in zip(tensors, values, strict=True):
        assert (tensor.numpy() == value).all()


def test_fills_and_copies_are_nodes():
    shapes = [(7, f16, 1.5), (9, f32, 2.25), (5, f64, 0.1), (8, f32, 0)]
    made = [tw.zeros(n, dtype) for n, dtype, _ in shapes]
    copies = [tw.zeros(n, dtype) for n, dtype, _ in shapes]
    with tw.graph() as g:
        for tensor, other, (_, _, value) in zip(made, copies, shapes, strict=True):
            g.record(tw.fill(tensor, value))
            g.record(tw.copy(other, tensor))
    for tensor in made:
        tw.fill(tensor, 9).submit()
    g.launch().sync()
    for tensor, other, (n, dtype, value) in zip(made, copies, shapes, strict=True):
        expected = tw.full(n, value, dtype).numpy().tolist()
        assert numbers(tensor) == numbers(other) == expected


def test_a_kernel_with_descriptors_is_a_node():
    """Tiles that travel by the tensor memory accelerator have descriptors among the parameters."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((256, 256)).astype(np.float16) for _ in range(2))
    left, right, c = tw.from_numpy(a), tw.from_numpy(b), tw.zeros((256, 256), f16)
    with tw.graph() as g:
        g.record(gemm_persistent(c.partition(64, 64).persistent(), left, right))
    wide = a.astype(np.float32), b.astype(np.float32)
    for _ in range(3):
        tw.fill(c, 0).submit()
        g.launch().submit()
    np.testing.assert_allclose(c.numpy(), wide[0] @ wide[1], rtol=1e-2, atol=5e-2)
    g.update(gemm_persistent(c.partition(64, 64).persistent(), right, left))
    g.launch().sync()
    np.testing.assert_allclose(c.numpy(), wide[1] @ wide[0], rtol=1e-2, atol=5e-2)


def test_streams_and_holds(on_gpu):
    first, second = on_gpu.new_stream(), on_gpu.new_stream()
    x, y, one = tw.zeros(1000), tw.zeros(1000), tw.ones(1000)
    g = add(y.partition(128), x, one).graph()
    hold = first.hold()
    tw.fill(x, 5).submit(first)
    g.launch().submit(second)
    tw.fill(x, 7).submit(first)
    g.launch().submit(second)
    tw.fill(x, 0).submit(first)
    hold.release()
    assert numbers(y) == [8.0] * 1000
    assert numbers(x) == [0.0] * 1000


def test_updates_with_replays_under_way(on_gpu):
    xs = [tw.full(1000, number) for number in range(8)]
    zs = [tw.zeros(1000) for _ in range(8)]
    g = add(zs[0].partition(128), xs[0], xs[0]).graph()
    for tensor in (*xs, *zs):
        tensor.wait()
    hold = on_gpu.stream.hold()
    for x, z in zip(xs, zs, strict=True):
        g.update(add(z.partition(128), x, x))
        g.launch().submit()
    hold.release()
    assert [z.numpy()[0] for z in zs] == [2 * number for number in range(8)]


@pytest.mark.parametrize("form", PICKS)
def test_of_ten_replays_the_failing_ones_tell(on_gpu, form):
    kernel = PICKS[form]
    x, good, bad = tw.ones(8), *(tw.from_numpy(np.array(n, np.int32)) for n in (GOOD, BAD))
    ids, z, behind, apart = tw.zeros(2, i32), tw.zeros(8), tw.zeros(8), tw.zeros(8)
    with tw.graph() as g:
        g.record(kernel(z.partition(4), x, ids))
        g.record(add(behind.partition(4), z, z))
        g.record(add(apart.partition(4), x, x))
    for tensor in (x, good, bad, ids, z, behind, apart):
        tensor.wait()
    hold = on_gpu.stream.hold()
    replays = []
    for turn in range(10):
        tw.copy(ids, bad if turn in (2, 3, 7, 9) else good).submit()
        replays.append(g.launch().submit())
    hold.release()
    failed = []
    for turn, replay in enumerate(replays):
        try:
            replay.sync()
        except OutOfBoundsError:
            failed.append(turn)
    assert failed == [2, 3, 7, 9]
    assert numbers(apart) == [2.0] * 8
    with pytest.raises(OutOfBoundsError, match="index 9"):
        behind.numpy()
    tw.copy(ids, good).submit()
    g.launch().sync()
    assert numbers(behind) == [2.0] * 8


def test_a_graph_dropped_while_replays_are_under_way(on_gpu):
    z = tw.zeros(1 << 16)
    z.wait()
    for turn in range(20):
        x = tw.full(1 << 16, turn)
        g = add(z.partition(128), x, x).graph()
        hold = on_gpu.stream.hold()
        g.launch().submit()
        del g, x
        gc.collect()
        hold.release()
        assert z.numpy()[7] == 2 * turn
    used = on_gpu.pool.statistics().used
    on_gpu.synchronize()
    gc.collect()
    on_gpu.synchronize()
    assert on_gpu.pool.statistics().used <= used
