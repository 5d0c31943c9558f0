"""Weights of a model: which tensors there are, and of which parts of a checkpoint each is made.

A declaration lists every tensor with its shape and the names that a checkpoint uses. Rows of
queries, keys and values form one matrix, and so do gates and ups, so that a layer reads each of
them in one product; the experts of a layer are one tensor with an axis for the expert.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import tilewright as tw
from tilewright.llm.config import Experts, ModelConfig

__all__ = [
    "DeclaredWeight",
    "Layer",
    "Mixture",
    "ModelWeights",
    "Part",
    "assembled",
    "declared_weights",
]


class Part(NamedTuple):
    """Rows of a tensor that a checkpoint stores under a name of its own."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class DeclaredWeight:
    """A tensor of the model, and the parts that follow each other in it."""

    name: str
    shape: tuple[int, ...]
    parts: tuple[Part, ...]


class Mixture(NamedTuple):
    """Weights of a mixture of experts; matrices are [expert, outputs, inputs]."""

    router: tw.Tensor  # [experts, hidden]
    gate_up: tw.Tensor
    down: tw.Tensor


class Layer(NamedTuple):
    """Weights of one layer; matrices are [outputs, inputs]."""

    first_norm: tw.Tensor
    qkv: tw.Tensor
    q_norm: tw.Tensor | None
    k_norm: tw.Tensor | None
    o: tw.Tensor
    second_norm: tw.Tensor
    gate_up: tw.Tensor | None
    down: tw.Tensor | None
    mixture: Mixture | None


class ModelWeights(NamedTuple):
    """Weights of a model; a tied head is the embedding itself."""

    embedding: tw.Tensor
    layers: tuple[Layer, ...]
    norm: tw.Tensor
    head: tw.Tensor


def declared_weights(config: ModelConfig) -> Iterator[DeclaredWeight]:
    """Every tensor of the model, in the order of a forward pass."""
    hidden, table = config.hidden, (config.vocabulary, config.hidden)
    yield _one("embedding", "model.embed_tokens.weight", table)
    for number in range(config.layers):
        yield from _attention(config, number)
        if config.experts is not None and number in config.sparse_layers:
            yield from _mixture(config.experts, hidden, number)
        else:
            yield from _mlp(config, number)
    yield _one("norm", "model.norm.weight", (hidden,))
    if not config.is_tied:
        yield _one("head", "lm_head.weight", table)


def assembled(config: ModelConfig, tensors: dict[str, tw.Tensor]) -> ModelWeights:
    """The weights as a structure, from tensors by their declared names."""

    def layer(number: int) -> Layer:
        def of(name: str) -> tw.Tensor | None:
            return tensors.get(f"{number}.{name}")

        has_experts = f"{number}.router" in tensors
        names = ("router", "expert_gate_up", "expert_down")
        mixture = Mixture(*(tensors[f"{number}.{name}"] for name in names)) if has_experts else None
        return Layer(
            tensors[f"{number}.first_norm"], tensors[f"{number}.qkv"], of("q_norm"), of("k_norm"),
            tensors[f"{number}.o"], tensors[f"{number}.second_norm"], of("gate_up"), of("down"),
            mixture,
        )  # fmt: skip

    layers = tuple(map(layer, range(config.layers)))
    head = tensors["embedding" if config.is_tied else "head"]
    return ModelWeights(tensors["embedding"], layers, tensors["norm"], head)


def _one(name: str, source: str, shape: tuple[int, ...]) -> DeclaredWeight:
    return DeclaredWeight(name, shape, (Part(source, shape),))


def _stacked(
    name: str, parts: tuple[Part, ...], shape: tuple[int, ...] | None = None
) -> DeclaredWeight:
    """Parts below each other, as a matrix or in a shape with the same rows."""
    rows = sum(part.shape[0] for part in parts)
    return DeclaredWeight(name, shape or (rows, *parts[0].shape[1:]), parts)


def _attention(config: ModelConfig, number: int) -> Iterator[DeclaredWeight]:
    layer, hidden, width = f"model.layers.{number}", config.hidden, config.head_dim
    yield _one(f"{number}.first_norm", f"{layer}.input_layernorm.weight", (hidden,))
    heads = {"q": config.heads, "k": config.kv_heads, "v": config.kv_heads}
    rows = tuple(
        Part(f"{layer}.self_attn.{name}_proj.weight", (count * width, hidden))
        for name, count in heads.items()
    )
    yield _stacked(f"{number}.qkv", rows)
    if config.has_qk_norm:
        for name in ("q_norm", "k_norm"):
            yield _one(f"{number}.{name}", f"{layer}.self_attn.{name}.weight", (width,))
    o = (hidden, config.heads * width)
    yield _one(f"{number}.o", f"{layer}.self_attn.o_proj.weight", o)
    yield _one(f"{number}.second_norm", f"{layer}.post_attention_layernorm.weight", (hidden,))


def _mlp(config: ModelConfig, number: int) -> Iterator[DeclaredWeight]:
    mlp, hidden, inner = f"model.layers.{number}.mlp", config.hidden, config.intermediate
    both = tuple(Part(f"{mlp}.{name}_proj.weight", (inner, hidden)) for name in ("gate", "up"))
    yield _stacked(f"{number}.gate_up", both)
    yield _one(f"{number}.down", f"{mlp}.down_proj.weight", (hidden, inner))


def _mixture(experts: Experts, hidden: int, number: int) -> Iterator[DeclaredWeight]:
    mlp, inner, count = f"model.layers.{number}.mlp", experts.intermediate, experts.count
    yield _one(f"{number}.router", f"{mlp}.gate.weight", (count, hidden))
    both = tuple(
        Part(f"{mlp}.experts.{expert}.{name}_proj.weight", (inner, hidden))
        for expert in range(count)
        for name in ("gate", "up")
    )
    yield _stacked(f"{number}.expert_gate_up", both, (count, 2 * inner, hidden))
    down = tuple(
        Part(f"{mlp}.experts.{expert}.down_proj.weight", (hidden, inner)) for expert in range(count)
    )
    yield _stacked(f"{number}.expert_down", down, (count, hidden, inner))
