"""Forms of the attention kernel that the library does not have, beside the library and cuDNN.

    python benchmarks/attention_forms.py [--lengths 1024,8192] [--channels 128] [--json FILE]

A loop over keys has two products a step, with powers between them. The assembler waits for each
product, so what overlaps is up to the form of the loop. Here the product with the values is a step
behind: scores of a tile are under way before the values of the tile before it are taken in, and the
tile on the diagonal comes first. Lengths are multiples of the tiles, queries as many as keys.

What was seen of other forms on an H200 (f16, 8,192 places, 128 channels): two tiles of keys a step,
with buffers of their own, are no faster; nor is a branch around the rescaling; loading values
before scores costs a third. Blocks that stay are faster only where one loop without masks is all.
"""

# ruff: noqa: N803, N806 (constants of a kernel are upper case)

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from attention import CUDNN, Problem, Shape
from lab import Lab, add_options, open_lab

import tilewright as tw
from tilewright import Const, Mapped, Mut, Ref, Tile, f32
from tilewright.bench import Candidate, Report, Table, compare, graph_of
from tilewright.dims import BM, B, D, H, K, L, S, T
from tilewright.kernels import attention
from tilewright.kernels.arithmetic import LOG2_E
from tilewright.kernels.online_softmax import LOWEST
from tilewright.tune import Config

__all__ = ["main"]

LIBRARY = "library"
LIMIT = 1e-3


def _weigh(scores: Any, highest: Any, total: Any, scale: f32) -> tuple[Any, Any, Any, Any]:
    """The powers of scores, what they fade those before them by, and the new state of the rows."""
    top = tw.maximum(highest, tw.max(scores, axis=1, keepdims=True))
    weights = tw.exp2(tw.fma(scores, scale, -(top * scale)), ftz=True)
    fade = tw.exp2((highest - top) * scale, ftz=True)
    return weights, fade, top, total * fade + tw.sum(weights, axis=1, keepdims=True)


def _a_step_behind(
    queries: Tile[Any], keys: Any, values: Any, at: tuple[int, int, int], scale: f32, CAUSAL: bool
) -> Tile[f32]:
    b, h, i = at
    BM, D = queries.shape
    BN = keys[b, h, 0, 0].shape[2]
    rows = i * BM + tw.arange(BM)[:, None]
    end = min(tw.cdiv((i + 1) * BM, BN), keys.num_tiles(2)) if CAUSAL else keys.num_tiles(2)
    last = max(end - 1, 0)
    scores = queries @ keys[b, h, last, 0].reshape(BN, D).T
    if CAUSAL:
        scores = tw.where(tw.arange(BN) <= rows - last * BN, scores, -math.inf)
    acc = tw.zeros((BM, D), f32)
    weights, fade, highest, total = _weigh(
        scores, tw.full((BM, 1), LOWEST, f32), tw.zeros((BM, 1), f32), scale
    )
    for j in range(min(last, keys.num_tiles(2))):
        scores = queries @ keys[b, h, j, 0].reshape(BN, D).T
        before = values[b, h, last if j == 0 else j - 1, 0].reshape(BN, D)
        acc = tw.mma(weights.astype(before.dtype), before, acc * fade)
        weights, fade, highest, total = _weigh(scores, highest, total, scale)
    before = values[b, h, max(last - 1, 0), 0].reshape(BN, D)
    acc = tw.mma(weights.astype(before.dtype), before, acc * fade)
    return tw.divide(acc, total, rounding="approx")


@tw.kernel(deny_checks=True)
def behind(
    z: Mut[T, Literal[1], Literal[1], BM, D],
    q: Ref[T, B, H, S, D], k: Ref[T, B, K, L, D], v: Ref[T, B, K, L, D], scale: f32,
    *, BN: Const[int] = 128, CAUSAL: Const[bool] = False,
) -> None:  # fmt: skip
    """BM queries of one head."""
    tw.require(L % BN == 0 and L >= BN)
    b, h, i, _ = z.index
    keys, values = k.partition(1, 1, BN, D), v.partition(1, 1, BN, D)
    queries = q.load_like(z).reshape(BM, D)
    means = _a_step_behind(queries, keys, values, (b, h, i), scale, CAUSAL)
    z.store(means.astype(z.dtype).reshape(1, 1, BM, D))


@tw.kernel(deny_checks=True)
def behind_walk(
    z: Mapped[T, Literal[1], Literal[1], BM, D],
    q: Ref[T, B, H, S, D], k: Ref[T, B, K, L, D], v: Ref[T, B, K, L, D], scale: f32,
    *, BN: Const[int] = 128, CAUSAL: Const[bool] = False,
) -> None:  # fmt: skip
    """The same by blocks that stay."""
    tw.require(L % BN == 0 and L >= BN)
    keys, values, tiles = (
        k.partition(1, 1, BN, D),
        v.partition(1, 1, BN, D),
        q.partition(1, 1, BM, D),
    )
    for at in z.indices():
        b, h, i, _ = at
        queries = tiles[b, h, i, 0].reshape(BM, D)
        means = _a_step_behind(queries, keys, values, (b, h, i), scale, CAUSAL)
        z.store(means.astype(z.dtype).reshape(1, 1, BM, D), at)


# An odd number of blocks that stay: the lengths of a causal head's tiles fall evenly on them.
CONFIGS = (
    Config.of(BM=64, BN=128, occupancy=2, num_worker_warps=4),
    Config.of(BM=128, BN=128, num_ctas=2, occupancy=2, num_worker_warps=4),
    Config.of(BM=128, BN=128, occupancy=1, num_worker_warps=8),
    Config.of(BM=256, BN=128, num_ctas=2, occupancy=1, num_worker_warps=8),
    Config.of(BM=128, BN=128, occupancy=1, num_worker_warps=8, blocks=131),
    Config.of(BM=64, BN=128, occupancy=2, num_worker_warps=4, blocks=263),
)


def _launch(config: Config, z: tw.Tensor, inputs: Any, causal: bool) -> tw.DeviceOp[Any]:
    cut = z.partition(1, 1, config["BM"], z.shape[3])
    scale = LOG2_E / math.sqrt(z.shape[3])
    options = {"BN": config["BN"], "CAUSAL": causal}
    if config.schedule is None:
        return config.applied_to(behind)(cut, *inputs, scale, **options)
    return config.applied_to(behind_walk)(config.walk(cut), *inputs, scale, **options)


def _candidates(lab: Lab, problem: Problem) -> Iterator[Candidate]:
    causal = problem.shape.causal
    # Only one tile of keys is masked: it must be all that lies on the diagonal.
    configs = [config for config in CONFIGS if not causal or config["BM"] <= config["BN"]]
    builds: dict[str, Callable[[], tw.DeviceOp[Any]]] = {
        str(config): lambda config=config: _launch(config, problem.out, problem.sets[0], causal)
        for config in configs
    }
    builds[LIBRARY] = lambda: attention(*problem.sets[0], causal=causal, out=problem.out)

    def compile_one(build: Callable[[], tw.DeviceOp[Any]]) -> None:
        with closing(build()) as operation:
            operation.compile()

    if lab.has_gpu:
        with ThreadPoolExecutor() as pool:
            list(pool.map(compile_one, list(builds.values())))
        theirs = lab.captured(problem.theirs("CUDNN_ATTENTION"), 4)
        yield Candidate(CUDNN, theirs, lambda: problem.error(theirs, is_ours=False), LIMIT)
    for name, build in builds.items():
        graph = graph_of(build, 4)
        check = (lambda g=graph: problem.error(g.launch, is_ours=True)) if lab.has_gpu else None
        yield Candidate(name, graph.launch, check, LIMIT)


def _measure(lab: Lab, report: Report, shape: Shape) -> None:
    problem = Problem(lab, shape, sets=1)
    found = compare(_candidates(lab, problem), timer=lab.timer(repetitions=5, rounds=3))
    kind = "causal" if shape.causal else "full"
    table = Table(
        f"{kind} attention, {shape.channels} channels, {shape.length} places, TFLOP/s",
        ("form", "TFLOP/s", "to the first"),
    )
    for name in sorted(found.timings, key=found.seconds):
        rate = 4 * shape.flops / found.seconds(name) / 1e12
        table.add(name, f"{rate:.0f}", f"{found.speed(name):.3f}")
    print(table.to_text(), *found.failures.items(), sep="\n", flush=True)
    report.table(table)
    report.figure("forms", shape=vars(shape), **found.to_json())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", default="1024,2048,4096,8192,16384")
    parser.add_argument("--channels", default="64,128")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    add_options(parser)
    options = parser.parse_args()
    lab = open_lab(options)
    report = Report("attention_forms", "Forms of the attention kernel", options.json)
    lengths = [256] if lab.is_quick else [int(n) for n in options.lengths.split(",")]
    with tw.device(lab.device):
        for channels in map(int, options.channels.split(",")):
            heads = 2 if lab.is_quick else 2048 // channels
            for length in lengths:
                for causal in (False, True):
                    batch = 1 if lab.is_quick else max(16384 // length, 1)
                    _measure(
                        lab, report, Shape(batch, heads, heads, length, length, channels, causal)
                    )


if __name__ == "__main__":
    main()
