"""The architecture of a model: the numbers of `config.json`, checked.

Both generations of the file are read: `rope_theta` and `torch_dtype` at the top, and
`rope_parameters` and `dtype`. Known architectures are Qwen3, Llama and Qwen3-MoE. They form one
stack: grouped attention with an optional norm of queries and keys, and a gated MLP, either one or
a choice among experts. Options that change the mathematics and are not part of that stack are
refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tilewright as tw
from tilewright import bf16, f16, f32
from tilewright.llm.errors import ModelError

__all__ = ["ARCHITECTURES", "DTYPES", "Experts", "ModelConfig", "RopeConfig", "as_ids", "read_json"]

# Architectures by name: whether queries and keys have norms, and whether MLPs have experts.
ARCHITECTURES = {
    "Qwen3ForCausalLM": (True, False),
    "LlamaForCausalLM": (False, False),
    "Qwen3MoeForCausalLM": (True, True),
}
# dtypes of weights by the names of `config.json`.
DTYPES = {"float32": f32, "float16": f16, "bfloat16": bf16}
ROPE_TYPES = ("default", "linear", "llama3")
WIDEST_HEAD = 256  # channels, as in the attention of `tilewright.kernels`


@dataclass(frozen=True)
class RopeConfig:
    """Rotary position embedding: the base of the angles, and their scaling."""

    theta: float
    type: str = "default"  # one of ROPE_TYPES
    factor: float = 1.0
    low_frequency: float = 1.0  # of `llama3`
    high_frequency: float = 4.0
    original_length: int = 8192


@dataclass(frozen=True)
class Experts:
    """The MLPs of a mixture of experts."""

    count: int
    used: int  # experts of a token
    intermediate: int
    is_normalised: bool  # the shares of a token's experts sum to 1


@dataclass(frozen=True)
class ModelConfig:
    """The numbers of one model."""

    architecture: str
    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    norm_eps: float
    rope: RopeConfig
    max_length: int
    is_tied: bool  # the output head is the embedding
    has_qk_norm: bool
    dtype: type[tw.DType]  # of the checkpoint
    eos_ids: tuple[int, ...] = ()
    experts: Experts | None = None
    sparse_layers: frozenset[int] = frozenset()  # layers with experts in place of one MLP

    @property
    def qkv_width(self) -> int:
        """Columns of a fused row of queries, keys and values."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def parameters(self) -> int:
        """Elements of all weights; a tied head counts once."""
        attention = self.hidden * (self.qkv_width + self.heads * self.head_dim)
        norms = 2 * self.hidden + (2 * self.head_dim if self.has_qk_norm else 0)
        dense, sparse = self.layers - len(self.sparse_layers), len(self.sparse_layers)
        mlps = dense * 3 * self.hidden * self.intermediate
        if self.experts is not None:
            each = 3 * self.hidden * self.experts.intermediate + self.hidden  # a row of the router
            mlps += sparse * self.experts.count * each
        tables = self.vocabulary * self.hidden * (1 if self.is_tied else 2)
        return self.layers * (attention + norms) + mlps + tables + self.hidden

    @classmethod
    def from_folder(cls, folder: Path) -> ModelConfig:
        """The model of a folder with a `config.json`."""
        path = folder / "config.json"
        if not path.is_file():
            raise ModelError(
                f"{folder} has no config.json: a model is a folder with config.json, tokenizer.json"
                " and safetensors, or a GGUF file"
            )
        return cls.from_dict(read_json(path), str(path))

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], source: str = "config.json") -> ModelConfig:
        """The model that the fields of a `config.json` describe."""
        fields = _Fields(raw, source)
        name = _architecture(fields)
        has_qk_norm, is_sparse = ARCHITECTURES[name]
        _refuse_other_mathematics(fields)
        heads, hidden = fields.count("num_attention_heads"), fields.count("hidden_size")
        kv_heads = fields.count("num_key_value_heads", heads)
        head_dim = fields.count("head_dim", hidden // heads)
        if heads % kv_heads:
            fields.refuse(f"num_attention_heads {heads} is no multiple of {kv_heads} key heads")
        if head_dim % 2 or head_dim > WIDEST_HEAD:
            fields.refuse(f"head_dim {head_dim} is no even number up to {WIDEST_HEAD}")
        layers = fields.count("num_hidden_layers")
        experts = _experts(fields) if is_sparse else None
        return cls(
            architecture=name,
            vocabulary=fields.count("vocab_size"),
            hidden=hidden,
            layers=layers,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            intermediate=fields.count("intermediate_size"),
            norm_eps=fields.number("rms_norm_eps", 1e-6),
            rope=_rope(fields),
            max_length=fields.count("max_position_embeddings"),
            is_tied=bool(raw.get("tie_word_embeddings", False)),
            has_qk_norm=has_qk_norm,
            dtype=_dtype(fields),
            eos_ids=as_ids(raw.get("eos_token_id")),
            experts=experts,
            sparse_layers=_sparse_layers(fields, layers) if is_sparse else frozenset(),
        )


@dataclass(frozen=True)
class _Fields:
    """Fields of a file, with errors that name it."""

    raw: Mapping[str, Any]
    source: str

    def refuse(self, reason: str) -> None:
        raise ModelError(f"{self.source}: {reason}")

    def number(self, name: str, default: float | None = None) -> float:
        value = self.raw.get(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(f"{name} is a number, not {value!r}")
        return float(value)  # type: ignore[arg-type]

    def count(self, name: str, default: int | None = None) -> int:
        number = self.number(name, default)
        if number != int(number) or number < 1:
            self.refuse(f"{name} is a positive whole number, not {number}")
        return int(number)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(found, dict):
        raise ModelError(f"{path} holds a JSON {type(found).__name__}, and an object is expected")
    return found


def as_ids(given: Any) -> tuple[int, ...]:
    """Token ids given as none, one or several."""
    if given is None:
        return ()
    return tuple(given) if isinstance(given, list | tuple) else (int(given),)


def _architecture(fields: _Fields) -> str:
    names = fields.raw.get("architectures") or ["(none)"]
    if names[0] not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        fields.refuse(f"the architecture {names[0]} is unknown; known are {known}")
    return str(names[0])


def _refuse_other_mathematics(fields: _Fields) -> None:
    """Refuse options that change the results and that the stack does not have."""
    raw = fields.raw
    for name in ("attention_bias", "mlp_bias", "use_sliding_window"):
        if raw.get(name):
            fields.refuse(f"{name} is set, and no kernel of this stack has it")
    if raw.get("hidden_act", "silu") != "silu":
        fields.refuse(f"hidden_act {raw['hidden_act']!r} is unknown; known is 'silu'")
    if raw.get("quantization_config"):
        fields.refuse("the weights are quantised; give a checkpoint of f32, f16 or bf16")


def _rope(fields: _Fields) -> RopeConfig:
    """The rotary embedding, of either generation of the file."""
    raw = fields.raw
    found = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    given = _Fields({"rope_theta": raw.get("rope_theta"), **found}, fields.source)
    kind = found.get("rope_type", found.get("type", "default"))
    if kind not in ROPE_TYPES:
        fields.refuse(f"rope_type {kind!r} is unknown; known are {', '.join(ROPE_TYPES)}")
    return RopeConfig(
        theta=given.number("rope_theta", 10_000.0),
        type=kind,
        factor=given.number("factor", 1.0),
        low_frequency=given.number("low_freq_factor", 1.0),
        high_frequency=given.number("high_freq_factor", 4.0),
        original_length=given.count("original_max_position_embeddings", 8192),
    )


def _experts(fields: _Fields) -> Experts:
    count = fields.count("num_experts" if "num_experts" in fields.raw else "num_local_experts")
    used = fields.count("num_experts_per_tok")
    if used > count:
        fields.refuse(f"num_experts_per_tok {used} exceeds the {count} experts")
    return Experts(
        count=count,
        used=used,
        intermediate=fields.count("moe_intermediate_size"),
        is_normalised=bool(fields.raw.get("norm_topk_prob", False)),
    )


def _sparse_layers(fields: _Fields, layers: int) -> frozenset[int]:
    step = fields.count("decoder_sparse_step", 1)
    dense = set(fields.raw.get("mlp_only_layers") or ())
    return frozenset(n for n in range(layers) if (n + 1) % step == 0 and n not in dense)


def _dtype(fields: _Fields) -> type[tw.DType]:
    name = fields.raw.get("dtype") or fields.raw.get("torch_dtype") or "float32"
    name = str(name).removeprefix("torch.")
    if name not in DTYPES:
        fields.refuse(f"dtype {name!r} is unknown; known are {', '.join(DTYPES)}")
    return DTYPES[name]
