"""A transformer layer of library functions, recorded once and replayed for each token.

The program has no kernel of its own. All tensors of a step are allocated before: a replay copies
the next token in, with its position, which determines the range of the KV cache.
"""

from typing import Any, NamedTuple

import numpy as np

import tilewright as tw
from tilewright import f16, i32, kernels
from tilewright.kernels.reference import attention, memory_bound

TOKENS, PLACES, HEADS, KEY_HEADS, CHANNELS, HIDDEN = 9, 64, 4, 2, 32, 192
WIDTH, BOTH = HEADS * CHANNELS, HEADS + KEY_HEADS
Array = np.ndarray[Any, Any]


class Weights(NamedTuple):
    """The weights of one layer; matrices are [outputs, inputs], `cos` and `sin` tables."""

    first_norm: Any
    second_norm: Any
    qkv: Any
    o: Any
    gate_up: Any
    down: Any
    cos: Any
    sin: Any


class Token(NamedTuple):
    """The inputs and outputs of a step."""

    x: tw.Tensor
    place: tw.Tensor
    length: tw.Tensor
    z: tw.Tensor


def record(step: tw.Graph, token: Token, w: Weights) -> None:
    """The whole layer, for one token."""

    def linear(x: tw.Tensor, weight: tw.Tensor, **epilogue: Any) -> tw.Tensor:
        out = epilogue.pop("out", tw.empty((1, weight.shape[0]), f16))
        return step.record(kernels.matmul(x, weight, transpose_b=True, out=out, **epilogue))

    def normed(x: tw.Tensor, weight: tw.Tensor) -> tw.Tensor:
        return step.record(kernels.rms_norm(x, weight, out=tw.empty(x.shape, f16)))

    heads = linear(normed(token.x, w.first_norm), w.qkv).reshape(1, BOTH + KEY_HEADS, 1, CHANNELS)
    turned = tw.empty((1, BOTH, 1, CHANNELS), f16)
    step.record(kernels.rope(heads[:, :BOTH], w.cos, w.sin, starts=token.place, out=turned))
    keys, values = (tw.zeros((1, KEY_HEADS, PLACES, CHANNELS), f16) for _ in "kv")
    new = turned[:, HEADS:], heads[:, BOTH:]
    step.record(kernels.append_kv(keys, values, *new, token.place))

    queries, mixed = turned[:, :HEADS, 0], tw.empty((1, HEADS, CHANNELS), f16)
    parts = kernels.decode_parts(queries, keys)
    cached = (queries, keys, values, token.length)
    step.record(kernels.decode_attention(*cached, out=mixed, parts=parts))
    attended = linear(mixed.reshape(1, WIDTH), w.o, residual=token.x)

    both = linear(normed(attended, w.second_norm), w.gate_up)
    hidden = tw.empty((1, HIDDEN), f16)
    step.record(kernels.silu_mul(both[:, :HIDDEN], both[:, HIDDEN:], out=hidden))
    linear(hidden, w.down, residual=attended, out=token.z)


def exact(x: Array, w: Weights) -> Array:
    """The layer of all tokens at once, in float64."""
    first, second, qkv, o, gate_up, down, cos, sin = (one.astype(np.float64) for one in w)
    split = (memory_bound.rms_norm(x, first) @ qkv.T).reshape(len(x), -1, CHANNELS)
    heads = split.swapaxes(0, 1)[None]
    turned = attention.rope(heads[:, :BOTH], cos, sin)
    mixed = attention.attention(turned[:, :HEADS], turned[:, HEADS:], heads[:, BOTH:], causal=True)
    attended = x + mixed[0].swapaxes(0, 1).reshape(len(x), WIDTH) @ o.T
    both = memory_bound.rms_norm(attended, second) @ gate_up.T
    return np.asarray(attended + memory_bound.silu_mul(both[:, :HIDDEN], both[:, HIDDEN:]) @ down.T)


def main() -> None:
    """Compare with NumPy, token by token."""
    generator = np.random.default_rng(0)
    rows = ((BOTH + KEY_HEADS) * CHANNELS, WIDTH), (WIDTH, WIDTH), (2 * HIDDEN, WIDTH)
    matrices = [generator.standard_normal(s) / np.sqrt(s[1]) for s in (*rows, (WIDTH, HIDDEN))]
    norms = 1 + generator.standard_normal((2, WIDTH)) / 10
    angles = np.outer(np.arange(PLACES), 1e4 ** (-np.arange(CHANNELS // 2) / (CHANNELS // 2)))
    narrow = (one.astype(np.float16) for one in (*norms, *matrices))
    waves = (wave(angles).astype(np.float32) for wave in (np.cos, np.sin))
    host = Weights(*narrow, *waves)
    x = generator.standard_normal((TOKENS, WIDTH)).astype(np.float16)

    row, number = (1, WIDTH), (1,)
    token = Token(
        tw.zeros(row, f16), tw.zeros(number, i32), tw.zeros(number, i32), tw.empty(row, f16)
    )
    with tw.graph() as step:
        record(step, token, Weights(*map(tw.from_numpy, host)))
    found = np.empty((TOKENS, WIDTH))
    for place in range(TOKENS):
        tw.copy(token.x, tw.from_numpy(x[place : place + 1])).submit()
        tw.fill(token.place, place).submit()
        tw.fill(token.length, place + 1).submit()
        step.launch().submit()
        found[place] = token.z.numpy()  # waits for this step
    error = np.abs(found - exact(x.astype(np.float64), host)).max()
    assert error < 2e-2, error
    print(f"{TOKENS} tokens through a layer of {WIDTH} channels: off by at most {error:.1e}")


if __name__ == "__main__":
    main()
