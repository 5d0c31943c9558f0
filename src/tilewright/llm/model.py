"""The decoder: one stack of library kernels for Qwen3, Llama and Qwen3-MoE.

`forward` is the plan of a step: the launches that take a batch of tokens through all layers, each
into memory that is allocated before. `run` receives them one by one, and either submits them or
records them in a graph. A step has B sequences of S tokens: decoding has one token of every
sequence, prefill has many tokens of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import tilewright as tw
from tilewright import f32, i64, kernels
from tilewright.llm.config import ModelConfig
from tilewright.llm.mixture import MixtureWork, mix_experts
from tilewright.llm.rotary import rotary_tables
from tilewright.llm.weights import Layer, ModelWeights

__all__ = ["Attention", "LayerCache", "Model", "Run", "StepMemory", "forward", "head"]

# Takes the launches of a step one by one: submits or records them.
Run = Callable[[tw.DeviceOp[Any]], object]


class LayerCache(NamedTuple):
    """Keys and values of one layer, [slot, head, position, channel]."""

    keys: tw.Tensor
    values: tw.Tensor


class Attention(Protocol):
    """Where the tokens of a step stand, and how they attend."""

    @property
    def starts(self) -> tw.Tensor:
        """The position of the first token of each sequence, i32 [B]."""

    def cache_of(self, cache: LayerCache) -> LayerCache:
        """The part of a layer's cache that the step appends to."""

    def attend(self, run: Run, q: tw.Tensor, cache: LayerCache, out: tw.Tensor) -> None:
        """Attention of queries [B, H, S, D] with the cache, tokens of this step included."""


class Model:
    """A model on a device: its weights, tables of angles, and the caches of all layers."""

    def __init__(self, config: ModelConfig, weights: ModelWeights, slots: int, length: int) -> None:
        self.config, self.weights = config, weights
        self.slots, self.length = slots, length
        self.device, self.dtype = weights.embedding.device, weights.embedding.dtype
        tables = rotary_tables(config.rope, config.head_dim, length)
        self.cosines, self.sines = (tw.from_numpy(t, device=self.device) for t in tables)
        shape = (slots, config.kv_heads, length, config.head_dim)
        with tw.device(self.device):
            self.caches = tuple(
                LayerCache(tw.zeros(shape, self.dtype), tw.zeros(shape, self.dtype))
                for _ in range(config.layers)
            )


class StepMemory(NamedTuple):
    """Memory of a step of B sequences with S tokens: rows for all tokens."""

    ids: tw.Tensor  # i64 [B S]
    x: tw.Tensor  # [B S, hidden], the residual stream
    y: tw.Tensor  # the residual stream between attention and MLP
    normed: tw.Tensor  # [B S, hidden]
    qkv: tw.Tensor  # [B S, fused row of queries, keys and values]
    turned: tw.Tensor  # [B S, queries], after norm and rotation
    mixed: tw.Tensor  # [B S, queries], the result of attention
    gate_up: tw.Tensor  # [B S, 2 intermediate]
    gated: tw.Tensor  # [B S, intermediate]
    mixture: MixtureWork | None

    @classmethod
    def allocate(cls, model: Model, rows: int) -> StepMemory:
        """Memory for as many tokens."""
        config = model.config
        queries, inner = config.heads * config.head_dim, config.intermediate
        widths = (*(config.hidden,) * 3, config.qkv_width, queries, queries, 2 * inner, inner)
        x, y, normed, qkv, turned, mixed, gate_up, gated = (
            tw.empty((rows, width), model.dtype, device=model.device) for width in widths
        )
        ids = tw.empty((rows,), i64, device=model.device)
        mixture = MixtureWork.allocate(config.experts, x) if config.experts else None
        return cls(ids, x, y, normed, qkv, turned, mixed, gate_up, gated, mixture)

    def tensors(self) -> tuple[tw.Tensor, ...]:
        """All tensors."""
        return (*self[:-1], *(self.mixture or ()))

    def first(self, rows: int) -> StepMemory:
        """The memory of the first rows."""
        return StepMemory(
            self.ids[:rows], self.x[:rows], self.y[:rows], self.normed[:rows], self.qkv[:rows],
            self.turned[:rows], self.mixed[:rows], self.gate_up[:rows], self.gated[:rows],
            self.mixture and self.mixture.first(rows),
        )  # fmt: skip


def forward(model: Model, work: StepMemory, attention: Attention, run: Run) -> None:
    """Tokens `work.ids` through all layers and the last norm, to `work.normed`."""
    config, weights = model.config, model.weights
    run(kernels.embedding(work.ids, weights.embedding, out=work.x))
    for layer, cache in zip(weights.layers, model.caches, strict=True):
        _attend(model, layer, attention.cache_of(cache), work, attention, run)
        run(kernels.rms_norm(work.y, layer.second_norm, eps=config.norm_eps, out=work.normed))
        _mlp(model, layer, work, run)
    run(kernels.rms_norm(work.x, weights.norm, eps=config.norm_eps, out=work.normed))


def head(model: Model, hidden: tw.Tensor, logits: tw.Tensor, run: Run) -> None:
    """The logits of rows of hidden states, f32 [rows, vocabulary]."""
    assert logits.dtype is f32
    run(kernels.matmul(hidden, model.weights.head, transpose_b=True, out=logits))


def _attend(
    model: Model, layer: Layer, cache: LayerCache, work: StepMemory, attention: Attention, run: Run
) -> None:
    """`y = x + attention(norm(x))`, with the new keys and values in the cache."""
    config, eps = model.config, model.config.norm_eps
    run(kernels.rms_norm(work.x, layer.first_norm, eps=eps, out=work.normed))
    run(kernels.matmul(work.normed, layer.qkv, transpose_b=True, out=work.qkv))
    sequences, both = attention.starts.shape[0], config.heads + config.kv_heads

    def heads_of(rows: tw.Tensor) -> tw.Tensor:
        """Rows [B S, heads D] as [B, heads, S, D]."""
        count = rows.shape[1] // config.head_dim
        return rows.reshape(sequences, -1, count, config.head_dim).permute(0, 2, 1, 3)

    fused, turned, mixed = heads_of(work.qkv), heads_of(work.turned), heads_of(work.mixed)
    q, k, v = fused[:, : config.heads], fused[:, config.heads : both], fused[:, both:]
    angles = (model.cosines, model.sines, attention.starts)
    q_norm, k_norm = layer.q_norm, layer.k_norm
    new = kernels.norm_rope_append(
        q, k, v, *cache, *angles, q_norm=q_norm, k_norm=k_norm, eps=eps, out=turned
    )
    run(new)
    attention.attend(run, turned, cache, mixed)
    run(kernels.matmul(work.mixed, layer.o, transpose_b=True, residual=work.x, out=work.y))


def _mlp(model: Model, layer: Layer, work: StepMemory, run: Run) -> None:
    """`x = y + mlp(norm(y))`, of one MLP or of the experts of each token."""
    experts, normed = model.config.experts, work.normed
    if layer.mixture is not None and work.mixture is not None and experts is not None:
        mix_experts(experts, layer.mixture, normed, work.y, work.mixture, work.x, run)
        return
    assert layer.gate_up is not None
    assert layer.down is not None
    inner = model.config.intermediate
    run(kernels.matmul(normed, layer.gate_up, transpose_b=True, out=work.gate_up))
    gate, up = work.gate_up[:, :inner], work.gate_up[:, inner:]
    run(kernels.silu_mul(gate, up, out=work.gated))
    run(kernels.matmul(work.gated, layer.down, transpose_b=True, residual=work.y, out=work.x))
