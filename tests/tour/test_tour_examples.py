"""The scripts under `examples/` run, and without a warning.

All but one run in this process, so that their kernels are seen by what looks at every kernel of a
run: where checks are settled, and whether the assemblers of all targets take them.
"""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAID = {
    "add.py": "counted to 1000 on ",
    "argmax.py": "the same, fused with the product: ",
    "attention.py": "causal attention, 77 tokens, 2 key heads: off by at most ",
    "attention_backward.py": "dv: off by at most ",
    "autotune.py": "12 configurations, of which B=",
    "batch_matmul.py": "5 products of (70, 100) and (100, 90): off by ",
    "block_scaled.py": "8-bit product: off by at most ",
    "convolution.py": "5 x 3 filter: off by at most ",
    "creation.py": "eye, linspace and convert: right",
    "decode_attention.py": "150 cached tokens in 6 stretches: off by at most ",
    "decoder_layer.py": "9 tokens through a layer of 128 channels: off by at most ",
    "dropout.py": "dropped 33.5% of ones, and their mean is 1.00",
    "embedding.py": "embedding of 45 ids: right",
    "game_of_life.py": "30 generations: right, ",
    "gemm.py": "gemm of (300, 200) and (200, 500) into f32: off by ",
    "heat.py": "20 steps of heat: off by at most ",
    "hello_world.py": "hello from block 3 of 4",
    "histogram.py": "histogram of 10000 numbers, 971 of them outside: right",
    "kmeans.py": "500 points, 10 centres: right",
    "kv_cache.py": "rows 3 to 11 and 30 to 39 of the cache: right",
    "layer_norm_backward.py": "dbias: off by at most ",
    "linear_cross_entropy.py": "losses of 45 tokens over 1000 words: off by at most ",
    "mixture_of_experts.py": "50 tokens, 2 of 6 experts each: off by at most ",
    "mlp.py": "mlp of (100, 70): right",
    "mxfp8.py": "mxfp8 layer of (50, 384) and (70, 384): off by ",
    "n_body.py": "forces between 200 bodies: off by at most ",
    "norm_rope.py": "tokens 16 to 16: right",
    "norms.py": "qk_norm of 4 query heads and 2 key heads: right",
    "nvfp4.py": "nvfp4 layer of (50, 384) and (70, 384): off by ",
    "paged_attention.py": "paged attention of 5 sequences: off by at most ",
    "pointers.py": "scaled 1000 elements on ",
    "prefill_attention.py": "attention of (20, 8, 32) behind 50 cached tokens: off by at most ",
    "ragged_softmax.py": "softmax of 100 rows, ",
    "rope.py": "rope of (21, 4, 64) from place 17: right",
    "saxpy.py": "saxpy and scale of 10007 f64: right",
    "segment_sum.py": "sums of 1000 unsorted rows: right",
    "selective_scan.py": "scan over 40 moments: off by at most ",
    "silu_mul.py": "silu_mul of (37, 500): right",
    "softmax.py": "softmax of (100, 1000): off by at most ",
    "sorting.py": "numbers kept in order: right",
    "split_k.py": "product of (50, 2000) and (2000, 40), split in 7: off by ",
    "spmv.py": "elements in 300 rows: off by at most ",
}


def test_every_example_is_run():
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == SAID.keys()


def test_every_example_is_named_where_people_look():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in SAID if f"(examples/{name})" not in readme] == []


@pytest.mark.parametrize("name", sorted(SAID))
def test_an_example_runs(name, capsys, checked_twice):
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    assert SAID[name] in capsys.readouterr().out


def test_an_example_runs_as_a_reader_would_run_it():
    command = [sys.executable, "-W", "error", "examples/softmax.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, SAID["softmax.py"] in done.stdout) == (0, True), (
        done.stdout + done.stderr
    )


def test_an_example_can_be_explained():
    command = [sys.executable, "-m", "tilewright", "explain", "examples/gemm.py::gemm"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "none left in the kernel" in done.stdout
