"""Every library function on the CPU device, beside its NumPy equivalent.

Each of `--seeds` draws `--shapes` shapes for every function, with inputs of a quarter of
`--elements` up to all of them: rows and columns vary widely, from few long rows to many short ones.
A time includes a launch with `out=` and the wait for it; both sides take turns, and the figure of
each is its best. Results are compared first. NumPy computes in f32 throughout, into an `out=` where
it has one; narrower inputs are converted before and after. `--beside` keeps so many other processes
busy meanwhile.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy_library import (
    attention,
    cross_entropy,
    cross_entropy_gradient,
    gelu,
    layer_norm,
    layer_norm_gradient,
    log_sums,
    rms_norm_gradient,
    scale_of,
    silu,
    softmax,
    top_k,
)

import tilewright as tw
from tilewright import kernels
from tilewright.bench import Bound, Report, Table, Target
from tilewright.kernels.reference import attention as exact

RESULTS = Path(__file__).parent / "results" / "cpu_library.json"
WORST, MEAN = 4.0, 1.5  # targets: multiples of NumPy's time
SEEDS = (1, 2, 3)
HEADS = 1 << 18  # elements of attention, whose time grows with the square of a length
SMALLEST = 0.0002  # seconds of NumPy below which a figure is that of our launch
Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """One call: the launch, its result, and the NumPy equivalent."""

    name: str
    what: str
    launch: Callable[[], tw.DeviceOp[Any]]
    numpy: Callable[[], Any]


class Draw:
    """Arrays of random shapes with about the same number of elements."""

    def __init__(self, seed: int, elements: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.elements = self.most = elements

    def resized(self, most: int | None = None) -> Draw:
        """Draw the number of elements anew."""
        self.elements = self.extent(max(self.most // 4, 1), self.most)
        self.elements = min(self.elements, most or self.elements)
        return self

    def extent(self, low: int, high: int) -> int:
        """A random integer, uniform over octaves."""
        return round(2 ** self.rng.uniform(math.log2(low), math.log2(high)))

    def matrix(self, low: int = 16, high: int = 16384) -> Array:
        """A matrix with `low` to `high` columns."""
        columns = min(self.extent(low, high), self.elements)
        return self.floats(max(self.elements // columns, 1), columns)

    def floats(self, *shape: int) -> Array:
        """Normally distributed numbers."""
        return self.rng.standard_normal(shape, np.float32)

    def heads(self, *shape: int) -> Array:
        """Normally distributed numbers in f16."""
        return self.floats(*shape).astype(np.float16)

    def integers(self, high: int, *shape: int) -> Array:
        """Integers below `high`."""
        return self.rng.integers(0, high, shape, np.int32)


def tensors(*arrays: Array) -> list[tw.Tensor]:
    return [tw.from_numpy(array) for array in arrays]


def shown(*arrays: Array) -> str:
    return ", ".join("x".join(map(str, array.shape)) or "1" for array in arrays)


# --- the cases -------------------------------------------------------------------------------


def of_elements(draw: Draw) -> Iterator[Case]:
    a, b = draw.matrix(), None
    b = draw.floats(*a.shape)
    (x, y), z, what = tensors(a, b), tw.empty(a.shape, tw.f32), shown(a)
    total = np.empty_like(a)
    yield Case("add", what, lambda: kernels.add(x, y, out=z), lambda: np.add(a, b, out=total))
    yield Case("silu_mul", what, lambda: kernels.silu_mul(x, y, out=z), lambda: silu(a) * b)
    yield Case("gelu", what, lambda: kernels.gelu(x, out=z), lambda: gelu(a))
    tanh = {"approximate": "tanh", "out": z}
    yield Case("gelu tanh", what, lambda: kernels.gelu(x, **tanh), lambda: gelu(a))
    kept = np.random.Generator(np.random.Philox(1))
    yield Case("dropout", what, lambda: kernels.dropout(x, 0.5, seed=1, out=z),
               lambda: np.where(kept.random(a.shape, np.float32) >= 0.5, a * 2, 0))  # fmt: skip
    t = tw.empty(a.shape[::-1], tw.f32)
    yield Case("transpose", what, lambda: kernels.transpose(x, out=t),
               lambda: np.ascontiguousarray(a.T))  # fmt: skip
    c = np.empty((len(a), 2 * a.shape[1]), np.float32)
    apart = tw.from_numpy(c)[:, : a.shape[1]]
    half = np.empty_like(c)[:, : a.shape[1]]
    yield Case("add apart", what, lambda: kernels.add(x, y, out=apart),
               lambda: np.add(a, b, out=half))  # fmt: skip
    for bins in (200, 5000):
        n = draw.integers(bins, a.size)
        (m,), counts = tensors(n), tw.empty((bins,), tw.i32)
        yield Case(f"histogram {bins}", shown(n),
                   lambda m=m, bins=bins, to=counts: kernels.histogram(m, bins, out=to),
                   lambda n=n, bins=bins: np.bincount(n, minlength=bins))  # fmt: skip


def of_reductions(draw: Draw) -> Iterator[Case]:
    a = draw.matrix() + np.float32(1)
    (x,), what = tensors(a), shown(a)
    for name in ("sum", "mean", "max", "min"):
        run, plain = getattr(kernels, name), getattr(np, name)
        for axis in (0, 1, None):
            shape = () if axis is None else (a.shape[1 - axis],)
            out = tw.empty(shape, tw.f32)
            yield Case(f"{name} {axis}", what, lambda run=run, at=axis, to=out: run(x, at, out=to),
                       lambda plain=plain, at=axis: plain(a, axis=at))  # fmt: skip
    for axis in (0, 1):
        z = tw.empty(a.shape, tw.f32)
        yield Case(f"cumsum {axis}", what, lambda at=axis, to=z: kernels.cumsum(x, at, out=to),
                   lambda at=axis: np.cumsum(a, axis=at))  # fmt: skip
    yield Case("argmax", what, lambda: kernels.argmax(x), lambda: np.argmax(a, axis=-1))
    k = min(8, a.shape[1])
    yield Case("top_k 8", what, lambda: kernels.top_k(x, k), lambda: top_k(a, k))


def of_small_matrices(draw: Draw) -> Iterator[Case]:
    """Many matrices that are small, along their columns."""
    rows, columns = draw.extent(2, 32), draw.extent(2, 32)
    a = draw.floats(max(draw.elements // (rows * columns), 1), rows, columns)
    (x,), what = tensors(a), shown(a)
    yield Case("sum 1 of 3", what, lambda: kernels.sum(x, 1), lambda: a.sum(axis=1))
    yield Case("max 1 of 3", what, lambda: kernels.max(x, 1), lambda: a.max(axis=1))
    yield Case("cumsum 1 of 3", what, lambda: kernels.cumsum(x, 1), lambda: a.cumsum(axis=1))
    yield Case("transpose of 3", what, lambda: kernels.transpose(x),
               lambda: np.ascontiguousarray(a.swapaxes(1, 2)))  # fmt: skip


def of_rows(draw: Draw) -> Iterator[Case]:
    a = draw.matrix()
    b, (w, c) = draw.floats(*a.shape), draw.floats(2, a.shape[1])
    (x, y, weight, bias), z, what = tensors(a, b, w, c), tw.empty(a.shape, tw.f32), shown(a)
    both = (tw.empty(a.shape, tw.f32), tw.empty(a.shape, tw.f32))
    eps = {"eps": 1e-5}
    yield Case("softmax", what, lambda: kernels.softmax(x, out=z), lambda: softmax(a))
    yield Case("rms_norm", what, lambda: kernels.rms_norm(x, weight, out=z, **eps),
               lambda: a * scale_of(a) * w)  # fmt: skip
    yield Case("add_rms_norm", what, lambda: kernels.add_rms_norm(x, y, weight, out=both, **eps),
               lambda: ((a + b) * scale_of(a + b) * w, a + b))  # fmt: skip
    yield Case("layer_norm", what, lambda: kernels.layer_norm(x, weight, bias, out=z),
               lambda: layer_norm(a, w, c))  # fmt: skip
    yield Case("rms_norm_gradient", what, lambda: kernels.rms_norm_gradient(y, x, weight, **eps),
               lambda: rms_norm_gradient(b, a, w))  # fmt: skip
    yield Case("layer_norm_gradient", what, lambda: kernels.layer_norm_gradient(y, x, weight),
               lambda: layer_norm_gradient(b, a, w))  # fmt: skip
    n = draw.integers(a.shape[1], len(a))
    sums, d = log_sums(a), draw.floats(len(a))
    labels, log_sum, dloss = tensors(n, sums, d)
    yield Case("cross_entropy", what, lambda: kernels.cross_entropy(x, labels),
               lambda: cross_entropy(a, n))  # fmt: skip
    yield Case("cross_entropy_gradient", what,
               lambda: kernels.cross_entropy_gradient(x, labels, log_sum, dloss, out=z),
               lambda: cross_entropy_gradient(a, n, sums, d))  # fmt: skip
    places = draw.rng.permutation(len(a)).astype(np.int32)
    (ids,) = tensors(places)
    yield Case("embedding", what, lambda: kernels.embedding(ids, x, out=z), lambda: a[places])
    moved = np.empty_like(a)

    def put() -> Array:
        moved[places] = a
        return moved

    yield Case("scatter", what, lambda: kernels.scatter(x, ids, out=z), put)


def of_narrow_rows(draw: Draw) -> Iterator[Case]:
    """Rows of 16-bit floats, which NumPy widens and rounds."""
    for dtype, label in ((np.float16, "f16"), (ml_dtypes.bfloat16, "bf16")):
        a = draw.matrix().astype(dtype)
        w = draw.floats(a.shape[1]).astype(dtype)
        (x, weight), z, what = tensors(a, w), tw.from_numpy(np.empty_like(a)), shown(a)

        def wide(x: Array) -> Array:
            return x.astype(np.float32)

        yield Case(f"add {label}", what, lambda x=x, z=z: kernels.add(x, x, out=z),
                   lambda a=a, d=dtype: (wide(a) + wide(a)).astype(d))  # fmt: skip
        yield Case(f"softmax {label}", what, lambda x=x, z=z: kernels.softmax(x, out=z),
                   lambda a=a, d=dtype: softmax(wide(a)).astype(d))  # fmt: skip
        yield Case(f"rms_norm {label}", what,
                   lambda x=x, w=weight, z=z: kernels.rms_norm(x, w, eps=1e-5, out=z),
                   lambda a=a, w=w, d=dtype: (wide(a) * scale_of(wide(a)) * wide(w)).astype(d)
                   )  # fmt: skip
        yield Case(f"sum 1 {label}", what, lambda x=x: kernels.sum(x, 1),
                   lambda a=a, d=dtype: wide(a).sum(axis=1).astype(d))  # fmt: skip


def of_products(draw: Draw) -> Iterator[Case]:
    k = draw.extent(32, 2048)
    m, n = max(draw.elements // (2 * k), 17), max(draw.elements // (2 * k), 1)
    for rows in (min(m, 4096), draw.extent(1, 16)):
        a, b = draw.floats(rows, k), draw.floats(k, min(n, 4096))
        x, y = tensors(a, b)
        z = tw.empty((rows, b.shape[1]), tw.f32)
        yield Case("matmul" if rows > 16 else "matmul few", shown(a, b),
                   lambda x=x, y=y, z=z: kernels.matmul(x, y, out=z),
                   lambda a=a, b=b: a @ b)  # fmt: skip
    halves = a.astype(np.float16), b.astype(np.float16)
    p, q = tensors(*halves)
    yield Case("matmul f16", shown(a, b), lambda: kernels.matmul(p, q),
               lambda: (halves[0].astype(np.float32) @ halves[1].astype(np.float32))
               .astype(np.float16))  # fmt: skip
    c = draw.matrix()
    d = draw.floats(c.shape[1])
    u, v = tensors(c, d)
    yield Case("matvec", shown(c, d), lambda: kernels.matvec(u, v), lambda: c @ d)
    e, deep = draw.floats(512, 256), draw.floats(8, 256, 64)
    ends = np.sort(np.concatenate(([0, 512], draw.integers(512, 7)))).astype(np.int32)
    f, g, offsets = tensors(e, deep, ends)
    rows = [slice(low, high) for low, high in pairwise(ends)]
    yield Case("grouped_matmul", shown(e, deep), lambda: kernels.grouped_matmul(f, g, offsets),
               lambda: np.concatenate([e[r] @ w for r, w in zip(rows, deep, strict=True)])
               )  # fmt: skip


def of_heads(draw: Draw) -> Iterator[Case]:
    draw.resized(HEADS)
    width, group = 2 ** int(draw.rng.integers(4, 8)), 2 ** int(draw.rng.integers(0, 3))
    length = draw.extent(64, 1024)
    count = max(draw.elements // (length * width * 2), 1)
    a, (b, c) = draw.heads(1, count * group, length, width), draw.heads(2, 1, count, length, width)
    q, k, v = tensors(a, b, c)
    z, what = tw.empty(a.shape, tw.f16), shown(a, b)
    for causal in (False, True):
        seen = np.tri(length, dtype=bool) if causal else True
        yield Case("attention causal" if causal else "attention", what,
                   lambda causal=causal: kernels.attention(q, k, v, causal=causal, out=z),
                   lambda seen=seen: attention(a, b, c, seen))  # fmt: skip
    one, (lengths,) = a[:, :, 0], tensors(np.full(1, length, np.int32))
    (query,) = tensors(one)
    yield Case("decode_attention", shown(one, b),
               lambda: kernels.decode_attention(query, k, v, lengths),
               lambda: attention(one[:, :, None], b, c, True)[:, :, 0])  # fmt: skip
    ends = np.array([0, length // 3, length], np.int32)
    packed = [np.ascontiguousarray(x[0].swapaxes(0, 1)) for x in (a, b, c)]
    pq, pk, pv, offsets = tensors(*packed, ends)
    yield Case("varlen_attention", shown(*packed[:2]),
               lambda: kernels.varlen_attention(pq, pk, pv, offsets, offsets),
               lambda: np.concatenate([
                   attention(*(x[:, :, low:high] for x in (a, b, c)), True)[0].swapaxes(0, 1)
                   for low, high in pairwise(ends)]))  # fmt: skip
    tables = np.cos(draw.floats(length, width // 2)), np.sin(draw.floats(length, width // 2))
    cosines, sines = tensors(*tables)
    yield Case("rope", shown(a), lambda: kernels.rope(q, cosines, sines, out=z),
               lambda: exact.rope(a.astype(np.float32), *tables).astype(np.float16))  # fmt: skip
    for new in (length // 2, 1):
        start = length // 4
        (first,), (keys, values) = tensors(np.full(1, start, np.int32)), tensors(b.copy(), c.copy())
        fresh = tensors(*(np.ascontiguousarray(x[:, :, :new]) for x in (c, b)))
        into = (b.copy(), c.copy())

        def append(into: Any = into, at: Any = slice(start, start + new), new: int = new) -> Any:
            into[0][:, :, at], into[1][:, :, at] = c[:, :, :new], b[:, :, :new]
            return into

        yield Case(f"append_kv {'few' if new == 1 else 'many'}", shown(b),
                   lambda s=(keys, values, *fresh, first): kernels.append_kv(*s),
                   append)  # fmt: skip


def made(tensor: tw.Tensor) -> tw.DeviceOp[Any]:
    """Wait for the contents of a tensor: reading a part waits for all."""
    tensor.reshape(tensor.size)[:1].numpy()
    return tw.value(tensor)


def of_creation(draw: Draw) -> Iterator[Case]:
    size, rng = draw.elements, np.random.default_rng(0)
    a = draw.matrix()
    (x,), what = tensors(a), shown(a)
    yield Case("astype f16", what, lambda: made(x.astype(tw.f16)), lambda: a.astype(np.float16))
    yield Case("clone of x.T", what, lambda: made(x.T.clone()), lambda: np.copy(a.T, "C"))
    yield Case("arange", f"{size}", lambda: made(tw.arange(size, tw.f32)),
               lambda: np.arange(size, dtype=np.float32))  # fmt: skip
    yield Case("linspace", f"{size}", lambda: made(tw.linspace(0, 1, size, tw.f32)),
               lambda: np.linspace(0, 1, size, dtype=np.float32))  # fmt: skip
    yield Case("eye", "512", lambda: made(tw.eye(512, dtype=tw.f32)),
               lambda: np.eye(512, dtype=np.float32))  # fmt: skip
    yield Case("rand", f"{size}", lambda: made(tw.rand((size,), tw.f32, seed=1)),
               lambda: rng.random(size, np.float32))  # fmt: skip
    yield Case("randn", f"{size}", lambda: made(tw.randn((size,), tw.f32, seed=1)),
               lambda: rng.standard_normal(size, np.float32))  # fmt: skip


FAMILIES = (
    of_elements, of_reductions, of_rows, of_narrow_rows, of_products, of_heads, of_creation,
    of_small_matrices,
)  # fmt: skip
DRAWN = ("dropout", "rand", "randn")  # random numbers that differ from NumPy's


# --- measuring -------------------------------------------------------------------------------


class Seconds(NamedTuple):
    """Seconds by the clock, and by the processors that this process used."""

    clock: float
    processors: float


def seconds(run: Callable[[], Any]) -> Seconds:
    clock, processors = time.perf_counter(), time.process_time()
    run()
    return Seconds(time.perf_counter() - clock, time.process_time() - processors)


def best(all_: Sequence[Seconds]) -> Seconds:
    """The least of either."""
    return Seconds(*(max(min(each), 1e-7) for each in zip(*all_, strict=True)))


def check(case: Case) -> None:
    """Whether results agree within the rounding of f16 and of another order of sums."""
    found, expected = case.launch().sync(), case.numpy()
    if case.name in DRAWN:
        return
    several = isinstance(found, tuple)
    for one, other in zip(found if several else (found,), expected if several else (expected,),
                          strict=True):  # fmt: skip
        array, other = one.numpy(), np.asarray(other)
        limit = {2: 1e-2 if array.dtype == np.float16 else 4e-2}.get(array.itemsize, 2e-3)
        array, other = (each.astype(np.float64) for each in (array, other))
        np.testing.assert_allclose(array, other, rtol=limit, atol=limit * 5, err_msg=case.name)


def measured(case: Case, rounds: int) -> tuple[Seconds, Seconds]:
    """The best seconds of either side."""
    check(case)
    ours, plain = [], []
    for _ in range(rounds):
        ours.append(seconds(lambda: case.launch().sync()))
        plain.append(seconds(case.numpy))
    return best(ours), best(plain)


def cases(seed: int, shapes: int, elements: int, names: tuple[str, ...]) -> Iterator[Case]:
    """All calls of a seed."""
    for number in range(shapes):
        draw = Draw(1000 * seed + number, elements)
        for family in FAMILIES:
            yield from (one for one in family(draw.resized()) if one.name.startswith(names))


# --- other work ------------------------------------------------------------------------------


def _keep_busy() -> None:
    array = np.ones(1 << 16, np.float32)
    while True:
        np.add(array, 1, out=array)


@contextmanager
def busy_process() -> Iterator[None]:
    """Another process that never waits."""
    process = multiprocessing.get_context("spawn").Process(target=_keep_busy, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


# --- reporting -------------------------------------------------------------------------------


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def by_function(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The measured calls of each function, the slowest function first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["function"], []).append(row)
    order = sorted(found, key=lambda name: -mean([row["times_numpy"] for row in found[name]]))
    return {name: found[name] for name in order}


def report_of(rows: Sequence[dict[str, Any]], options: argparse.Namespace) -> Report:
    """All figures, as a table of functions and beside their targets."""
    report = Report("cpu_library", "The library on the CPU device", options.json)
    report.note(
        f"A call with `out=` and the wait for it, beside NumPy in f32: {options.shapes} random"
        f" shapes for each of the seeds {options.seeds}, of {options.elements // 4} to"
        f" {options.elements} elements (attention: at most {HEADS}), beside {options.beside}"
        " processes that keep a core busy each. The ratio is our time over NumPy's, a geometric"
        " mean of the calls; the last column is that of processor time, in which BLAS counts the"
        " time that its threads wait."
    )
    head = (
        "function", "calls", "ours, ms", "NumPy, ms", "ratio", "worst", "at", "of processors"
    )  # fmt: skip
    table = Table("Functions, slowest first", head)
    report.table(table)
    for name, calls in by_function(rows).items():
        ratios = [row["times_numpy"] for row in calls]
        worst = max(calls, key=lambda row: row["times_numpy"])
        ours, plain = (
            1e3 * mean([row[key] for row in calls]) for key in ("tilewright_s", "numpy_s")
        )
        processors = mean([row["times_processors"] for row in calls])
        table.add(name, str(len(calls)), f"{ours:.2f}", f"{plain:.2f}", f"{mean(ratios):.1f}",
                  f"{max(ratios):.1f}", worst["what"], f"{processors:.1f}")  # fmt: skip
    for row in rows:
        report.figure("cpu_library", **row)
    ratios = [mean([row["times_numpy"] for row in calls]) for calls in by_function(rows).values()]
    long = [row["times_numpy"] for row in rows if row["numpy_s"] >= SMALLEST]
    what = "the library on the CPU, of NumPy's time"
    report.target(Target(f"{what}, geometric mean of functions", Bound.AT_MOST, MEAN, mean(ratios)))
    report.target(Target(f"{what}, slowest function", Bound.AT_MOST, WORST, max(ratios)))
    if long:
        bound = f"calls of {SMALLEST * 1e3:g} ms and more"
        report.target(Target(f"{what}, {bound}", Bound.AT_MOST, MEAN, mean(long)))
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--shapes", type=int, default=2, help="drawn for each function and seed")
    parser.add_argument("--elements", type=int, default=1 << 20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beside", type=int, default=0, help="other processes kept busy")
    parser.add_argument("--only", default="", help="functions whose names begin with one of these")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows, names = [], tuple(options.only.split(","))
    with ExitStack() as stack:
        for _ in range(options.beside):
            stack.enter_context(busy_process())
        stack.enter_context(tw.device("cpu"))
        for seed in options.seeds:
            for case in cases(seed, options.shapes, options.elements, names):
                ours, plain = measured(case, options.rounds)
                rows.append({"function": case.name, "what": case.what, "seed": seed,
                             "tilewright_s": ours.clock, "numpy_s": plain.clock,
                             "times_numpy": ours.clock / plain.clock,
                             "times_processors": ours.processors / plain.processors,
                             })  # fmt: skip
    data = report_of(rows, options).data
    print(Table(**data["tables"][0]).to_text())
    for target in data["targets"]:
        print(
            f"{'met' if target['is_met'] else 'missed'}: {target['what']}: {target['measured']:.3g}"
        )


if __name__ == "__main__":
    main()
