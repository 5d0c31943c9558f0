"""Times of many configurations of products over many shapes, beside cuBLAS: data for the rule.

python benchmarks/product_sweep.py --out FILE [--seconds S] [--quick]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import f16, f32
from tilewright.bench import Effort, Timer
from tilewright.kernels.gemm.gemv import launch_gemv
from tilewright.kernels.gemm.matmuls import matmul_kernel, walked
from tilewright.kernels.gemm.once import launch_once
from tilewright.kernels.gemm.operands import ProductRequest, product, specialised
from tilewright.kernels.gemm.splits import add_splits, launch_parts, sum_splits_kernel
from tilewright.kernels.gemm.wide import first_columns, launch_wide
from tilewright.tune import Config

SMS = 132
BY_LAYERS = "--layers" in sys.argv
B4, B3 = (1, 1, 8, 1), (1, 8, 1)


def walk(bm, bn, bk, **more):
    at_once = SMS * more.get("occupancy", 1) // more.get("num_ctas", 1)
    return ("walk", dict(BM=bm, BN=bn, BK=bk, SPLITS=1, blocks=at_once, group=B3, **more))


def few(bm, bn, bk, **more):
    made = dict(BM=bm, BN=bn, BK=bk, FOLDS=1, blocks=SMS * more.get("occupancy", 1))
    return ("few", {**made, **more})


def flat(bm, bn, bk, **more):
    return ("flat", walk(bm, bn, bk, **more)[1])


def split(bm, bn, bk, **more):
    return ("split", walk(bm, bn, bk, **more)[1])


def wide(bm, bn, bx, bk, **more):
    return ("wide", {**walk(bm, bn, bk, **more)[1], "BX": bx})


TILES = [
    walk(256, 256, 64, num_ctas=2, num_worker_warps=8),
    walk(128, 256, 64, LATENCY=6, num_worker_warps=8),
    walk(256, 128, 64, LATENCY=6, num_worker_warps=8),
    walk(128, 256, 32, LATENCY=6, num_worker_warps=8),
    walk(128, 128, 64, num_worker_warps=4, starts_early=False),
    flat(128, 128, 64, num_worker_warps=4),
    flat(128, 128, 64, num_worker_warps=4, occupancy=2),
    flat(64, 256, 64, LATENCY=5, num_worker_warps=4),
    flat(64, 256, 64, LATENCY=5, num_worker_warps=8),
    flat(64, 128, 64, LATENCY=5, num_worker_warps=4),
    flat(128, 64, 128, LATENCY=4, num_worker_warps=4),
    flat(64, 64, 128, LATENCY=4, num_worker_warps=4),
    flat(64, 32, 256, LATENCY=3, num_worker_warps=4),
    flat(64, 32, 128, LATENCY=6, num_worker_warps=4),
    flat(64, 16, 256, LATENCY=4, num_worker_warps=4),
    wide(128, 128, 64, 64, num_worker_warps=8),
    wide(128, 128, 64, 64, LATENCY=6, num_worker_warps=4),
    wide(128, 128, 32, 64, num_worker_warps=8),
    wide(128, 256, 64, 64, num_worker_warps=8),
    wide(256, 256, 64, 64, num_ctas=2, num_worker_warps=8),
    wide(256, 128, 64, 64, num_worker_warps=8),
    wide(64, 128, 32, 64, LATENCY=5, num_worker_warps=4),
    wide(64, 128, 64, 64, LATENCY=5, num_worker_warps=4),
    wide(64, 64, 32, 128, LATENCY=4, num_worker_warps=4),
    wide(64, 256, 64, 64, LATENCY=4, num_worker_warps=8),
    few(32, 128, 64, occupancy=2),
    few(32, 128, 128),
    few(64, 128, 128),
    split(128, 256, 64, LATENCY=6, num_worker_warps=8),
    split(256, 128, 64, LATENCY=6, num_worker_warps=8),
    split(128, 128, 64, num_worker_warps=4),
    split(128, 128, 64, LATENCY=6, num_worker_warps=8),
    split(64, 256, 64, LATENCY=5, num_worker_warps=8),
    split(64, 128, 64, LATENCY=5, num_worker_warps=4),
    split(64, 64, 128, LATENCY=4, num_worker_warps=4),
    split(64, 64, 128, LATENCY=3, num_worker_warps=4, occupancy=2),
    split(64, 32, 128, LATENCY=6, num_worker_warps=4),
]


W4, W8 = dict(num_worker_warps=4), dict(num_worker_warps=8)
S = dict(IS_SWAPPED=True)
LAYER_TILES = [
    walk(128, 256, 64, LATENCY=6, **W8),
    walk(256, 256, 64, num_ctas=2, **W8),
    flat(128, 128, 64, **W4),
    flat(128, 128, 64, occupancy=2, **W4),
    flat(128, 64, 64, LATENCY=4, occupancy=2, **W4),
    flat(128, 64, 128, LATENCY=4, **W4),
    flat(64, 256, 64, LATENCY=5, **W8),
    flat(64, 128, 64, LATENCY=5, **W4),
    flat(64, 128, 64, LATENCY=4, occupancy=2, **W4),
    flat(64, 64, 128, LATENCY=4, **W4),
    flat(64, 64, 128, LATENCY=3, occupancy=2, **W4),
    flat(64, 32, 256, LATENCY=3, **W4),
    wide(256, 256, 64, 64, num_ctas=2, **W8),
    wide(128, 256, 64, 64, **W8),
    wide(128, 128, 64, 64, **W8),
    wide(128, 128, 32, 64, **W8),
    wide(64, 128, 32, 64, LATENCY=5, **W4),
    wide(64, 128, 64, 64, LATENCY=5, **W4),
    wide(64, 64, 32, 128, LATENCY=4, **W4),
    split(128, 256, 64, LATENCY=6, **W8),
    split(128, 128, 64, **W4),
    split(128, 128, 64, LATENCY=6, **W8),
    split(64, 256, 64, LATENCY=5, **W8),
    split(64, 128, 64, LATENCY=5, **W4),
    split(64, 128, 64, LATENCY=4, occupancy=2, **W4),
    split(64, 64, 128, LATENCY=4, **W4),
    flat(32, 128, 64, LATENCY=6, **W4, **S),
    flat(32, 128, 128, LATENCY=4, **W4, **S),
    flat(32, 64, 128, LATENCY=3, occupancy=2, **W4, **S),
    flat(32, 64, 256, LATENCY=4, **W4, **S),
    flat(32, 128, 64, LATENCY=4, occupancy=2, **W4, **S),
    flat(64, 128, 128, LATENCY=4, **W4, **S),
    split(32, 128, 64, LATENCY=6, **W4, **S),
    split(32, 128, 128, LATENCY=4, **W4, **S),
    split(32, 256, 64, LATENCY=4, **W8, **S),
    split(32, 128, 64, LATENCY=4, occupancy=2, **W4, **S),
    split(64, 128, 128, LATENCY=4, **W4, **S),
    flat(16, 64, 128, LATENCY=4, occupancy=2, **W4, **S),
    flat(16, 64, 256, LATENCY=3, occupancy=2, **W4, **S),
    split(16, 128, 128, LATENCY=3, occupancy=2, **W4, **S),
    split(16, 128, 64, LATENCY=6, **W4, **S),
    few(1, 8, 128, FOLDS=8, occupancy=4, **W4),
    few(2, 16, 128, FOLDS=4, occupancy=4, **W4),
    few(4, 16, 128, FOLDS=4, occupancy=3, **W4),
    few(8, 16, 128, FOLDS=4, occupancy=3, **W4),
    few(8, 32, 128, FOLDS=2, occupancy=3, **W4),
    few(16, 32, 128, FOLDS=2, occupancy=3, **W4),
    few(16, 64, 128, FOLDS=1, occupancy=3, **W4),
    few(16, 128, 128, FOLDS=1, occupancy=2, **W4),
]
LAYER_ROWS = (1, 2, 4, 8, 16, 20, 32, 48, 64, 96, 128, 160, 200, 256)
LAYERS = ((6144, 2560), (4096, 4096), (5120, 8192), (19456, 2560), (2560, 9728), (5120, 25600))


def layer_candidates(m, n, k):
    for kind, values in LAYER_TILES:
        bm = values["BM"]
        if kind == "few" and not (bm >= m > bm // 4):
            continue
        if m <= 8 and kind in ("walk", "wide"):
            continue
        if values.get("IS_SWAPPED") and m > 2 * bm:
            continue
        if not values.get("IS_SWAPPED") and kind != "few" and (bm > 64 and bm >= 2 * m):
            continue
        if m <= 8 and kind != "few" and bm > 16:
            continue
        if values.get("BX") and first_columns(n, Config.from_values(values)) is None:
            continue
        at_once = values["blocks"]
        tiles = math.ceil(m / bm) * math.ceil(n / (values["BN"] + values.get("BX", 0)))
        if kind != "split":
            yield kind, values, 1
            continue
        steps, full = math.ceil(k / values["BK"]), at_once / tiles
        wanted = {int(full), int(full / 2), math.ceil(full), int(2 * full)}
        for splits in sorted(wanted):
            if 1 < splits <= steps // 4 and splits * m * n * 4 < 4e7:
                yield kind, values, splits


def candidates(m, n, k):
    if BY_LAYERS:
        yield from layer_candidates(m, n, k)
        return
    for kind, values in TILES:
        bm, bn = values["BM"], values["BN"]
        more = values.get("BX", 0)
        if bm > 64 and bm >= 2 * max(m, 64):
            continue
        if bn > 32 and bn >= 2 * max(n, 32):
            continue
        if kind == "few" and (m > 96 or m > bm * 2):
            continue
        if more and first_columns(n, Config.from_values(values)) is None:
            continue
        at_once = values["blocks"]
        tiles = math.ceil(m / bm) * math.ceil(n / (bn + more))
        if kind == "split":
            steps, full = math.ceil(k / values["BK"]), at_once / tiles
            if full < 1.4:
                continue
            wanted = (
                {int(full), int(full / 2), int(full / 3), math.ceil(full)} if full >= 3 else {2, 3}
            )
            for splits in sorted({min(one, steps // 4) for one in wanted}):
                if 1 < splits and splits * m * n * 4 < 4e8:
                    yield kind, values, splits
            continue
        if kind in ("flat", "few") and tiles > 4 * at_once:
            continue
        if kind == "walk" and tiles <= at_once and values.get("num_worker_warps") == 4:
            continue
        if tiles > 40 * at_once and bm * bn < 128 * 256:
            continue
        if m > 1024 and n > 1024 and bm * bn < 128 * 128:
            continue
        yield kind, values, 1


def draw(count, seed, most):
    rng = np.random.default_rng(seed)
    found = []
    fixed = [
        (1008, 1008, 1008, "nt"),
        (7008, 7008, 7008, "nn"),
        (7008, 7008, 7008, "nt"),
        (128, 512, 30000 // 16 * 16, "nt"),
        (304, 400, 20000, "nn"),
        (33, 4096, 4096, "nt"),
        (64, 2560, 9728, "nt"),
        (256, 4096, 4096, "nt"),
        (128, 19456, 2560, "nt"),
        (4096, 14336, 4096, "nt"),
        (2048, 2048, 2048, "nn"),
        (176, 6144, 4096, "nt"),
    ]
    while len(found) < count:
        m = int(np.exp(rng.uniform(0, np.log(16384))))
        n, k = (int(np.exp(rng.uniform(np.log(64), np.log(32768)))) for _ in range(2))
        unit = 128 if rng.random() < 0.5 else 16
        m, n, k = (
            (max(unit, round(x / unit) * unit) for x in (m, n, k))
            if unit == 128
            else (m, max(64, n // 16 * 16), max(64, k // 16 * 16))
        )
        if 2 * m * n * k > most or m <= 8 or 2 * (m * k + n * k + m * n) > 2e9:
            continue
        found.append((m, n, k, ("nt", "nn")[int(rng.integers(2))]))
    return fixed + found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="sweep.json")
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--count", type=int, default=70)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--layers", action="store_true")
    options = parser.parse_args()
    if options.quick:
        shapes = [(48, 64, 256, "nt"), (64, 128, 64, "nn")]
        device, torch = tw.Device("cpu"), None
    else:
        import torch  # noqa: PLC0415

        shapes = draw(options.count, options.seed, 8e11)
        if options.layers:
            shapes = [(m, n, k, "nt") for n, k in LAYERS for m in LAYER_ROWS]
        device = tw.Device("cuda:0")
    begin = time.perf_counter()
    lines = open(options.out, "w")  # noqa: SIM115, PTH123

    def emit(**line: Any) -> None:
        lines.write(json.dumps(line) + "\n")
        lines.flush()

    with tw.device(device):
        compile_all(shapes)
        print(f"built in {time.perf_counter() - begin:.1f} s", flush=True)
        if torch is not None and not options.layers:
            copies(torch, emit)
        for number, shape in enumerate(shapes):
            if time.perf_counter() - begin > options.seconds:
                print(f"stopped at shape {number} of {len(shapes)}")
                break
            measure(torch, shape, emit)


def compile_all(shapes) -> None:
    held, pending = set(), []
    for m, n, k, layout in shapes:
        w = None
        for kind, values, splits in candidates(m, n, k):
            key = (kind, layout, tuple(sorted(values.items(), key=str)))
            if key in held:
                continue
            held.add(key)
            if w is None:
                a = tw.empty((m, k), f16)
                b = tw.empty((n, k) if layout == "nt" else (k, n), f16)
                w = product(a, b, ProductRequest("matmul", transpose_b=layout == "nt"))[0]
            op = launcher(w, kind, values, splits)
            op.close()
    del pending


def launcher(w, kind, values, splits, parts=None):
    config = Config.from_values(values)
    if kind == "few":
        return launch_gemv(
            w, Config.from_values({k: v for k, v in values.items() if k != "blocks"})
        )
    if kind == "walk":
        return walk_matmul(w, config)
    if kind == "flat":
        return launch_once(w, config)
    if kind == "wide":
        return launch_wide(w, config, first_columns(w.out.shape[2], config))
    if parts is None:
        parts = tw.empty((splits, *w.out.shape), f32, device=w.out.device)
    config = Config.from_values({**values, "SPLITS": splits})
    return launch_parts(w, config, parts).then(lambda _: add_splits(w, parts))


def walk_matmul(wanted, config):
    kernel, constants = specialised(matmul_kernel, wanted.form, config)
    return kernel(walked(wanted.out, config), *wanted[1:5], **constants)


def timed(timer, builders, count) -> float:
    with tw.graph() as made:
        for number in range(count):
            made.record(builders[number % len(builders)]())
    subject, batch = timer.prepare(made.launch)
    return min(timer.measure(subject, batch).median for _ in range(2)) / count


def measure(torch, shape, emit) -> None:
    m, n, k, layout = shape
    nbytes = 2 * (m * k + n * k)
    sets = 1 if torch is None else max(1, min(12, math.ceil(1.5e8 / nbytes)))
    pairs = []
    for number in range(sets):
        dims = ((m, k), (n, k) if layout == "nt" else (k, n))
        if torch is None:
            rng = np.random.default_rng(number)
            pairs.append([rng.standard_normal(d).astype(np.float16) for d in dims])
        else:
            pairs.append([torch.randn(d, device="cuda", dtype=torch.float16) for d in dims])
    if torch is None:
        out = np.zeros((m, n), np.float16)
    else:
        out = torch.empty((m, n), device="cuda", dtype=torch.float16)
        torch.cuda.synchronize()
    ours = tw.from_dlpack(out)
    held = [[tw.from_dlpack(one) for one in pair] for pair in pairs]
    asked = ProductRequest("matmul", out=ours, transpose_b=layout == "nt")
    wanted = [product(a, b, asked)[0] for a, b in held]
    least = max(2 * m * n * k / 7e14, (nbytes + 2 * m * n) / 4.2e12)
    count = max(1, min(24, math.ceil(3e-4 / least)))
    timer = Timer(device_stream(), Effort(repetitions=3, rounds=2, warmup=0.002))
    peer = None
    if torch is not None:
        pairs_t = [(a, b.T if layout == "nt" else b) for a, b in pairs]
        graph = torch.cuda.CUDAGraph()
        torch.matmul(*pairs_t[0], out=out)
        torch.cuda.synchronize()
        stream = torch.cuda.ExternalStream(device_stream().queue.number)
        with torch.cuda.graph(graph, stream=stream):
            for number in range(count):
                torch.matmul(*pairs_t[number % sets], out=out)
        subject, batch = timer.prepare(graph.replay)
        peer = min(timer.measure(subject, batch).median for _ in range(2)) / count
        exact = pairs_t[(count - 1) % sets][0].float() @ pairs_t[(count - 1) % sets][1].float()
    best, times = None, []
    for kind, values, splits in candidates(m, n, k):
        parts = tw.empty((splits, 1, m, n), f32) if kind == "split" else None
        builders = [(lambda w=w: launcher(w, kind, values, splits, parts)) for w in wanted]
        try:
            seconds = timed(timer, builders, count)
        except tw.TilewrightError as error:
            print("failed", shape, kind, values, str(error).splitlines()[0][:200], flush=True)
            continue
        if torch is not None:
            error = float((out.float() - exact).norm() / exact.norm())
            if not error < 2e-3:
                print("WRONG", shape, kind, values, splits, error, flush=True)
        times.append((seconds, kind, splits, values))
        emit(shape=shape, kind=kind, splits=splits, config=values, seconds=seconds)
    if torch is not None:
        graph.replay()
        again = min(timer.measure(subject, batch).median for _ in range(2)) / count
        peer = min(peer, again)
    emit(shape=shape, kind="cublas", seconds=peer)
    times.sort(key=lambda t: t[0])
    best = times[0]
    ratio = (peer or best[0]) / best[0]
    print(
        f"{str(shape):34} cublas {1e6 * (peer or 0):9.2f} best {1e6 * best[0]:9.2f} {ratio:6.3f} "
        f"{best[1]} {best[2]} {short(best[3])}",
        flush=True,
    )


def short(v) -> str:
    return (
        f"{v['BM']}x{v['BN']}x{v['BK']} L{v.get('LATENCY', 0)} w{v.get('num_worker_warps')}"
        f" c{v.get('num_ctas', 1)} o{v.get('occupancy', 1)}"
    )


def device_stream():
    return tw.empty((1,), f32).device.stream


def copies(torch, emit) -> None:
    """Variants of the kernel that adds partial sums."""
    timer = Timer(device_stream(), Effort(repetitions=3, rounds=2, warmup=0.002))
    for m, n, splits in (
        (128, 128, 16),
        (128, 128, 64),
        (128, 512, 16),
        (64, 4096, 4),
        (512, 512, 8),
        (2048, 2048, 3),
    ):
        a, b = tw.empty((m, 64), f16), tw.empty((n, 64), f16)
        w = product(a, b, ProductRequest("matmul", transpose_b=True))[0]
        parts = tw.empty((splits, 1, m, n), f32)
        line = []
        for tile in ((1, 128), (2, 128), (4, 128), (8, 128), (16, 128), (4, 64)):
            for depth in (4, 8, 16):
                for more in ({}, {"allow_tma": False}):
                    kernel = sum_splits_kernel.with_hints(occupancy=4, **more)

                    def build(kernel=kernel, tile=tile, depth=depth, w=w, parts=parts):
                        return kernel(
                            w.out.partition(1, *tile),
                            parts,
                            w.bias,
                            w.residual,
                            DEPTH=depth,
                            **w.form.epilogue,
                        )

                    try:
                        line.append(
                            (timed(timer, [build], 8), tile, depth, more.get("allow_tma", True))
                        )
                    except tw.TilewrightError as error:
                        print(tile, depth, more, str(error)[:150])
        line.sort(key=lambda one: one[0])
        print(
            "sum",
            m,
            n,
            splits,
            *(
                f"{1e6 * t:.2f} {tile} d{d} {'tma' if tma else 'ld'};"
                for t, tile, d, tma in line[:9]
            ),
            f"... {1e6 * line[-1][0]:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
