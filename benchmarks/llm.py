"""Decoding and prefill of Qwen3 with random weights, in the sizes that are published.

`python benchmarks/llm.py --size 4B --context 1024` prints the time of a step and of a prompt as
JSON, with the machine and its versions. Bytes of a step are honest: every weight that is read once,
without the rows of the embedding that are not, and the keys and values of the context. `--quick`
takes a tiny model of the same kind, for the CPU.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import tilewright as tw
from tilewright import bf16, f32
from tilewright.bench import machine_facts
from tilewright.llm.config import ModelConfig
from tilewright.llm.model import Model
from tilewright.llm.params import SamplingParams
from tilewright.llm.runner import Runner
from tilewright.llm.sampling import Kind
from tilewright.llm.weights import ModelWeights, assembled, declared_weights

BANDWIDTH = 4.8e12  # bytes a second of an H200
COMMON = {
    "architectures": ["Qwen3ForCausalLM"], "vocab_size": 151936, "head_dim": 128,
    "rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 40960,
}  # fmt: skip
# Layers, hidden, intermediate, heads, key heads, tied head.
SIZES = {
    "0.6B": (28, 1024, 3072, 16, 8, True),
    "1.7B": (28, 2048, 6144, 16, 8, True),
    "4B": (36, 2560, 9728, 32, 8, True),
    "8B": (36, 4096, 12288, 32, 8, False),
    "14B": (40, 5120, 17408, 40, 8, False),
    "32B": (64, 5120, 25600, 64, 8, False),
}
QUICK = (2, 64, 96, 4, 2, True)


def config_of(size: str, is_quick: bool) -> ModelConfig:
    """The numbers of a model."""
    layers, hidden, inner, heads, kv_heads, is_tied = QUICK if is_quick else SIZES[size]
    sizes = {
        "num_hidden_layers": layers, "hidden_size": hidden, "intermediate_size": inner,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "tie_word_embeddings": is_tied,
    }  # fmt: skip
    small = {"vocab_size": 500, "head_dim": 32} if is_quick else {}
    return ModelConfig.from_dict({**COMMON, **sizes, **small})


def random_weights(config: ModelConfig, dtype: type[tw.DType], device: tw.Device) -> ModelWeights:
    """Weights made on the device."""
    made = {
        one.name: tw.randn(one.shape, dtype, seed=number, device=device)
        for number, one in enumerate(declared_weights(config))
    }
    return assembled(config, made)


def step_bytes(config: ModelConfig, context: int, itemsize: int) -> int:
    """Bytes that one step of one sequence has to read."""
    unread = 0 if config.is_tied else config.vocabulary * config.hidden
    cached = 2 * config.layers * config.kv_heads * config.head_dim * context
    return (config.parameters - unread + cached) * itemsize


def measure(runner: Runner, context: int, steps: int, rounds: int) -> tuple[float, float]:
    """Seconds of the prefill of a prompt, and of a step behind it: the least of some rounds."""
    device, prompt = runner.model.device, [n % runner.known for n in range(context)]
    prefills, times = [], []
    for _ in range(rounds + 1):  # the first round compiles kernels
        start = time.perf_counter()
        runner.admit(0, prompt, SamplingParams(), seed=0)
        device.synchronize()
        prefills.append(time.perf_counter() - start)
        start = time.perf_counter()
        for _ in range(steps):
            runner.step(Kind.GREEDY)
        device.synchronize()
        times.append((time.perf_counter() - start) / steps)
    return min(prefills[1:]), min(times[1:])


def main() -> None:
    """Measure one size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="0.6B")
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default=None)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.context, options.steps, options.rounds = 40, 3, 1
    device = tw.empty((0,), f32, device=options.device).device
    dtype = f32 if device.kind == "cpu" else bf16
    config = config_of(options.size, options.quick)
    weights = random_weights(config, dtype, device)
    length = options.context + options.steps + 1
    runner = Runner(Model(config, weights, slots=1, length=length), config.vocabulary)
    prefill, step = measure(runner, options.context, options.steps, options.rounds)
    read = step_bytes(config, options.context, weights.embedding.itemsize)
    found: dict[str, Any] = {
        "machine": machine_facts(),
        "device": device.name,
        "size": "quick" if options.quick else options.size,
        "dtype": dtype.label,
        "context": options.context,
        "prefill_ms": 1e3 * prefill,
        "step_ms": 1e3 * step,
        "tokens_per_second": 1 / step,
        "bytes_per_step": read,
        "of_4.8_TB/s": read / step / BANDWIDTH,
    }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
